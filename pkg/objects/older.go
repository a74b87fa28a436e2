package objects

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Message is a type of the published API, which has a protobuf form.
type Message interface {
	runtime.Object
	Unmarshal([]byte) error
}

// Recode converts between versions through protobuf, for kinds whose versions agree in it: the fields that they share
// have the same numbers and types, and those of one version alone are dropped. out shares nothing with in.
func Recode[T interface{ Unmarshal([]byte) error }](in any, out T) (T, error) {
	m, ok := in.(interface{ Marshal() ([]byte, error) })
	if !ok {
		return out, fmt.Errorf("convert %T to %T: it has no protobuf form", in, out)
	}
	b, err := m.Marshal()
	if err == nil {
		err = out.Unmarshal(b)
	}
	if err != nil {
		return out, fmt.Errorf("convert %T to %T: %w", in, out, err)
	}
	return out, nil
}

// Older makes an older version of the same shape, of the group-version gv, which Recode converts.
func Older[T interface {
	Object
	Message
}, V Message](gv, deprecated string, current func() T, older func() V, list func() runtime.Object) Version[T] {
	group, version, _ := strings.Cut(gv, "/")
	return Version[T]{
		Group: group, Version: version, Deprecated: deprecated,
		New:     func() runtime.Object { return older() },
		NewList: list,
		To:      func(obj runtime.Object) (T, error) { return Recode(obj, current()) },
		From:    func(obj T) (runtime.Object, error) { return Recode(obj, older()) },
	}
}

// Departed is a type of a version that Kubernetes serves no more, which knows when that came.
type Departed interface {
	Message
	APILifecycleDeprecated() (major, minor int)
	APILifecycleRemoved() (major, minor int)
}

// Removed is like Older for a version that Kubernetes serves no more. kind is what it is called.
func Removed[T interface {
	Object
	Message
}, V Departed](gv, kind string, current func() T, older func() V, list func() runtime.Object) Version[T] {
	return Older(gv, Farewell(gv, kind, older()), current, older, list)
}

// Farewell is the text of the Warning header about such a version.
func Farewell(gv, kind string, obj Departed) string {
	major, minor := obj.APILifecycleDeprecated()
	text := fmt.Sprintf("%s %s is deprecated in v%d.%d+", gv, kind, major, minor)
	major, minor = obj.APILifecycleRemoved()
	text += fmt.Sprintf(", unavailable in v%d.%d+", major, minor)
	if next, ok := obj.(interface {
		APILifecycleReplacement() schema.GroupVersionKind
	}); ok {
		gvk := next.APILifecycleReplacement()
		text += fmt.Sprintf("; use %s %s", gvk.GroupVersion(), gvk.Kind)
	}
	return text
}
