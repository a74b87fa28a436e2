package custom

import (
	"fmt"
	"strings"
	"sync"

	"k8s.io/client-go/util/jsonpath"

	"github.com/minikctl/minikctl/pkg/objects"
)

// namespaced reports whether the kind is namespaced.
func (k *kind) namespaced() bool { return k.crd.Spec.Scope == "Namespaced" }

// selectable returns the field selectors of this version, for objects of the storage version.
func (v *version) selectable() map[string]func(objects.Object) string {
	out := map[string]func(objects.Object) string{
		"metadata.name": func(obj objects.Object) string { return obj.GetName() },
	}
	if v.namespaced() {
		out["metadata.namespace"] = func(obj objects.Object) string { return obj.GetNamespace() }
	}
	for _, f := range v.spec.SelectableFields {
		name := strings.TrimPrefix(f.JSONPath, ".")
		path := sync.OnceValues(func() (*jsonpath.JSONPath, error) { return parsePath(name, f.JSONPath) })
		out[name] = func(obj objects.Object) string {
			p, err := path()
			if err != nil {
				return "" // validation rejects such definitions
			}
			fields, err := v.show(obj)
			if err != nil {
				return ""
			}
			return valueAt(p, fields)
		}
	}
	return out
}

// valueAt returns the value at path as text, or "".
func valueAt(path *jsonpath.JSONPath, fields map[string]any) string {
	found, err := path.FindResults(fields)
	if err != nil || len(found) == 0 || len(found[0]) == 0 {
		return ""
	}
	if value := found[0][0].Interface(); value != nil {
		return fmt.Sprint(value)
	}
	return ""
}
