package stocktest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestNode calls the verbs of the JavaScript client library, if Node and npm are installed.
func TestNode(t *testing.T) {
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed", name)
		}
	}
	dir := t.TempDir()
	for _, name := range []string{"package.json", "verbs.js"} {
		b, err := os.ReadFile(filepath.Join("testdata", "node", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	install := exec.Command("npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--prefer-offline", "--ignore-scripts")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm install: %v\n%s", err, out)
	}
	c := newCluster(t)
	script := exec.CommandContext(t.Context(), "node", "verbs.js", c.kubeconfig)
	script.Dir = dir
	if out, err := script.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
