package custom

import (
	"math/rand"
	"reflect"
	"testing"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestOutline checks with random objects and schemas that the library changes nothing where an outline reports that there is nothing
// to do.
func TestOutline(t *testing.T) {
	c := chance{rand.New(rand.NewSource(1))}
	known, complete, bare := 0, 0, 0
	for range 4000 {
		crd := c.definition()
		v := newVersion(&kind{crd: crd}, &crd.Spec.Versions[0])
		s, err := v.schema()
		if err != nil || v.crd.Spec.PreserveUnknownFields {
			continue
		}
		for range 5 {
			obj, ok := c.like(s, 5).(map[string]any)
			if !ok {
				continue
			}
			obj["kind"] = "Thing"
			if same(obj, func(x map[string]any) { pruning.Prune(x, s, true) }) &&
				same(obj, func(x map[string]any) { defaulting.PruneNonNullableNullsWithoutDefaults(x, s) }) {
				if v.shape().covers(obj) {
					known++
				}
			} else if v.shape().covers(obj) {
				t.Fatalf("%v is not known under %s", obj, asJSON(t, v.spec.Schema))
			}
			if v.shape().complete(obj) {
				complete++
				if !same(obj, func(x map[string]any) { defaulting.Default(x, s) }) {
					t.Fatalf("%v is not complete under %s", obj, asJSON(t, v.spec.Schema))
				}
			}
			if !v.shape().embeds {
				bare++
				if err := objectmeta.Coerce(nil, obj, s, false, false); err != nil {
					t.Fatalf("%v: %v under %s", obj, err, asJSON(t, v.spec.Schema))
				}
			}
		}
	}
	if known < 1000 || complete < 1000 || bare < 1000 {
		t.Errorf("%d known, %d complete, %d without objects of their own", known, complete, bare)
	}
}

func same(obj map[string]any, change func(map[string]any)) bool {
	changed := runtime.DeepCopyJSON(obj)
	change(changed)
	return reflect.DeepEqual(obj, changed)
}

// like generates a value that mostly meets a schema.
func (c chance) like(s *structural.Structural, depth int) any {
	if s == nil || depth == 0 || c.Intn(40) == 0 {
		return c.value(min(depth, 2))
	}
	switch s.Type {
	case "array":
		out := []any{}
		for range c.Intn(3) {
			out = append(out, c.like(s.Items, depth-1))
		}
		return out
	case "object":
		out := map[string]any{}
		for name, p := range s.Properties {
			if c.Intn(8) > 0 {
				out[name] = c.like(&p, depth-1)
			}
		}
		if s.AdditionalProperties != nil {
			out["more"] = c.like(s.AdditionalProperties.Structural, depth-1)
		}
		if s.XPreserveUnknownFields {
			out["odd"] = c.value(2)
		}
		return out
	}
	return "text"
}
