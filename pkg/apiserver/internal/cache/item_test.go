package cache

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/core"
	"github.com/minikctl/minikctl/pkg/store/memory"
)

func configMapWith(value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "n", Labels: map[string]string{"a": "b"}}, Data: map[string]string{"k": value}}
}

// TestItemStores compares objects with an item that is kept decoded, and with one that is not.
func TestItemStores(t *testing.T) {
	c, err := New(t.Context(), memory.New(), clock.Real())
	if err != nil {
		t.Fatal(err)
	}
	row := objects.Row(core.ConfigMaps)
	gvk := row.Names.GVK()
	value, err := Encode(gvk, configMapWith("v1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, undecoded := range []bool{false, true} {
		row.Undecoded = undecoded
		item, err := c.Add(&row).newItem("n/x", 7, value)
		if err != nil {
			t.Fatal(err)
		}
		for content, same := range map[string]bool{"v1": true, "v2": false, "longer": false} {
			obj := configMapWith(content)
			obj.GetObjectKind().SetGroupVersionKind(gvk)
			if got, err := item.Stores(gvk, obj); err != nil || got != same {
				t.Errorf("undecoded %v: stores %q: %v, %v", undecoded, content, got, err)
			}
			other, err := Encode(gvk, obj)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := item.IsStoredAs(gvk, other); err != nil || got != same {
				t.Errorf("undecoded %v: is stored as %q: %v, %v", undecoded, content, got, err)
			}
		}
		c.Remove(row.Names.GR())
	}
}

// TestDecodedOnce counts how often an item that is kept encoded is decoded.
func TestDecodedOnce(t *testing.T) {
	decoded := 0
	i := NewEncoded(objects.Key{Namespace: "n", Name: "x"}, 7, nil, func() (objects.Object, error) {
		decoded++
		return configMapWith("v"), nil
	})
	byName := &Selector{Namespace: "n", Fields: fields.SelectorFromSet(fields.Set{"metadata.name": "x", "metadata.namespace": "n"})}
	byLabel := &Selector{Labels: labels.SelectorFromSet(labels.Set{"a": "b"})}
	for range 3 {
		if !byName.selects(i) {
			t.Error("the name does not match")
		}
	}
	if decoded != 0 {
		t.Errorf("matching its name decodes it %d times", decoded)
	}
	for range 3 {
		if !byLabel.selects(i) {
			t.Error("the labels do not match")
		}
	}
	if decoded != 1 {
		t.Errorf("matching its labels decodes it %d times", decoded)
	}
	item, obj, err := i.Decoded()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := item.Object(); err != nil || again != obj || decoded != 2 {
		t.Errorf("a decoded item is decoded again (%d, %v)", decoded, err)
	}
	never := &Selector{Labels: labels.SelectorFromSet(labels.Set{"a": "c"})}
	if never.selects(i) || (&Selector{Fields: fields.OneTermNotEqualSelector("metadata.name", "x")}).selects(i) {
		t.Error("a selector that does not match selects the item")
	}
}
