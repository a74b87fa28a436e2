// Command gen writes the merge schema of the API's types in the form that package track reads: those of k8s.io/api, which
// client-go carries as YAML, and those of other modules, which follow from package openapi's definitions.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/track"
)

func main() {
	out := flag.String("o", "schema.txt", "the `file` to write")
	flag.Parse()
	text, err := generate()
	if err == nil {
		err = os.WriteFile(*out, text, 0o644)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func generate() ([]byte, error) {
	yaml, err := source()
	if err != nil {
		return nil, err
	}
	p, err := typed.NewParser(typed.YAMLObject(yaml))
	if err != nil {
		return nil, err
	}
	more, err := others(p.Schema.Types)
	if err != nil {
		return nil, err
	}
	types := append(p.Schema.Types, more...)
	slices.SortFunc(types, func(a, b schema.TypeDef) int { return strings.Compare(a.Name, b.Name) })
	var b bytes.Buffer
	for _, t := range types {
		line, err := track.Line(t)
		if err != nil {
			return nil, err
		}
		b.Write(line)
	}
	return b.Bytes(), nil
}

// source finds the YAML: the longest string literal of the package, which is internal to its module.
func source() (string, error) {
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "k8s.io/client-go/applyconfigurations/internal").Output()
	if err != nil {
		return "", fmt.Errorf("find client-go: %w", err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)), "internal.go"), nil, 0)
	if err != nil {
		return "", err
	}
	longest := ""
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && len(lit.Value) > len(longest) {
			longest = lit.Value
		}
		return true
	})
	return strconv.Unquote(longest)
}
