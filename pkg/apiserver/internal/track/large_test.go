package track

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/minikctl/minikctl/pkg/objects"
)

// withPorts is a pod with n ports in random order, some of them without a protocol and some twice, and n arguments.
func withPorts(n int, seed uint64) *corev1.Pod {
	r := rand.New(rand.NewPCG(seed, 0))
	p := withLabels(10, 0)
	p.APIVersion, p.Kind = "v1", "Pod"
	c := &p.Spec.Containers[0]
	for _, i := range r.Perm(n) {
		port := corev1.ContainerPort{ContainerPort: int32(i + 1), Name: fmt.Sprint("p", r.IntN(n))}
		if i%3 != 0 {
			port.Protocol = corev1.ProtocolTCP
		}
		c.Ports = append(c.Ports, port)
		if i%100 == 0 {
			c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: int32(i + 1), Protocol: corev1.ProtocolTCP, Name: fmt.Sprint("q", r.IntN(3))})
		}
		c.Args = append(c.Args, fmt.Sprint(r.IntN(n)))
	}
	return p
}

// unsorted counts the items of a pod's first container's field that come before an item with a smaller path.
func unsorted(t *testing.T, v *typed.TypedValue, field string) (count, items int) {
	t.Helper()
	at := v.AsValue()
	get := func(name string) {
		next, ok := at.AsMap().Get(name)
		if !ok {
			t.Fatalf("no %s", name)
		}
		at = next
	}
	get("spec")
	get("containers")
	at = at.AsList().At(0)
	get(field)
	l := at.AsList().(*orderedList)
	var paths []fieldpath.PathElement
	for i := range l.Length() {
		if atom := l.sorts; atom != nil {
			paths = append(paths, pathOf(l.At(i), l.place, atom))
			continue
		}
		item := l.At(i)
		paths = append(paths, fieldpath.PathElement{Value: &item})
	}
	for i := 1; i < len(paths); i++ {
		if paths[i-1].Compare(paths[i]) > 0 {
			count++
		}
	}
	return count, len(paths)
}

// TestLargeLists checks that the library gets the items of a large associative list in order, and an atomic one as it is, and that its
// results are those for the list's own order.
func TestLargeLists(t *testing.T) {
	c, err := newConverter(&podRow)
	if err != nil {
		t.Fatal(err)
	}
	pods := []*corev1.Pod{withPorts(2*large, 1), withPorts(2*large, 2)}
	for _, plain := range []bool{false, true} {
		var in, own [2]*typed.TypedValue
		for i, p := range pods {
			var obj runtime.Object = p
			if plain {
				content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p)
				if err != nil {
					t.Fatal(err)
				}
				obj = &unstructured.Unstructured{Object: content}
			}
			if in[i], err = c.inOrder(allSorted).ObjectToTyped(obj, typed.AllowDuplicates); err != nil {
				t.Fatal(err)
			}
			if own[i], err = c.ObjectToTyped(obj, typed.AllowDuplicates); err != nil {
				t.Fatal(err)
			}
			if n, of := unsorted(t, in[i], "ports"); n > 0 || of <= 2*large {
				t.Errorf("%d of %d ports are not in order", n, of)
			}
			if n, _ := unsorted(t, in[i], "args"); n == 0 {
				t.Error("the arguments, an atomic list, are in order")
			}
		}
		got, err := in[0].ToFieldSet()
		want, wantErr := own[0].ToFieldSet()
		if err != nil || wantErr != nil || !got.Equals(want) {
			t.Errorf("other fields: %v, %v", err, wantErr)
		}
		changes, err := in[0].Compare(in[1])
		wantChanges, wantErr := own[0].Compare(own[1])
		if err != nil || wantErr != nil || !reflect.DeepEqual(changes.String(), wantChanges.String()) {
			t.Errorf("other changes: %v, %v", err, wantErr)
		}
		if !reflect.DeepEqual(in[0].AsValue().Unstructured(), own[0].AsValue().Unstructured()) {
			t.Error("another value")
		}
	}
}

// TestLargeApply checks the bound of an apply: the sum of the squares of the lengths, where atomic and ordered lists count nothing.
func TestLargeApply(t *testing.T) {
	tracker := New(clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0)))
	config := func(labels, args, ports int, ascending bool) *unstructured.Unstructured {
		l, a, p := map[string]any{}, []any{}, []any{}
		for i := range labels {
			l[fmt.Sprint("k", i)] = "v"
		}
		for i := range args {
			a = append(a, fmt.Sprint(i))
		}
		for i := range ports {
			if !ascending {
				i = ports - 1 - i
			}
			p = append(p, map[string]any{"containerPort": int64(i + 1), "protocol": "TCP"})
		}
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p", "labels": l},
			"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i", "args": a, "ports": p}}},
		}}
	}
	w := Write{Resource: &podRow, Manager: "m"}
	for _, c := range []struct {
		labels, args, ports int
		ascending, refused  bool
	}{{labels: 20_000}, {labels: 20_001, refused: true}, {args: 50_000}, {ports: 2000}, {ports: 10_000, ascending: true}, {ports: 8165, refused: true}} {
		obj, err := tracker.Apply(w, nil, config(c.labels, c.args, c.ports, c.ascending), false)
		if c.refused != tooLarge(err, "the configuration") || !c.refused && err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		if err != nil {
			continue
		}
		if n := len(obj.GetLabels()); n != c.labels {
			t.Errorf("%d labels of %d", n, c.labels)
		}
	}
	var wide objects.Object = withLabels(20_001, 0)
	if _, err := tracker.Apply(w, wide, config(1, 1, 1, true), true); !tooLarge(err, "the live object") {
		t.Errorf("apply to a pod with 20,001 labels: %v", err)
	}
}

// TestWrongItems applies lists with items of the wrong type: up to a bound the library names each of them.
func TestWrongItems(t *testing.T) {
	tracker := New(clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0)))
	items := func(good, wrong int, item any) []any {
		var out []any
		for range good {
			out = append(out, "a")
		}
		for range wrong {
			out = append(out, item)
		}
		return out
	}
	for _, c := range []struct {
		field   string
		items   []any
		refused bool
	}{
		{"args", items(100, maxWrong, int64(1)), false},
		{"args", items(100, maxWrong+1, int64(1)), true},
		{"args", items(0, maxWrong+1, []any{}), true},
		{"args", items(0, maxWrong+1, map[string]any{}), true},
		{"args", items(0, maxWrong+1, true), true},
		{"args", items(maxWrong+1, 1, int64(1)), false},
		{"args", items(0, maxWrong+1, nil), false},
		{"ports", items(maxWrong+1, 0, nil), true},
	} {
		patch := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p"},
			"spec": map[string]any{"containers": []any{map[string]any{"name": "c", c.field: c.items}}},
		}}
		_, err := tracker.Apply(Write{Resource: &podRow, Manager: "m"}, nil, patch, false)
		if got := apierrors.IsRequestEntityTooLargeError(err); got != c.refused {
			t.Errorf("%s, %d items, the last %v: refused: %v", c.field, len(c.items), c.items[len(c.items)-1], got)
		}
	}
}

// TestWrongEntries counts the entries of a map that have the wrong type.
func TestWrongEntries(t *testing.T) {
	tracker := New(clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0)))
	for wrong, refused := range map[int]bool{maxWrong: false, maxWrong + 1: true} {
		entries := map[string]any{"right": "v"}
		for i := range wrong {
			entries[fmt.Sprint(i)] = map[string]any{}
		}
		patch := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p"}, "spec": map[string]any{"nodeSelector": entries}}}
		_, err := tracker.Apply(Write{Resource: &podRow, Manager: "m"}, nil, patch, false)
		if got := apierrors.IsRequestEntityTooLargeError(err); got != refused || err == nil {
			t.Errorf("%d entries: %.100v", wrong, err)
		}
	}
}

// TestDeepApply checks the bound of the depth: atomic values count as one field.
func TestDeepApply(t *testing.T) {
	deep := func(n int) any {
		var v any = int64(1)
		for range n {
			v = map[string]any{"a": v}
		}
		return v
	}
	free := typed.DeducedParseableType
	for depth, refused := range map[int]bool{100: false, 6_999: false, 7_000: true, 9_900: true} {
		var e effort
		e.add(value.NewValueInterface(deep(depth)), place{schema: free.Schema, ref: free.TypeRef}, 0, false)
		if e.isOver() != refused {
			t.Errorf("%d objects: %d steps, of at most %d", depth, e.steps, maxSteps)
		}
		e = effort{}
		if e.add(value.NewValueInterface(deep(depth)), place{schema: free.Schema, ref: free.TypeRef}, 0, true); e.steps != 0 {
			t.Errorf("%d objects in an atomic one: %d steps", depth, e.steps)
		}
	}
}

// tooLarge reports whether err refuses an apply because of this object.
func tooLarge(err error, object string) bool {
	return apierrors.IsRequestEntityTooLargeError(err) && strings.Contains(err.Error(), "maps and lists of "+object+" are too long")
}

// TestSortFields compares FieldsV1 before and after the fields are sorted, as the library reads them.
func TestSortFields(t *testing.T) {
	var b strings.Builder
	for i := range 300 {
		fmt.Fprintf(&b, `,"f:k%d":{"k:{\"containerPort\":%d,\"protocol\":\"TCP\"}":{".":{},"f:b":{},"f:a":null},"v:%d":{}}`, i*37%300, i*41%300, i*43%300)
		fmt.Fprintf(&b, `,"k:{\"name\":\"%d\"}":{"f:name":{},".":{}},"z:%d":{},"i:%d":{}`, i*47%300, i, i*7%300)
	}
	raw := `{".":{}` + b.String() + `}`
	sorted := sortFields([]byte(raw))
	read := func(raw []byte) string {
		var s fieldpath.Set
		if err := s.FromJSON(strings.NewReader(string(raw))); err != nil {
			t.Fatal(err)
		}
		out, err := s.ToJSON()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if got, want := read(sorted), read([]byte(raw)); got != want {
		t.Errorf("got %.300s, want %.300s", got, want)
	}
	for name, inOrder := range map[string]string{"sorted": string(sorted), "the library's": read(sorted)} {
		_, ok, err := readFields(json.NewDecoder(strings.NewReader(inOrder)))
		if !ok || err != nil || string(sortFields([]byte(inOrder))) != inOrder {
			t.Errorf("%s fields are not in order: %v %v", name, ok, err)
		}
	}
	if _, ok, _ := readFields(json.NewDecoder(strings.NewReader(raw))); ok {
		t.Error("the test's fields are in order")
	}
	for _, bad := range []string{``, `1`, `{"f:b":{},"f:a":1}`, `{"f:b":[]}`, `{"f:b":{}`} {
		var s fieldpath.Set
		if got := sortFields([]byte(bad)); s.FromJSON(strings.NewReader(string(got))) == nil {
			t.Errorf("%s becomes %s", bad, got)
		}
	}
}

// TestSentFields checks that the large managedFields of a request are sorted before the library reads them, in a copy.
func TestSentFields(t *testing.T) {
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, `,"f:k%d":{}`, i)
	}
	sent := []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: &metav1.FieldsV1{Raw: []byte("{" + b.String()[1:] + "}")}}}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ManagedFields: sent}}
	sortSent(p)
	if _, ok, err := readFields(json.NewDecoder(strings.NewReader(string(p.ManagedFields[0].FieldsV1.Raw)))); !ok || err != nil {
		t.Errorf("not in order: %v", err)
	}
	if !strings.HasSuffix(string(sent[0].FieldsV1.Raw), `"f:k4999":{}}`) {
		t.Error("the sent fields have changed")
	}
}
