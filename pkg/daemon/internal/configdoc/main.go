// Command configdoc makes docs/config.md from the comments of the config's structs, so that the page says what the code
// says.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"os"
	"reflect"
	"strconv"
	"strings"
)

// Where the page comes from and goes to, seen from the package daemon.
const (
	source = "config.go"
	target = "../../docs/config.md"
)

func main() {
	src, err := os.ReadFile(source)
	if err != nil {
		log.Fatal(err)
	}
	text, err := page(src)
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(target, []byte(text), 0o644); err != nil {
		log.Fatal(err)
	}
}

// page is the page for the source of the package's config.go. A field of the file without a comment is an error.
func page(src []byte) (string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), source, src, parser.ParseComments)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("<!-- Made by go generate ./pkg/daemon from the comments in pkg/daemon/config.go: change those. -->\n\n# Config\n")
	for _, decl := range file.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok || d.Tok != token.TYPE {
			continue
		}
		for _, spec := range d.Specs {
			t := spec.(*ast.TypeSpec)
			if s, ok := t.Type.(*ast.StructType); ok && t.Name.IsExported() {
				fmt.Fprintf(&b, "\n## %s\n\n%s\n", t.Name.Name, flow(d.Doc))
				if err := fields(&b, t.Name.Name, s); err != nil {
					return "", err
				}
			}
		}
	}
	return b.String(), nil
}

func fields(b *strings.Builder, of string, s *ast.StructType) error {
	header := "\n| field | type | |\n|---|---|---|\n"
	for _, f := range s.Fields.List {
		name := jsonName(f)
		if name == "" {
			continue // not in the file
		}
		if f.Doc == nil {
			return fmt.Errorf("%s.%s has no comment", of, name)
		}
		text := strings.TrimPrefix(flow(f.Doc), f.Names[0].Name+" ")
		fmt.Fprintf(b, "%s| `%s` | %s | %s |\n", header, name, kind(f.Type), strings.ReplaceAll(text, "|", "\\|"))
		header = ""
	}
	return nil
}

// jsonName is a field's name in the file, or "" when it is not there.
func jsonName(f *ast.Field) string {
	if f.Tag == nil {
		return ""
	}
	tag, err := strconv.Unquote(f.Tag.Value)
	if err != nil {
		return ""
	}
	name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	return strings.TrimPrefix(name, "-")
}

// kind names a type in the words of the file.
func kind(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.StarExpr:
		return kind(t.X)
	case *ast.ArrayType:
		return "list of " + kind(t.Elt)
	case *ast.MapType:
		return "map to " + kind(t.Value)
	case *ast.SelectorExpr:
		return t.Sel.Name
	case *ast.Ident:
		switch t.Name {
		case "int", "uint64":
			return "number"
		case "bool":
			return "true or false"
		}
		if ast.IsExported(t.Name) {
			return "[" + t.Name + "](#" + strings.ToLower(t.Name) + ")"
		}
		return t.Name
	}
	return ""
}

// flow is a comment as one line.
func flow(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }
