package early

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// lateInitPackages are packages of the standard library that Go initialises after hundreds of others in a big program, or that import
// such packages.
var lateInitPackages = []string{"net", "net/http", "net/netip", "os/exec", "path/filepath", "runtime/debug", "log/slog", "os/user"}

// roots are the directories of the packages that initialise before the dispatch.
var roots = []string{".", "../supervisor", "../autostart", "../filelock"}

// TestImports checks the limits that make the dispatch early.
func TestImports(t *testing.T) {
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			return checkImports(t, path)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func checkImports(t *testing.T, path string) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		return err
	}
	for _, i := range file.Imports {
		name, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return err
		}
		first, _, _ := strings.Cut(name, "/")
		foreign := strings.Contains(first, ".") && name != "golang.org/x/sys/unix" &&
			!strings.HasPrefix(name+"/", "github.com/minikctl/minikctl/pkg/supervisor/") &&
			name != "github.com/minikctl/minikctl/pkg/autostart" && name != "github.com/minikctl/minikctl/pkg/filelock"
		if foreign || slices.Contains(lateInitPackages, name) {
			t.Errorf("%s imports %s, which is initialised too late", path, name)
		}
	}
	return nil
}
