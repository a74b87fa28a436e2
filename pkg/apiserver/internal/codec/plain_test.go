package codec

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestJSONAsYAML checks that a body of JSON that is sent as YAML is not read as YAML, which would take many times the memory.
func TestJSONAsYAML(t *testing.T) {
	var data strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&data, `,"k%d":"v"`, i)
	}
	body := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"data":{` + data.String()[1:] + `}}`
	kind := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	allocations := func(f Format, body string) float64 {
		return testing.AllocsPerRun(5, func() {
			var got corev1.ConfigMap
			if warnings, err := Decode(Body{Format: f, Data: []byte(body)}, kind, &got, nil); err != nil || len(warnings) > 0 || len(got.Data) != 1000 {
				t.Fatalf("%d entries, %v, %v", len(got.Data), warnings, err)
			}
		})
	}
	plain, asYAML, yaml := allocations(JSON, body), allocations(YAML, body), allocations(YAML, "# YAML\n"+body)
	t.Logf("%v allocations as JSON, %v of JSON as YAML, %v as YAML", plain, asYAML, yaml)
	if asYAML > 3*plain || yaml < 3*plain {
		t.Errorf("%v allocations as JSON, %v of JSON as YAML, %v as YAML", plain, asYAML, yaml)
	}
}
