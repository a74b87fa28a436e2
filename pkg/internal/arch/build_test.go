package arch

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMakeBuildSharesCache verifies that make build compiles no package that go run or go test has compiled: the build
// cache serves both only while the flags of make build don't change how packages are compiled.
func TestMakeBuildSharesCache(t *testing.T) {
	mk, err := os.ReadFile("../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	_, recipe, ok := strings.Cut(string(mk), "\nbuild:")
	if !ok {
		t.Fatal("the Makefile has no target build")
	}
	line := strings.Split(recipe, "\n")[1]
	_, flags, ok := strings.Cut(line, "$(GO) build ")
	if !ok {
		t.Fatalf("the recipe of build is not a go build: %s", line)
	}
	flags, _, _ = strings.Cut(flags, "-o ")

	// A package that is in no cache: its source is new in each run.
	dir := t.TempDir()
	source := fmt.Sprintf("package fresh\n\nconst Dir = %q\n", dir)
	for name, text := range map[string]string{"go.mod": "module fresh\n", "fresh.go": source} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out := goBuild(t, dir, "-n "+flags); !strings.Contains(out, "compile -o") {
		t.Fatalf("go build -n does not print the compilation of a new package:\n%s", out)
	}
	goBuild(t, dir, "")
	if out := goBuild(t, dir, "-n "+flags); strings.Contains(out, "compile -o") {
		t.Errorf("make build compiles again what go run and go test have compiled:\n%s", out)
	}
}

// goBuild builds the package in dir without the caller's GOFLAGS and returns the output.
func goBuild(t *testing.T, dir, flags string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", "exec go build "+flags+" .")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go build %s: %v\n%s", flags, err, out)
	}
	return string(out)
}
