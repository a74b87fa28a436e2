package cache

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/mutation"
)

// TestMutationDetector changes objects of a table as a faulty reader would: one that a client has written, and one that
// the table has read from the store.
func TestMutationDetector(t *testing.T) {
	c := newCluster(t, logBytes)
	var found []string
	c.table.shared = mutation.NewDetector("test", func(message string) { found = append(found, message) })
	expect := func(when, want string) {
		t.Helper()
		if got := strings.Join(found, "; "); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: found %q, want %q", when, got, want)
		}
		found = nil
	}
	plant := func(name string) {
		i, _, err := c.table.Get(t.Context(), objects.Key{Namespace: "n", Name: name})
		if err != nil {
			t.Fatal(err)
		}
		obj, err := i.Object()
		if err != nil {
			t.Fatal(err)
		}
		obj.(*corev1.ConfigMap).Data["k"] = "planted"
	}
	c.write("read", "a")
	plant("read") // the first read fills the table from the store
	c.write("written", "a")
	c.write("written", "b")
	expect("before a change", "")
	plant("written")
	c.write("written", "c")
	expect("written", `n/written (resourceVersion 4): data.k was "b" and is "planted"`)
	c.checkShared()
	expect("read", `n/read (resourceVersion 2): data.k was "a" and is "planted"`)
}
