package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// forbidden are calls that only some packages may make: clocks and random sources are arguments, and only main ends the program.
var forbidden = []struct {
	pkg     string // import path
	names   []string
	allowed []string // prefixes of files
}{
	{"time", []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}, []string{
		"pkg/clock/",       // the clock itself
		"pkg/supervisor/",  // separate processes, which use the machine's clock
		"pkg/cli/", "cmd/", // the command line: it passes the machine's clock on
		"pkg/daemon/",         // starts and stops processes of the machine
		"pkg/store/badger/",   // the ticker of the guard file
		"pkg/kubelet/process", // processes of the machine
	}},
	{"math/rand", nil, nil},
	{"math/rand/v2", nil, []string{"pkg/clock/"}},
	{"os", []string{"Exit"}, []string{"cmd/", "examples/", "pkg/early/", "pkg/supervisor/", "pkg/apiserver/internal/openapi/gen/", "pkg/apiserver/internal/track/gen/"}},
}

// TestForbidden checks that no package makes a forbidden call. Tests may.
func TestForbidden(t *testing.T) {
	root := "../../.."
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || testPackage(file) {
			return err
		}
		f, err := parser.ParseFile(fset, file, nil, 0)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		inspect(t, fset, filepath.ToSlash(rel), f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// testPackage reports whether a file belongs to a package of test helpers.
func testPackage(file string) bool {
	return strings.HasSuffix(filepath.Dir(file), "test") || strings.Contains(filepath.ToSlash(file), "pkg/internal/")
}

func inspect(t *testing.T, fset *token.FileSet, file string, f *ast.File) {
	imported := map[string]string{} // by the name in the file
	for _, imp := range f.Imports {
		path := strings.Trim(imp.Path.Value, `"`)
		name := path[strings.LastIndexByte(path, '/')+1:]
		if name == "v2" {
			name = "rand"
		}
		if imp.Name != nil {
			name = imp.Name.Name
		}
		imported[name] = path
	}
	ast.Inspect(f, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		id, ok := sel.X.(*ast.Ident)
		if !ok || id.Obj != nil {
			return true
		}
		for _, rule := range forbidden {
			if imported[id.Name] != rule.pkg || rule.names != nil && !slices.Contains(rule.names, sel.Sel.Name) {
				continue
			}
			if !slices.ContainsFunc(rule.allowed, func(p string) bool { return strings.HasPrefix(file, p) }) {
				t.Errorf("%s: %s.%s is not for this package", fset.Position(sel.Pos()), id.Name, sel.Sel.Name)
			}
		}
		return true
	})
}
