package cache

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/core"
	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/memory"
)

// interrupted is a store that calls then after the first list.
type interrupted struct {
	store.Store
	then func()
}

func (s *interrupted) List(ctx context.Context, prefix string, opts store.ListOptions) (store.Page, error) {
	page, err := s.Store.List(ctx, prefix, opts)
	if then := s.then; then != nil {
		s.then = nil
		then()
	}
	return page, err
}

// TestRestartDuringFill restarts the feed behind a change that was committed while a table was filled.
func TestRestartDuringFill(t *testing.T) {
	s := &interrupted{Store: memory.New()}
	c, err := New(t.Context(), s, clock.Real())
	if err != nil {
		t.Fatal(err)
	}
	row := objects.Row(core.ConfigMaps)
	table := c.Add(&row)
	key := objects.Key{Namespace: "default", Name: "x"}
	s.then = func() {
		value, err := Encode(row.Names.GVK(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: key.Name, Namespace: key.Namespace}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Write(t.Context(), store.Op{Key: table.StoreKey(key), Value: value}); err != nil {
			t.Fatal(err)
		}
		if err := c.restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok, err := table.Get(t.Context(), key); err != nil || !ok {
		t.Errorf("an object written meanwhile: got %v %v, want it in the table", ok, err)
	}
}

// TestPendingOfAReplacedTable writes an object to a table that is replaced before the feed delivers the change.
func TestPendingOfAReplacedTable(t *testing.T) {
	c := newCluster(t, logBytes)
	c.write("first", "v")
	old := c.table
	c.Remove(c.row.Names.GR())
	row := c.row
	row.Read = func(value []byte) (objects.Object, error) { // as a custom resource's, of another storage version
		obj := row.New()
		if err := decodeInto(obj, value); err != nil {
			return nil, err
		}
		obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{Version: "v2", Kind: row.Names.Kind})
		return obj, nil
	}
	now := c.Add(&row)
	if _, err := now.All(t.Context(), ""); err != nil { // it is filled: the feed applies the write at once
		t.Fatal(err)
	}
	written := c.writeTo(old, "x", "v")
	if written.object.GetResourceVersion() != formatRevision(written.Revision) {
		t.Errorf("the written object has resourceVersion %q, want %d", written.object.GetResourceVersion(), written.Revision)
	}
	i, ok, err := now.Get(t.Context(), objects.Key{Namespace: "n", Name: "x"})
	if err != nil || !ok {
		t.Fatalf("got %v %v, want the object", ok, err)
	}
	if got := i.object.GetObjectKind().GroupVersionKind().Version; got != "v2" {
		t.Errorf("the table of v2 has an object of version %q", got)
	}
	if i.object == written.object {
		t.Error("the table shares the object of another table's write")
	}
}
