package stocktest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// TestNode calls the verbs of the JavaScript client library, if Node and npm are installed.
func TestNode(t *testing.T) {
	t.Parallel()
	dir := installNode(t)
	c := newCluster(t)
	script := exec.CommandContext(t.Context(), "node", "verbs.js", c.kubeconfig)
	script.Dir = dir
	if out, err := script.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// installNode returns a directory with the JavaScript programs and the library. It skips the test if Node or npm is not installed.
func installNode(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed", name)
		}
	}
	dir, err := installedNode()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// installedNode installs the JavaScript library for the first test that needs it.
var installedNode = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(shared, "node")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "node"))); err != nil {
		return "", err
	}
	install := exec.Command("npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--prefer-offline", "--ignore-scripts")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm install: %w\n%s", err, out)
	}
	return dir, nil
})
