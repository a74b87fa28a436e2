package verbs

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"
)

// TestPlainJSON reads configurations as JSON and as YAML: what counts as plain JSON means the same.
func TestPlainJSON(t *testing.T) {
	for data, want := range map[string]bool{
		`{}`: true, ` {"a":1}`: true, "\n  {\"a\" : [1, -2, true, false, null, {}, []]}\n": true,
		`{"a":"\u0061\n\t\"\\\b\f\r"}`: true, `{"a":"\/"}`: false, "{\"a\":\t1}": false, `{"<<":{"a":1},"~":1,"null":2,"1":3}`: true, `{"a":123456789012345678,"b":-0}`: true,
		`{"a":"1.0 e E . é"}`: false, `{"a":"1.0 e E ."}`: true, `{"e":1,"a":"\\","b":"\\\""}`: true,
		`{"a":1.0}`: false, `{"a":1e3}`: false, `{"a":1E3}`: false, `{"a":1234567890123456789}`: false,
		`{"a":"\ud83d\ude00"}`: false, `{"a":"` + "\x7f" + `"}`: false, `{"a":"\u2028"}`: true, `{"a":"` + "\u2028" + `"}`: false,
		`[]`: false, `a: 1`: false, ``: false, `"a"`: false, `# {`: false,
	} {
		if got := PlainJSON([]byte(data)); got != want {
			t.Errorf("%s: %v", data, got)
		}
		if !want {
			continue
		}
		c, err := readConfiguration([]byte(data), true)
		if err != nil || c.duplicates != nil {
			t.Errorf("%s: %v, %v", data, err, c.duplicates)
		}
		var asYAML map[string]any
		if err := yaml.UnmarshalStrict([]byte(data), &asYAML); err != nil || !reflect.DeepEqual(asYAML, c.object.Object) {
			t.Errorf("%s: as JSON %#v, as YAML %#v, %v", data, c.object.Object, asYAML, err)
		}
	}
}

// TestPlainJSONErrors reads JSON with errors: they are those of YAML.
func TestPlainJSONErrors(t *testing.T) {
	for data, want := range map[string]string{
		`{"a":1,"a":2}`: "error converting YAML to JSON: yaml: unmarshal errors:\n  line 1: key \"a\" already set in map",
		`{"a":`:         "",
	} {
		c, err := readConfiguration([]byte(data), true)
		if want == "" && err == nil || want != "" && (c.duplicates == nil || c.duplicates.Error() != want) {
			t.Errorf("%s: %v, %v", data, err, c.duplicates)
		}
	}
}
