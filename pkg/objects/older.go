package objects

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Message is an API type with a protobuf encoding.
type Message interface {
	runtime.Object
	Unmarshal([]byte) error
}

// Recode converts between versions through protobuf, for kinds whose versions have equal field numbers and types. Fields that
// only one version has are dropped. out shares no memory with in.
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

// Older returns a Version of the group-version gv that Recode converts.
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

// Lifecycle is a type of a version that Kubernetes has removed. It has the releases of the removal.
type Lifecycle interface {
	Message
	APILifecycleDeprecated() (major, minor int)
	APILifecycleRemoved() (major, minor int)
}

// Removed is Older for a version that Kubernetes has removed. kind is its kind.
func Removed[T interface {
	Object
	Message
}, V Lifecycle](gv, kind string, current func() T, older func() V, list func() runtime.Object) Version[T] {
	return Older(gv, RemovalWarning(gv, kind, older()), current, older, list)
}

// RemovalWarning returns the text of the Warning header for such a version. Every process makes these texts when it starts:
// they are joined, because formatting them would take most of the package's start.
func RemovalWarning(gv, kind string, obj Lifecycle) string {
	text := gv + " " + kind + " is deprecated in " + release(obj.APILifecycleDeprecated()) + ", unavailable in " + release(obj.APILifecycleRemoved())
	if next, ok := obj.(interface {
		APILifecycleReplacement() schema.GroupVersionKind
	}); ok {
		gvk := next.APILifecycleReplacement()
		text += "; use " + gvk.GroupVersion().String() + " " + gvk.Kind
	}
	return text
}

// release returns how the texts name a release and those after it.
func release(major, minor int) string {
	return "v" + strconv.Itoa(major) + "." + strconv.Itoa(minor) + "+"
}
