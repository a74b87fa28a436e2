// Package golden finds recorded responses of Kubernetes v1.36.3: of kube-apiserver, kube-scheduler and kube-controller-manager.
// Tests compare ours with them.
//
// testdata holds a slice of the recordings, about a tenth: every tenth create of each kind, every tenth scheduling
// decision, two sequences of requests and two controller scenarios. The environment variable MINIKCTL_GOLDEN names a directory
// with more; without it, shared/golden beside the checkout is used where it exists.
package golden

import (
	"os"
	"path/filepath"
	"testing"
)

// Recordings is a directory of recorded responses.
type Recordings struct {
	Name string // "slice" or "whole"
	Dir  string
}

// Counts returns the file below testdata of the calling test's package that holds how many responses must be equal:
// golden.txt for the whole, golden-slice.txt for the slice.
func (r Recordings) Counts() string {
	if r.Name == "whole" {
		return filepath.Join("testdata", "golden.txt")
	}
	return filepath.Join("testdata", "golden-"+r.Name+".txt")
}

// Run calls test as a subtest with the committed slice, and with the whole recordings where this machine has them. With -short, which make
// race gives, it leaves the whole out: the race detector makes it take minutes, and it has the same code run as the slice.
func Run(t *testing.T, test func(t *testing.T, r Recordings)) {
	t.Helper()
	root := moduleRoot(t)
	all := []Recordings{{"slice", filepath.Join(root, "pkg", "internal", "golden", "testdata")}}
	whole := os.Getenv("MINIKCTL_GOLDEN")
	if whole == "" {
		if dir := filepath.Join(root, "..", "shared", "golden"); exists(dir) {
			whole = dir
		}
	}
	if whole != "" && !testing.Short() {
		all = append(all, Recordings{"whole", whole})
	}
	for _, r := range all {
		t.Run(r.Name, func(t *testing.T) { test(t, r) })
	}
}

// moduleRoot returns the directory of go.mod above the test's working directory.
func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; !exists(filepath.Join(dir, "go.mod")); dir = filepath.Dir(dir) {
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the working directory")
		}
	}
	return dir
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
