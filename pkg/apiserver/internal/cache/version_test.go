package cache

import (
	"bytes"
	"encoding/json"
	"runtime"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/core"
	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/memory"
)

// checkVersion compares the inserted resourceVersion with the encoding of an object that has it.
func checkVersion(t *testing.T, content map[string]any) {
	t.Helper()
	metadata, ok := content["metadata"].(map[string]any)
	if ok {
		_, there := metadata[versionField]
		ok = !there
	}
	value, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	got, spliced := withVersion(value, 42)
	if !spliced && bytes.Contains(value, []byte(`\`)) {
		return // the text may have fields that metadata does not have
	}
	if spliced != ok {
		t.Fatalf("%s: spliced %v, want %v", value, spliced, ok)
	}
	if !ok {
		return
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetResourceVersion("42")
	want, err := json.Marshal(u.Object)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

var versioned = []string{
	`{"apiVersion":"e/v1","data":{"metadata":{"uid":"no"},"x":"}\\\"{"},"kind":"K","metadata":{"name":"a","namespace":"n","uid":"u"},"spec":{"a":[1,2,{"b":null}]}}`,
	`{"metadata":{"annotations":{"resourceVersion":"7","z":"<\u0001é>"},"name":"a"}}`,
	`{"a":[],"b":{},"c":-1.5e3,"d":true,"e":null,"metadata":{"uid":"u"}}`,
	`{"metadata":{}}`,
	`{"metadata":{"name":"a","resourceVersion":"1"}}`,
	`{"metadata":null,"x":1}`,
	`{"metadata":"text"}`,
	`{"x":{"metadata":{"name":"a"}}}`,
	`{}`,
}

func TestWithVersion(t *testing.T) {
	for _, text := range versioned {
		content := map[string]any{}
		if err := json.Unmarshal([]byte(text), &content); err != nil {
			t.Fatal(err)
		}
		checkVersion(t, content)
	}
}

func FuzzWithVersion(f *testing.F) {
	for _, text := range versioned {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _ = withVersion(text, 1) // it must return for any text
		content := map[string]any{}
		if json.Unmarshal(text, &content) == nil && content != nil {
			checkVersion(t, content)
		}
	})
}

// TestItemUsesObjectOfWriter reads an item of a custom resource while the request that wrote it holds the object, and later.
func TestItemUsesObjectOfWriter(t *testing.T) {
	c, err := New(t.Context(), memory.New(), clock.Real())
	if err != nil {
		t.Fatal(err)
	}
	decoded, encoded := 0, 0
	row := objects.Row(core.ConfigMaps)
	row.Undecoded, row.Revision = true, "of a definition"
	row.Read = func(value []byte) (objects.Object, error) {
		decoded++
		u := &unstructured.Unstructured{}
		return u, u.UnmarshalJSON(value)
	}
	table := c.Add(&row)
	const text = `{"apiVersion":"e/v1","kind":"K","metadata":{"labels":{"a":"b"},"name":"x"},"spec":1}`
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	p := table.Pending(u)
	held, err := table.item("n/x", &store.Event{Key: table.prefix + "n/x", Revision: 7, Value: []byte(text), Object: p.Ref()})
	if err != nil {
		t.Fatal(err)
	}
	encode := func(obj objects.Object) ([]byte, error) {
		encoded++
		return json.Marshal(obj)
	}
	check := func(i *Item, rev string) {
		t.Helper()
		obj, err := i.Object()
		if err != nil || obj.GetResourceVersion() != rev || obj.GetLabels()["a"] != "b" {
			t.Errorf("the object is %v, %v", obj, err)
		}
		want := text[:len(text)-len(`},"spec":1}`)] + `,"resourceVersion":"` + rev + `"},"spec":1}`
		if b, err := i.Encoded(JSON, encode); err != nil || string(b) != want {
			t.Errorf("got  %s, %v\nwant %s", b, err, want)
		}
	}
	check(held, "7")
	check(held.At(8), "8")
	if _, err := held.labelSet(); err != nil || decoded+encoded != 0 {
		t.Errorf("with its writer: decoded %d times, encoded %d, %v", decoded, encoded, err)
	}
	runtime.KeepAlive(p)
	p.item.Store(nil)
	for range 2 {
		runtime.GC()
	}
	check(held.At(9), "9")
	if decoded != 1 || encoded != 0 {
		t.Errorf("without: decoded %d times, encoded %d", decoded, encoded)
	}
}
