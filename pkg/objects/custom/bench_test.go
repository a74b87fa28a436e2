package custom

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/minikctl/minikctl/pkg/objects"
)

// large returns a stored CronTab of about 2 KB.
func large(t testing.TB, r *objects.Resource) (*unstructured.Unstructured, []byte) {
	var ports []string
	for i := range 30 {
		ports = append(ports, fmt.Sprintf("{name: port-number-%d, port: %d}", i, i+8000))
	}
	u := cronTab(t, r, `{cronSpec: "* * * * */5", free: {a: {b: [1, 2, 3], c: text}}, ports: [`+strings.Join(ports, ", ")+`]}`)
	u.SetLabels(map[string]string{"app": "cron", "tier": "backend"})
	u.SetUID("7d1f3c1e-7d7e-4c55-9d2b-2f2a3c5c8a11")
	if err := unstructured.SetNestedField(u.Object, "2026-01-02T03:04:05Z", "metadata", "creationTimestamp"); err != nil {
		t.Fatal(err)
	}
	u.SetGeneration(1)
	managed := []any{map[string]any{"manager": "kubectl", "operation": "Update", "apiVersion": "stable.example.com/v1", "time": "2026-01-02T03:04:05Z",
		"fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{".": map[string]any{}, "f:cronSpec": map[string]any{}, "f:ports": map[string]any{}}}}}
	if err := unstructured.SetNestedSlice(u.Object, managed, "metadata", "managedFields"); err != nil {
		t.Fatal(err)
	}
	value, err := json.Marshal(u)
	if err != nil {
		t.Fatal(err)
	}
	return u, value
}

func BenchmarkRow(b *testing.B) {
	crd := definition(b, cronTabs)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Row(crd, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkObject(b *testing.B) {
	r := rowOf(b, cronTabs)
	v := &r.Versions[0]
	plain := rowOf(b, cronTabs, "            x-kubernetes-validations:\n            - {rule: self.replicas <= self.max, message: replicas over max}\n", "",
		", x-kubernetes-validations: [{rule: self == oldSelf, message: it is immutable, reason: FieldValueForbidden}]", "")
	u, value := large(b, r)
	b.Logf("%d bytes", len(value))
	run := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("json", func() error { return json.Unmarshal(value, &map[string]any{}) })
	run("read", func() error { _, err := r.Read(value); return err })
	run("decode", func() error { _, err := v.Unmarshal(value, v.New(), true); return err })
	run("coerce", func() error { _, err := v.Coerce(u); return err })
	run("default", func() error { v.Default(u); return nil })
	run("create", func() error { return plain.Versions[0].Validate(u, nil).ToAggregate() })
	run("create/cel", func() error { return v.Validate(u, nil).ToAggregate() })
	run("update", func() error { return plain.Versions[0].Validate(u, u).ToAggregate() })
	run("update/cel", func() error { return v.Validate(u, u).ToAggregate() })
}

// BenchmarkFirst measures the first use of a version.
func BenchmarkFirst(b *testing.B) {
	crd := definition(b, cronTabs)
	run := func(name string, f func(v *objects.VersionOf, u *unstructured.Unstructured) error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r, err := Row(crd, nil)
				if err != nil {
					b.Fatal(err)
				}
				if err := f(&r.Versions[0], cronTab(b, &r, `{cronSpec: "* * * * */5"}`)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("coerce", func(*objects.VersionOf, *unstructured.Unstructured) error { return nil })
	run("validate", func(v *objects.VersionOf, u *unstructured.Unstructured) error {
		return v.Validate(u, nil).ToAggregate()
	})
	run("merge", func(v *objects.VersionOf, _ *unstructured.Unstructured) error { _, err := v.Merge(); return err })
	run("openapi", func(v *objects.VersionOf, _ *unstructured.Unstructured) error { _, err := v.OpenAPI(); return err })
}
