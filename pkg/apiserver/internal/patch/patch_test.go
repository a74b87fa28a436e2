package patch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/patch"
)

const copyLimit = 3 << 20

// source generates random documents and patches from few names and values, so that many operations apply.
type source struct{ *rand.Rand }

func newSource(seed uint64) source { return source{rand.New(rand.NewPCG(seed, 1))} }

var names = []string{"a", "b", "a/b", "m~n", "0", "é", "<"}

func (s source) value(depth int) any {
	kind := s.IntN(9)
	if depth == 0 {
		kind %= 6
	}
	switch kind {
	case 0:
		return nil
	case 1:
		return json.Number([]string{"1", "1.0", "-0", "1e3", "12345678901234567890"}[s.IntN(5)])
	case 2:
		return s.IntN(2) == 0
	case 3:
		return map[string]any{}
	case 4:
		return []any{}
	case 5:
		return []string{"v", "", "<&>", "\u2028", "\"", "é"}[s.IntN(6)]
	case 6:
		items := make([]any, s.IntN(4))
		for i := range items {
			items[i] = s.value(depth - 1)
		}
		return items
	default:
		return s.object(depth)
	}
}

func (s source) object(depth int) map[string]any {
	fields := map[string]any{}
	for range s.IntN(4) {
		fields[names[s.IntN(len(names))]] = s.value(depth - 1)
	}
	return fields
}

func (s source) path() string {
	path := ""
	for range s.IntN(4) {
		name := strings.NewReplacer("~", "~0", "/", "~1").Replace(names[s.IntN(len(names))])
		path += "/" + []string{name, name, name, "0", "1", "-", "-1", "3"}[s.IntN(8)]
	}
	return path
}

func (s source) operations() []any {
	steps := make([]any, s.IntN(5))
	for i := range steps {
		step := map[string]any{"op": []string{"add", "add", "remove", "replace", "move", "copy", "test", "z"}[s.IntN(8)], "path": s.path()}
		if s.IntN(3) > 0 {
			step["value"] = s.value(2)
		}
		if s.IntN(3) > 0 {
			step["from"] = s.path()
		}
		if s.IntN(50) == 0 {
			delete(step, "path")
		}
		steps[i] = step
	}
	return steps
}

func text(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// library calls f, and returns false if it panics, which the library does for some patches.
func library(f func() ([]byte, error)) (out []byte, err error, ok bool) {
	defer func() { ok = recover() == nil }()
	out, err = f()
	return out, err, true
}

// compare compares a result with the library's.
func compare(t *testing.T, doc, p, out []byte, err error, f func() ([]byte, error)) {
	t.Helper()
	want, wantErr, ok := library(f)
	if !ok {
		return
	}
	if fmt.Sprint(err) != fmt.Sprint(wantErr) || !sameJSON(out, want) {
		t.Fatalf("%s with %s: got %s, %v; the library %s, %v", doc, p, out, err, want, wantErr)
	}
}

func sameJSON(a, b []byte) bool {
	var x, y any
	return string(a) == string(b) || json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// TestMergeLibrary compares merges of random documents with the library's.
func TestMergeLibrary(t *testing.T) {
	for seed := range uint64(3000) {
		s := newSource(seed)
		doc, p := text(t, s.object(4)), text(t, s.object(4))
		if seed%10 == 0 {
			p = text(t, s.value(3))
		}
		out, err := patch.Merge(doc, p)
		compare(t, doc, p, out, err, func() ([]byte, error) { return jsonpatch.MergePatch(doc, p) })
	}
}

// TestApplyLibrary compares random JSON patches with the library's.
func TestApplyLibrary(t *testing.T) {
	succeeded := 0
	for seed := range uint64(6000) {
		s := newSource(seed)
		doc, p := text(t, s.object(4)), text(t, s.operations())
		steps, err := patch.Decode(p)
		if err != nil {
			t.Fatal(err)
		}
		out, err := patch.Apply(t.Context(), doc, steps, copyLimit)
		if err == nil {
			succeeded++
		}
		compare(t, doc, p, out, err, func() ([]byte, error) { return steps.Apply(doc) })
	}
	if succeeded < 1200 {
		t.Errorf("only %d patches applied", succeeded)
	}
}

// FuzzMerge compares merges with the library's.
func FuzzMerge(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1}}`), []byte(`{"a":{"b":null},"c":[{"d":null}]}`))
	f.Fuzz(func(t *testing.T, doc, p []byte) {
		if !json.Valid(doc) || len(doc) == 0 || doc[0] != '{' {
			return
		}
		out, err := patch.Merge(doc, p)
		compare(t, doc, p, out, err, func() ([]byte, error) { return jsonpatch.MergePatch(doc, p) })
	})
}

// TestLargeArray inserts and removes items at every place of an array that has many chunks.
func TestLargeArray(t *testing.T) {
	s := newSource(1)
	items := make([]int, 5000)
	for i := range items {
		items[i] = i
	}
	doc := text(t, map[string]any{"a": items})
	var steps []map[string]any
	for i := range 3000 {
		at := s.IntN(len(items))
		step := map[string]any{"op": "add", "path": fmt.Sprint("/a/", at), "value": -i}
		switch i % 3 {
		case 0:
			step["path"] = "/a/-"
		case 1:
			step["op"] = []string{"remove", "replace"}[s.IntN(2)]
		}
		steps = append(steps, step)
		if step["op"] == "remove" {
			items = items[1:]
		} else if step["op"] == "add" {
			items = append(items, 0)
		}
	}
	p := text(t, steps)
	decoded, err := patch.Decode(p)
	if err != nil {
		t.Fatal(err)
	}
	out, err := patch.Apply(t.Context(), doc, decoded, copyLimit)
	want, wantErr := decoded.Apply(doc)
	if string(out) != string(want) || err != nil || wantErr != nil {
		t.Errorf("%d bytes, %v; the library %d bytes, %v", len(out), err, len(want), wantErr)
	}
}

// TestRemoveAllItems removes all items of an array.
func TestRemoveAllItems(t *testing.T) {
	steps, err := patch.Decode([]byte(`[{"op":"remove","path":"/a/0"}]`))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := patch.Apply(t.Context(), []byte(`{"a":[1]}`), steps, copyLimit); string(out) != `{"a":[]}` || err != nil {
		t.Errorf("got %s, %v", out, err)
	}
}

func nested(depth int) string {
	return strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth)
}

// TestDepth merges and builds documents just below and above the depth that encoding/json decodes.
func TestDepth(t *testing.T) {
	for depth, want := range map[int]error{10000: nil, 10001: patch.ErrBadPatch} {
		if _, err := patch.Merge([]byte(`{"a":{"a":1}}`), []byte(nested(depth))); !errors.Is(err, want) {
			t.Errorf("a merge patch of depth %d: %v", depth, err)
		}
	}
	for depth, want := range map[int]error{5000: nil, 5001: patch.ErrDepth} {
		p := `[{"op":"add","path":"/a","value":` + nested(5000-1) + `},{"op":"add","path":"` + strings.Repeat("/a", 5000) + `","value":` + nested(depth) + `}]`
		steps, err := patch.Decode([]byte(p))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := patch.Apply(t.Context(), []byte(`{}`), steps, copyLimit); !errors.Is(err, want) {
			t.Errorf("a value of depth %d below 5000: %v", depth, err)
		}
	}
}

// TestDeepCopies doubles the depth with each copy: the patch ends with an error instead of a stack overflow.
func TestDeepCopies(t *testing.T) {
	p := `[{"op":"add","path":"/a","value":` + nested(2000) + `}`
	for depth := 2000; depth < 1<<17; depth *= 2 {
		p += `,{"op":"copy","from":"/a","path":"/a` + strings.Repeat("/a", depth) + `"}`
	}
	steps, err := patch.Decode([]byte(p + "]"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := patch.Apply(t.Context(), []byte(`{}`), steps, copyLimit); !errors.Is(err, patch.ErrDepth) {
		t.Errorf("got %v", err)
	}
}

// TestCopyLimit copies just as much as allowed, and one byte more.
func TestCopyLimit(t *testing.T) {
	steps, err := patch.Decode([]byte(`[{"op":"copy","from":"/a","path":"/b"},{"op":"copy","from":"/a","path":"/c"}]`))
	if err != nil {
		t.Fatal(err)
	}
	doc := []byte(`{"a":"1234"}`) // "1234" has 6 bytes
	if out, err := patch.Apply(t.Context(), doc, steps, 12); err != nil || string(out) != `{"a":"1234","b":"1234","c":"1234"}` {
		t.Errorf("got %s, %v", out, err)
	}
	const want = "Unable to complete the copy, the accumulated size increase of copy is 12, exceeding the limit 11"
	if _, err := patch.Apply(t.Context(), doc, steps, 11); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

// TestCancelled applies a patch after its request has ended.
func TestCancelled(t *testing.T) {
	steps, err := patch.Decode([]byte(`[{"op":"test","path":"/a","value":1}]`))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := patch.Apply(ctx, []byte(`{"a":1}`), steps, copyLimit); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestCount(t *testing.T) {
	for data, want := range map[string]int{
		`[]`: 0, ` [ ] `: 0, `{}`: 0, `{"a":[1,2]}`: 0, `1`: 0, `"[1,2]"`: 0, ``: 0,
		`[1]`: 1, `[[]]`: 1, `[{}]`: 1, `["a,b"]`: 1, `["\",",2]`: 2, `[{"a":[1,2]},{"b":","}]`: 2, "[\n1 , 2,\n3]": 3,
	} {
		if got := patch.Count([]byte(data)); got != want {
			t.Errorf("%s: %d", data, got)
		}
	}
}
