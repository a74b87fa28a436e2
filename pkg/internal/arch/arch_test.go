package arch

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/minikctl/minikctl/"

// layers gives the packages below pkg/ (and cmd/) their layer. A package below a listed one (a driver, a test suite) is
// half a layer above it; a package in its internal directory (a part of it) is half a layer below. A name that ends in a
// slash gives the layer of each package in that directory (e.g. the API groups of the controllers).
var layers = map[string]float64{
	"cmd/minikctl": 7,
	"cli":          6,
	"app":          6.5,
	"examples/":    7,
	"daemon":       5,
	"schedplugins": 4, "kubelet/process": 4, "kubelet/sim": 4, "kubelet/runtimetest": 4,
	"apiserver": 3, "controllers": 3.5, "controllers/": 3, "controllers/controller": 2.5, "controllers/controllertest": 4, "scheduler": 3, "kubelet": 3, "network": 3,
	"apiserver/pki": 2, "store/changelog": 1.5, "store/backup": 1.5, "store/memory": 2, "store/badger": 2, "store/storetest": 2, "client/upstream": 2, "client/clienttest": 2, "reconcile": 2,
	"apply": 2, "dev": 3, "network/addr": 2, "images": 2,
	"store": 1, "client": 1,
	"objects": 0, "objects/minikctl": 0.5, "plug": 0, "clock": 0, "trace": 0, "health": 0, "release": -1, "zpages": 0.5, "logs": 0.5, "dirwatch": 0, "filelock": -1, "supervisor": 0, "autostart": 0, "early": 1,
}

// storeUsers are the only packages that may import the store: the API server, the drivers, and the daemon that composes them.
var storeUsers = []string{"apiserver", "store", "daemon", "internal"}

func layer(pkg string) (float64, bool) {
	if strings.HasPrefix(pkg, "internal/") {
		return 8, true // tests of the whole program
	}
	shift := 0.0
	for p := pkg; p != "."; p = path.Dir(p) {
		if l, ok := layers[p]; ok {
			return l + shift, true
		}
		if l, ok := layers[path.Dir(p)+"/"]; ok {
			return l + shift, true
		}
		if path.Base(p) == "internal" {
			shift = -0.5
		} else if shift == 0 {
			shift = 0.5
		}
	}
	return 0, false
}

func TestLayers(t *testing.T) {
	root := "../../.."
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(fset, file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imp := range f.Imports {
			target, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				return err
			}
			if to, ours := strings.CutPrefix(target, module); ours {
				check(t, filepath.ToSlash(rel), strings.TrimPrefix(path.Dir(filepath.ToSlash(rel)), "pkg/"), strings.TrimPrefix(to, "pkg/"))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func check(t *testing.T, file, from, to string) {
	if strings.HasSuffix(file, "_test.go") {
		return // tests may compose packages of any layer
	}
	lf, ok := layer(from)
	if !ok {
		t.Errorf("%s: package %s has no layer", file, from)
	}
	lt, ok := layer(to)
	if !ok {
		t.Errorf("%s imports %s, which has no layer", file, to)
	}
	sameFamily := strings.HasPrefix(from, "apiserver/internal/") && strings.HasPrefix(to, "apiserver/internal/") ||
		strings.HasPrefix(from, "objects/") && strings.HasPrefix(to, "objects/") || strings.HasPrefix(from+"/", "supervisor/") && strings.HasPrefix(to, "supervisor/")
	if lt >= lf && !sameFamily {
		t.Errorf("%s: %s (layer %v) must not import %s (layer %v)", file, from, lf, to, lt)
	}
	if to == "store" || strings.HasPrefix(to, "store/") {
		for _, user := range storeUsers {
			if from == user || strings.HasPrefix(from, user+"/") {
				return
			}
		}
		t.Errorf("%s: %s must not touch the store: components are clients of the API", file, from)
	}
}
