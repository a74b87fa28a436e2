package codec

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/objects"
)

// Decoder decodes bodies into objects of the stored version.
type Decoder struct {
	names map[schema.GroupVersionKind]string // the Go type of each served kind
}

// NewDecoder returns a decoder for resources.
func NewDecoder(resources []*objects.Resource) *Decoder {
	d := &Decoder{names: map[schema.GroupVersionKind]string{}}
	for _, s := range subresources() {
		if s.Kind != nil && s.Kind.New != nil {
			d.names[s.Kind.Names.GVK()] = TypeName(s.Kind.New())
		}
	}
	for _, r := range resources {
		for _, v := range r.Versions {
			if v.Unserved {
				continue
			}
			gvk := schema.GroupVersionKind{Group: v.Group, Version: v.Version, Kind: r.Names.Kind}
			d.names[gvk] = TypeName(v.New())
			d.names[gvk.GroupVersion().WithKind(gvk.Kind+"List")] = d.names[gvk] + "List"
			if !r.Custom() {
				d.meta(gvk.GroupVersion())
			}
		}
	}
	return d
}

// meta adds the kinds that every version has.
func (d *Decoder) meta(gv schema.GroupVersion) {
	for _, kind := range metaKinds {
		d.names[gv.WithKind(kind)] = "v1." + kind
	}
}

var metaKinds = append([]string{
	"List", "WatchEvent", "ListOptions", "GetOptions", "DeleteOptions", "CreateOptions", "UpdateOptions", "PatchOptions",
}, unversioned...)

// Known returns the name of the Go type of a served kind; "" if the kind is not served.
func (d *Decoder) Known(gvk schema.GroupVersionKind) string { return d.names[gvk] }

// KindOf returns the kind of req's body and response: that of its subresource if it has one, else that of its resource.
func KindOf(req *verbs.Request) Kind {
	if req.Subresource != "" {
		if sub, ok := SubresourceOf(req.Resource, req.Subresource); ok && sub.Kind != nil {
			return Kind{Resource: sub.Kind}
		}
	}
	return Kind{Resource: req.Resource, Version: req.Version}
}

// Body decodes a body in the requested version and returns it in the stored version, with defaults. It passes warnings about
// fields to req.Warn.
func (d *Decoder) Body(req *verbs.Request, b Body) (objects.Object, error) {
	k := KindOf(req)
	obj := runtime.Object(k.Resource.New())
	if !k.Stored() {
		obj = k.Version.New()
	}
	var warnings []string
	var err error
	if k.Resource.Custom() {
		warnings, err = decodeCustom(b, k, obj)
	} else {
		warnings, err = Decode(b, k.GVK(), obj, d.Known)
	}
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		req.Warn(w)
	}
	return k.store(obj)
}

// Check returns a function that refuses objects of another kind than req's; nil for custom resources and subresources,
// whose kind is not checked.
func (d *Decoder) Check(req *verbs.Request) func(actual schema.GroupVersionKind) error {
	k := KindOf(req)
	if k.Resource.Custom() || req.Subresource != "" {
		return nil
	}
	return func(actual schema.GroupVersionKind) error { return checkKind(fill(actual, k.GVK()), k.GVK(), d.Known) }
}

// List decodes a body that is a list of req's resource. It returns nil for a body of another kind.
func (d *Decoder) List(req *verbs.Request, b Body) (runtime.Object, error) {
	want := KindOf(req).GVK()
	want.Kind += "List"
	if !b.hasKind(want) {
		return nil, nil
	}
	list := req.Resource.NewList()
	known := func(gvk schema.GroupVersionKind) string { return gvk.Kind }
	warnings, err := Decode(b, want, list, known)
	for _, w := range warnings {
		req.Warn(w)
	}
	return list, err
}

// store converts an object of the served version to the stored one, with the defaults of both, except those of the stored
// version where the engine sets them after it updates managedFields.
func (k Kind) store(obj runtime.Object) (objects.Object, error) {
	stored, ok := obj.(objects.Object)
	if !k.Stored() {
		k.Version.Default(obj)
		var err error
		if stored, err = k.Version.To(obj); err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v",
				k.Resource.Names.Kind, k.Version.Version, k.Resource.Names.Kind, err))
		}
	} else if !ok {
		return nil, fmt.Errorf("%T is no API object", obj)
	}
	if k.Stored() || !k.Resource.DefaultsUnowned {
		k.Resource.Default(stored)
	}
	stored.GetObjectKind().SetGroupVersionKind(k.Resource.Names.GVK())
	return stored, nil
}
