package cache

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/core"
	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/memory"
)

// TestRelease compares the Events of a table before and after its memory is released.
func TestRelease(t *testing.T) {
	const events = 2*compactItems + 10
	s := memory.New()
	c, err := New(t.Context(), s, clock.Real())
	if err != nil {
		t.Fatal(err)
	}
	row := objects.Row(core.Events)
	table := c.Add(&row)
	for i := range events {
		key := objects.Key{Namespace: fmt.Sprint("ns-", i%3), Name: fmt.Sprint("e", i)}
		value, err := Encode(row.Names.GVK(), &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: key.Name, Namespace: key.Namespace}, Message: fmt.Sprint(i)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Write(t.Context(), store.Op{Key: table.StoreKey(key), Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	before, err := table.All(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	bytes := table.Bytes()
	c.Release()
	after, err := table.All(t.Context(), "")
	if err != nil || len(after) != events || len(before) != events || table.Bytes() != bytes {
		t.Fatalf("got %d Events of %d, %d bytes, want %d; %v", len(after), len(before), table.Bytes(), bytes, err)
	}
	for i := range after {
		was, is := before[i], after[i]
		if was == is {
			t.Fatal("the items were not moved")
		}
		obj, err := is.Object()
		if err != nil {
			t.Fatal(err)
		}
		want, err := was.Object()
		if err != nil {
			t.Fatal(err)
		}
		if is.Key != was.Key || is.Revision != was.Revision || is.Bytes() != was.Bytes() || obj.(*corev1.Event).Message != want.(*corev1.Event).Message ||
			obj.GetResourceVersion() != want.GetResourceVersion() {
			t.Fatalf("got %v %d, want %v %d", is.Key, is.Revision, was.Key, was.Revision)
		}
		if same, err := is.IsStoredAs(row.Names.GVK(), was.value); err != nil || !same {
			t.Fatalf("%v: another value, %v", is.Key, err)
		}
	}
}
