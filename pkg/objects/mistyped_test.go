package objects_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	kjson "sigs.k8s.io/json"

	"github.com/minikctl/minikctl/pkg/objects"
)

// TestMistypedItems decodes pods whose lists have many items of a wrong type. The error is the decoder's about the first, and no
// item is made of most.
func TestMistypedItems(t *testing.T) {
	const n = 9000
	many := func(item string) string { return strings.Repeat(item+",", n) + item }
	for _, c := range []struct {
		doc  string
		made int // containers or volumes at most
	}{
		{`{"spec":{"containers":[%s]}}`, 2000},
		{`{"spec":{"containers":[{"name":"a"}, %s , {"name":"b"}],"volumes":[%[1]s]}}`, 2000},
		{`{"spec":{"containers":[{"args":["\\\"]"]},{"ports":[%s]},{"name":"x"}]}}`, 3},
		{`{"metadata":{"labels":{"a":"b"},"ownerReferences":[%s]},"spec":{}}`, 0},
	} {
		for _, item := range []string{`"s"`, `1`, `-1.5e3`, `true`, `[]`, `[{}, "]"]`, `"\"]"`} {
			data := []byte(fmt.Sprintf(c.doc, many(item)))
			_, want := kjson.UnmarshalStrict(data, &corev1.Pod{})
			var pod corev1.Pod
			_, err := (*objects.VersionOf)(nil).Unmarshal(data, &pod, true)
			if err == nil || want == nil || err.Error() != want.Error() {
				t.Errorf("%s of %s: got %v, want %v", c.doc, item, err, want)
			}
			if made := len(pod.Spec.Containers) + len(pod.Spec.Volumes); made > c.made {
				t.Errorf("%s of %s: %d items are made", c.doc, item, made)
			}
		}
	}
}

// TestMistypedFields decodes definitions with many fields of a wrong type in a map.
func TestMistypedFields(t *testing.T) {
	for _, item := range []string{`"s"`, `1`, `true`, `[{}, "]"]`, `"\"}"`} {
		var fields []string
		for i := range 9000 {
			fields = append(fields, fmt.Sprintf(`"f%d" : %s`, i, item))
		}
		for _, doc := range []string{`{"properties":{%s}}`, `{"properties":{"a":{"type":"object"} , %s, "z":{}},"type":"object"}`, `{"properties":{"a":{"properties":{ %s }}}}`} {
			data := []byte(fmt.Sprintf(doc, strings.Join(fields, " , ")))
			_, want := kjson.UnmarshalStrict(data, &apiextensionsv1.JSONSchemaProps{})
			less := objects.WithFewMistyped(data, reflect.TypeFor[apiextensionsv1.JSONSchemaProps]())
			_, err := kjson.UnmarshalStrict(less, &apiextensionsv1.JSONSchemaProps{})
			if err == nil || want == nil || err.Error() != want.Error() {
				t.Errorf("%s of %s: got %v, want %v", doc, item, err, want)
			}
			if n := strings.Count(string(less), `"f`); n > 1001 {
				t.Errorf("%s of %s: %d fields are left", doc, item, n)
			}
		}
	}
}

// TestManyItems decodes large lists that have no item of a wrong type.
func TestManyItems(t *testing.T) {
	const n = 3000
	for _, c := range []struct{ doc, item string }{
		{`{"spec":{"containers":[%s]}}`, `{"name":"c","args":["a"],"ports":[{"containerPort":1}],"livenessProbe":{"httpGet":{"port":"http"}}}`},
		{`{"spec":{"containers":[%s]}}`, `null`},
		{`{"spec":{"containers":[{"args":[%s]}]}}`, `"a\\\"b"`},
		{`{"spec":{"containers":[{"resources":{"limits":{"cpu":1}},"unknown":[%s]}]}}`, `1`},
		{`{"metadata":{"creationTimestamp":"2026-01-01T00:00:00Z","managedFields":[{"fieldsV1":{"x":[%s]}}]}}`, `[1]`},
	} {
		data := []byte(fmt.Sprintf(c.doc, strings.Repeat(c.item+" , ", n)+c.item))
		var want, got corev1.Pod
		if _, err := kjson.UnmarshalStrict(data, &want); err != nil {
			t.Fatal(err)
		}
		if _, err := (*objects.VersionOf)(nil).Unmarshal(data, &got, true); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s of %s: %v, or another pod", c.doc, c.item, err)
		}
	}
}

// FuzzMistyped compares the decoder's error, and its result without an error, with those of Unmarshal.
func FuzzMistyped(f *testing.F) {
	f.Add(`{"spec":{"containers":[`, `"s"`, `,`, `]}}`)
	f.Add(`{"spec":{"containers":[{"args":[`, `[}`, ` , `, `]}]}}`)
	f.Fuzz(func(t *testing.T, before, item, comma, after string) {
		data := []byte(before + strings.Repeat(item+comma, 3000) + item + after)
		if len(data) > 1<<20 {
			return
		}
		var want, got corev1.Pod
		_, wantErr := kjson.UnmarshalStrict(data, &want)
		_, err := (*objects.VersionOf)(nil).Unmarshal(data, &got, true)
		if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", err, wantErr)
		}
	})
}
