package track

import (
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/minikctl/minikctl/pkg/objects"
)

// converter implements the library's interfaces for a resource: conversion between its versions, their defaults, and the merge
// schemas of their fields.
type converter struct {
	resource *objects.Resource
	versions map[schema.GroupVersion]*version
	types    map[reflect.Type]*version
	order    order
}

type version struct {
	*objects.VersionOf
	kind  schema.GroupVersionKind
	merge typed.ParseableType
}

func newConverter(r *objects.Resource) (*converter, error) {
	c := &converter{resource: r, versions: map[schema.GroupVersion]*version{}, types: map[reflect.Type]*version{}}
	for i := range r.Versions {
		s := &r.Versions[i]
		gv := schema.GroupVersion{Group: s.Group, Version: s.Version}
		t := reflect.TypeOf(s.New()).Elem()
		v := &version{VersionOf: s, kind: gv.WithKind(r.Names.Kind), merge: typed.DeducedParseableType}
		if err := v.loadSchema(t); err != nil {
			return nil, err
		}
		c.versions[gv], c.types[t] = v, v
	}
	return c, nil
}

// loadSchema sets the merge schema of the version. A type without a schema merges by the structure of its values.
func (v *version) loadSchema(t reflect.Type) error {
	if v.Merge != nil {
		merge, err := v.Merge()
		v.merge = merge
		return err
	}
	p, err := parserOf(nameOf(t))
	if p != nil {
		v.merge = *p
	}
	return err
}

var _ managedfields.TypeConverter = (*converter)(nil)

// of returns the version of an object.
func (c *converter) of(obj runtime.Object) (*version, error) {
	if _, ok := obj.(runtime.Unstructured); ok {
		gvk := obj.GetObjectKind().GroupVersionKind()
		if v := c.versions[gvk.GroupVersion()]; v != nil && gvk.Kind == v.kind.Kind {
			return v, nil
		}
		return nil, fmt.Errorf("no corresponding type for %s", gvk)
	}
	if v := c.types[reflect.TypeOf(obj).Elem()]; v != nil {
		return v, nil
	}
	return nil, fmt.Errorf("no corresponding type for %T", obj)
}

// ObjectToTyped returns an object with its merge schema.
func (c *converter) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	v, err := c.of(obj)
	if err != nil {
		return nil, err
	}
	u, plain := obj.(*unstructured.Unstructured)
	switch {
	case c.order != unordered:
		return c.order.typed(v.merge, obj, opts)
	case plain:
		return v.merge.FromUnstructured(u.Object, opts...)
	}
	return v.merge.FromStructured(obj, opts...)
}

// inOrder returns a converter whose values are iterated in an order.
func (c *converter) inOrder(o order) *converter {
	out := *c
	out.order = o
	return &out
}

// TypedToObject is the reverse; the object is unstructured.
func (c *converter) TypedToObject(value *typed.TypedValue) (runtime.Object, error) {
	content, ok := value.AsValue().Unstructured().(map[string]any)
	if !ok {
		return nil, fmt.Errorf("a %s is no object", c.resource.Names.Kind)
	}
	return &unstructured.Unstructured{Object: content}, nil
}

// ConvertToVersion returns an object in another version.
func (c *converter) ConvertToVersion(obj runtime.Object, to runtime.GroupVersioner) (runtime.Object, error) {
	from, err := c.of(obj)
	if err != nil {
		return nil, err
	}
	kind, ok := to.KindForGroupVersionKinds([]schema.GroupVersionKind{from.kind})
	target := c.versions[kind.GroupVersion()]
	if gv, is := to.(schema.GroupVersion); is {
		target, ok = c.versions[gv], true
	}
	if !ok || target == nil {
		if c.resource.Custom() {
			return nil, fmt.Errorf("request to convert CR to an invalid group/version: %s", to)
		}
		return nil, fmt.Errorf("%s is not served in version %s", c.resource.Names.Kind, to)
	}
	if u, is := obj.(*unstructured.Unstructured); is && !c.resource.Custom() {
		obj = from.New()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj); err != nil {
			return nil, err
		}
	}
	if from == target {
		return from.named(obj), nil
	}
	stored, _ := obj.(objects.Object)
	if from.To != nil {
		if stored, err = from.To(obj); err != nil {
			return nil, err
		}
	}
	if target.From == nil {
		return target.named(stored), nil
	}
	if obj, err = target.From(stored); err != nil {
		return nil, err
	}
	return target.named(obj), nil
}

// named sets the kind of an object. Shared objects have it already, and are not changed.
func (v *version) named(obj runtime.Object) runtime.Object {
	if obj.GetObjectKind().GroupVersionKind() != v.kind {
		obj.GetObjectKind().SetGroupVersionKind(v.kind)
	}
	return obj
}

// Convert and ConvertFieldLabel make a converter a runtime.ObjectConvertor; the library calls neither.
func (c *converter) Convert(_, _, _ any) error { return errUnused }

// ConvertFieldLabel is not used.
func (c *converter) ConvertFieldLabel(schema.GroupVersionKind, string, string) (string, string, error) {
	return "", "", errUnused
}

var errUnused = errors.New("conversion is not supported here")

// Default sets the defaults of the object's version.
func (c *converter) Default(obj runtime.Object) {
	v, err := c.of(obj)
	if err != nil {
		return
	}
	if stored, ok := obj.(objects.Object); ok && v.To == nil {
		c.resource.Default(stored)
		return
	}
	v.VersionOf.Default(obj)
}

// New returns an empty object of a kind.
func (c *converter) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	v := c.versions[kind.GroupVersion()]
	if v == nil {
		return nil, fmt.Errorf("%s is not served in version %s", c.resource.Names.Kind, kind.GroupVersion())
	}
	return v.named(v.VersionOf.New()), nil
}

// Types returns the merge schemas of a resource's objects, for merges without managedFields.
func Types(r *objects.Resource) (managedfields.TypeConverter, error) { return newConverter(r) }
