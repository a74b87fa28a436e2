package openapi

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// modeled is implemented by Kubernetes' types, which have the name of their definition.
type modeled interface{ OpenAPIModelName() string }

// define returns the name of the definition of an object's type. It derives the definition of a type without a generated one,
// as minikctl's own, from the Go type.
func (l *library) define(obj runtime.Object, gvk schema.GroupVersionKind) string {
	t := reflect.TypeOf(obj)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	domain := strings.Split(gvk.Group, ".")
	slices.Reverse(domain)
	prefix := strings.Join(append(domain, gvk.Version), ".") + "."
	if m, ok := reflect.Zero(t).Interface().(modeled); ok {
		if raw, ok := l.get(m.OpenAPIModelName()); ok {
			return l.as(m.OpenAPIModelName(), raw, gvk, prefix)
		}
	}
	return reflection{library: l, prefix: prefix}.structure(t, &gvk)
}

const kindsKey = "x-kubernetes-group-version-kind"

// as collects a generated definition. A type that is used for other kinds than its own has a definition for each.
func (l *library) as(name string, raw json.RawMessage, gvk schema.GroupVersionKind, prefix string) string {
	var known struct {
		Kinds []metav1.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &known) != nil || json.Unmarshal(raw, &all) != nil ||
		slices.Contains(known.Kinds, metav1.GroupVersionKind(gvk)) {
		l.use(name)
		return name
	}
	all[kindsKey] = mustJSON([]metav1.GroupVersionKind{metav1.GroupVersionKind(gvk)})
	l.put(prefix+gvk.Kind, mustJSON(all))
	return prefix + gvk.Kind
}

// reflection derives definitions from Go types.
type reflection struct {
	*library
	prefix string
}

func (r reflection) structure(t reflect.Type, gvk *schema.GroupVersionKind) string {
	name := r.prefix + t.Name()
	if _, ok := r.found[name]; ok {
		return name
	}
	r.found[name] = nil // for types that contain themselves
	s := map[string]any{"type": "object"}
	properties, required := map[string]any{}, []string{}
	r.properties(t, properties, &required)
	s["properties"] = properties
	if len(required) > 0 {
		s["required"] = required
	}
	if gvk != nil {
		s[kindsKey] = []metav1.GroupVersionKind{metav1.GroupVersionKind(*gvk)}
	}
	r.put(name, mustJSON(s))
	return name
}

func (r reflection) properties(t reflect.Type, into map[string]any, required *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		if name == "" && f.Anonymous {
			r.properties(f.Type, into, required)
			continue
		}
		if name == "" {
			name = f.Name
		}
		into[name] = r.schema(f.Type)
		if !strings.Contains(options, "omit") && f.Type.Kind() != reflect.Pointer {
			*required = append(*required, name)
		}
	}
}

var (
	timeType   = reflect.TypeFor[time.Time]()
	marshaler  = reflect.TypeFor[json.Marshaler]()
	anyContent = map[string]any{"x-kubernetes-preserve-unknown-fields": true}
)

func (r reflection) schema(t reflect.Type) map[string]any {
	if t.Kind() == reflect.Pointer {
		return r.schema(t.Elem())
	}
	if t == timeType {
		return map[string]any{"type": "string", "format": "date-time"}
	}
	if m, ok := reflect.Zero(t).Interface().(modeled); ok && r.use(m.OpenAPIModelName()) {
		return map[string]any{"allOf": []any{map[string]any{"$ref": refPrefix + m.OpenAPIModelName()}}}
	}
	if t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler) {
		return anyContent
	}
	switch t.Kind() {
	case reflect.Struct:
		return map[string]any{"$ref": refPrefix + r.structure(t, nil)}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return map[string]any{"type": "string", "format": "byte"}
		}
		return map[string]any{"type": "array", "items": r.schema(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": r.schema(t.Elem())}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number", "format": "double"}
	case reflect.Int32, reflect.Int16, reflect.Int8, reflect.Uint8, reflect.Uint16:
		return map[string]any{"type": "integer", "format": "int32"}
	case reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint32, reflect.Uint64:
		return map[string]any{"type": "integer", "format": "int64"}
	}
	return anyContent
}
