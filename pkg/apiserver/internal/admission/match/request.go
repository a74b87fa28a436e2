// Package match owns what webhooks and policies see of a request: its resource and kind in every served version of the
// resource, the converted objects, and whether rules and selectors match. It returns copies:
// the request's own objects are never changed.
package match

import (
	"context"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

// Version is a version in which a request can be matched and converted.
type Version struct {
	Resource schema.GroupVersionResource
	Kind     schema.GroupVersionKind
}

// Request is the view that webhooks and policies have of a request.
type Request struct {
	admission *stage.Admission
	reader    stage.Reader

	Requested Version   // of the request itself
	Versions  []Version // Requested first, then the equivalent ones

	attributes admission.Attributes
	versioned  map[schema.GroupVersionKind]*admission.VersionedAttributes
}

// NewRequest returns the view of a.
func NewRequest(a *stage.Admission, r stage.Reader) *Request {
	q := &Request{admission: a, reader: r}
	q.Requested = q.version(a.GVR.GroupVersion())
	q.Versions = []Version{q.Requested}
	for _, v := range a.Resource.Versions {
		if gv := (schema.GroupVersion{Group: v.Group, Version: v.Version}); gv != a.GVR.GroupVersion() {
			q.Versions = append(q.Versions, q.version(gv))
		}
	}
	return q
}

func (q *Request) version(gv schema.GroupVersion) Version {
	a := q.admission
	v := Version{Resource: gv.WithResource(a.GVR.Resource), Kind: gv.WithKind(a.Resource.Names.Kind)}
	if sub := q.sub(); sub != nil {
		v.Kind = kindOf(sub)
	}
	return v
}

// kindOf returns the kind of a subresource's object, even if its TypeMeta is empty.
func kindOf(sub runtime.Object) schema.GroupVersionKind {
	if kinds, _, err := scheme.Scheme.ObjectKinds(sub); err == nil {
		return kinds[0]
	}
	return sub.GetObjectKind().GroupVersionKind()
}

// sub returns the object of a subresource with its own kind, or nil.
func (q *Request) sub() runtime.Object {
	if obj, ok := q.admission.Sub.(runtime.Object); ok {
		return obj
	}
	return nil
}

// Admission returns the underlying request.
func (q *Request) Admission() *stage.Admission { return q.admission }

// Attributes returns the request as k8s.io/apiserver's attributes, which its CEL library takes.
func (q *Request) Attributes() admission.Attributes {
	if q.attributes == nil {
		a := q.admission
		var obj, old runtime.Object // not a typed nil
		if a.Object != nil {
			obj = a.Object
		}
		if a.Old != nil {
			old = a.Old
		}
		q.attributes = admission.NewAttributesRecord(obj, old, q.Requested.Kind, a.Namespace, q.Name(), a.GVR, a.Subresource,
			admission.Operation(a.Operation), q.options(), a.DryRun, a.User)
	}
	return q.attributes
}

// Name returns the request's name. A deletecollection has none, though each of its objects is matched.
func (q *Request) Name() string {
	if q.admission.Verb == "deletecollection" {
		return ""
	}
	return q.admission.Name
}

// options returns the request's options.
func (q *Request) options() runtime.Object {
	a := q.admission
	var dry []string
	if a.DryRun {
		dry = []string{metav1.DryRunAll}
	}
	meta := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: kind}
	}
	switch a.Operation {
	case stage.Create:
		return &metav1.CreateOptions{TypeMeta: meta("CreateOptions"), DryRun: dry, FieldManager: a.Options.FieldManager, FieldValidation: a.Options.FieldValidation}
	case stage.Update:
		return &metav1.UpdateOptions{TypeMeta: meta("UpdateOptions"), DryRun: dry, FieldManager: a.Options.FieldManager, FieldValidation: a.Options.FieldValidation}
	case stage.Delete:
		opts := &metav1.DeleteOptions{}
		if a.DeleteOptions != nil {
			opts = a.DeleteOptions.DeepCopy()
		}
		opts.TypeMeta = meta("DeleteOptions")
		return opts
	}
	return nil
}

// Versioned returns the request with its objects converted to v.
func (q *Request) Versioned(v Version) (*admission.VersionedAttributes, error) {
	if out, ok := q.versioned[v.Kind]; ok {
		return out, nil
	}
	out := &admission.VersionedAttributes{Attributes: q.Attributes(), VersionedKind: v.Kind}
	if sub := q.sub(); sub != nil {
		out.VersionedObject = sub.DeepCopyObject()
		out.VersionedObject.GetObjectKind().SetGroupVersionKind(v.Kind)
		if scale := q.oldScale(sub); scale != nil {
			out.VersionedOldObject = scale
		}
	} else {
		var err error
		if out.VersionedObject, err = q.in(v, q.admission.Object); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		if out.VersionedOldObject, err = q.in(v, q.admission.Old); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
	}
	if q.versioned == nil {
		q.versioned = map[schema.GroupVersionKind]*admission.VersionedAttributes{}
	}
	q.versioned[v.Kind] = out
	return out, nil
}

// oldScale returns the Scale before an update of it; nil for other requests.
func (q *Request) oldScale(sub runtime.Object) runtime.Object {
	old, r := q.admission.Old, q.admission.Resource.Scale
	if _, ok := sub.(*autoscalingv1.Scale); !ok || old == nil || r == nil {
		return nil
	}
	return &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{APIVersion: autoscalingv1.SchemeGroupVersion.String(), Kind: "Scale"},
		ObjectMeta: metav1.ObjectMeta{
			Name: old.GetName(), Namespace: old.GetNamespace(), UID: old.GetUID(),
			ResourceVersion: old.GetResourceVersion(), CreationTimestamp: old.GetCreationTimestamp(),
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: r.Spec(old)},
		Status: autoscalingv1.ScaleStatus{Replicas: r.Status(old), Selector: r.Selector(old)},
	}
}

// Changed drops the converted objects after a change of the request's object.
func (q *Request) Changed() { q.versioned, q.attributes = nil, nil }

// ServedVersion returns a version of the request's resource; nil if it is not served, or if the request is for a subresource
// with its own kind.
func (q *Request) ServedVersion(v Version) *objects.VersionOf {
	if q.sub() != nil {
		return nil
	}
	for i := range q.admission.Resource.Versions {
		s := &q.admission.Resource.Versions[i]
		if s.Group == v.Kind.Group && s.Version == v.Kind.Version {
			return s
		}
	}
	return nil
}

func (q *Request) in(v Version, obj objects.Object) (runtime.Object, error) {
	if obj == nil {
		return nil, nil
	}
	s := q.ServedVersion(v)
	if s == nil {
		return nil, fmt.Errorf("unable to convert to %v: unknown kind", v.Resource)
	}
	var out runtime.Object
	if s.From == nil {
		out = obj.DeepCopyObject()
	} else {
		var err error
		if out, err = s.From(obj); err != nil {
			return nil, err
		}
	}
	out.GetObjectKind().SetGroupVersionKind(v.Kind)
	return out, nil
}

var namespaces = schema.GroupResource{Resource: "namespaces"}

// Namespace returns the request's namespace; nil for a cluster-scoped request.
func (q *Request) Namespace(ctx context.Context) (*corev1.Namespace, error) {
	if q.admission.Namespace == "" {
		return nil, nil
	}
	if ns, ok := q.admission.Object.(*corev1.Namespace); ok && q.admission.Subresource == "" {
		return ns, nil
	}
	obj, err := q.reader.Get(ctx, namespaces, objects.Key{Name: q.admission.Namespace})
	if err != nil {
		return nil, err
	}
	ns, ok := obj.(*corev1.Namespace)
	if !ok {
		return nil, fmt.Errorf("the namespace %s is a %T", q.admission.Namespace, obj)
	}
	return ns, nil
}
