package custom

import (
	"maps"
	"math/rand"
	"reflect"
	"slices"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestCanonical checks that a round trip through ObjectMeta does not change canonical metadata.
func TestCanonical(t *testing.T) {
	c := chance{rand.New(rand.NewSource(1))}
	texts := []any{"", "a", "b", int64(1), nil, "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.5Z", "2026-01-02T03:04:05+01:00", "0001-01-01T00:00:00Z", "2026-13-02T03:04:05Z"}
	one := func() any { return texts[c.Intn(len(texts))] }
	of := func(names ...string) any {
		m := map[string]any{}
		for _, name := range names {
			if c.Intn(10) > 0 {
				m[name] = one()
			}
		}
		return m
	}
	owner := func() any {
		m := of().(map[string]any)
		for _, name := range []string{"apiVersion", "kind", "name", "uid", "controller", "odd"} {
			if name != "odd" && name != "controller" || c.Intn(5) == 0 {
				m[name] = []any{"a", "", "b", "c", true}[c.Intn(3+c.Intn(2)*c.Intn(3))]
			}
		}
		return m
	}
	manager := func() any {
		m := of("odd").(map[string]any)
		if c.Intn(4) > 0 {
			delete(m, "odd")
		}
		for _, name := range []string{"manager", "operation", "apiVersion", "fieldsType", "subresource"} {
			if c.Intn(3) > 0 {
				m[name] = []any{"a", "Update", ""}[c.Intn(2+c.Intn(2))]
			}
		}
		m["time"] = texts[5+c.Intn(1+c.Intn(2))]
		m["fieldsV1"] = []any{map[string]any{"f:a": map[string]any{".": map[string]any{}}}, map[string]any{}, map[string]any{"f:a": int64(1)}, nil}[c.Intn(2+c.Intn(3))]
		return m
	}
	list := func(item func() any) any {
		out := []any{}
		for range c.Intn(3) {
			out = append(out, item())
		}
		return out
	}
	makes := map[string]func() any{
		"name": one, "namespace": one, "uid": one, "odd": one, "creationTimestamp": one, "deletionTimestamp": one,
		"generation":                 func() any { return []any{int64(0), int64(3), 1.5, nil}[c.Intn(4)] },
		"deletionGracePeriodSeconds": func() any { return []any{int64(0), int64(3), 1.5, nil}[c.Intn(4)] },
		"labels":                     func() any { return of("x", "y") }, "annotations": func() any { return of("x") },
		"finalizers":      func() any { return list(one) },
		"ownerReferences": func() any { return list(owner) },
		"managedFields":   func() any { return list(manager) },
	}
	names := slices.Sorted(maps.Keys(makes))
	yes := map[string]int{}
	for range 40000 {
		metadata := map[string]any{}
		for range 1 + c.Intn(2) {
			name := names[c.Intn(len(names))]
			metadata[name] = makes[name]()
		}
		if !canonical(metadata) {
			continue
		}
		for name := range metadata {
			yes[name]++
		}
		before := runtime.DeepCopyJSON(metadata)
		meta, _, err := objectmeta.GetObjectMeta(map[string]any{"metadata": metadata}, false)
		if err != nil {
			t.Fatalf("%v: %v", metadata, err)
		}
		after, err := runtime.DefaultUnstructuredConverter.ToUnstructured(meta)
		if err != nil || !reflect.DeepEqual(before, after) {
			t.Fatalf("%v becomes %v, %v", before, after, err)
		}
	}
	for name := range makes {
		if (yes[name] == 0) != (name == "odd") {
			t.Errorf("%d times %s", yes[name], name)
		}
	}
}
