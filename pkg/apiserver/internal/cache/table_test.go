package cache

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/core"
	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/memory"
)

// interrupted is a store that does something else once it has been listed.
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

// TestRestartDuringFill lets the feed begin anew behind a change that a table, being filled, has not seen.
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
		t.Errorf("what was written meanwhile: got %v %v, want it to be there", ok, err)
	}
}
