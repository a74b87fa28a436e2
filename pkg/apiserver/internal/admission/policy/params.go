package policy

import (
	"context"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/objects"
)

// paramKind is the kind of a policy's parameters. The zero value means none.
type paramKind struct {
	gvk      schema.GroupVersionKind
	resource *objects.Resource
	served   *objects.VersionOf
}

// kind returns the kind of a policy's parameters.
func (c Config) kind(p *Policy) (paramKind, error) {
	if p.spec.params == nil {
		return paramKind{}, nil
	}
	gvk := schema.FromAPIVersionAndKind(p.spec.params.APIVersion, p.spec.params.Kind)
	r, s := c.Find(gvk)
	if r == nil {
		return paramKind{}, fmt.Errorf("failed to find resource referenced by paramKind: '%v'", gvk)
	}
	return paramKind{gvk, r, s}, nil
}

// parameters returns the parameters of a binding; the policy is evaluated once for each. A nil element means an evaluation without.
func (c Config) parameters(ctx context.Context, k paramKind, ref *admissionv1.ParamRef, namespace string) ([]objects.Object, error) {
	if k.resource == nil || ref == nil {
		return []objects.Object{nil}, nil
	}
	n := k.resource.Names
	if n.Cluster && ref.Namespace != "" {
		return nil, errors.New("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
	}
	switch {
	case n.Cluster:
		namespace = ""
	case ref.Namespace != "":
		namespace = ref.Namespace
	case namespace == "":
		return nil, errors.New("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
	}
	found, err := c.find(ctx, n.GR(), ref, namespace)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 && ref.ParameterNotFoundAction != nil && *ref.ParameterNotFoundAction == admissionv1.DenyAction {
		return nil, errors.New("no params found for policy binding with `Deny` parameterNotFoundAction")
	}
	out := make([]objects.Object, len(found))
	for i, obj := range found {
		if out[i], err = k.in(obj); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (c Config) find(ctx context.Context, gr schema.GroupResource, ref *admissionv1.ParamRef, namespace string) ([]objects.Object, error) {
	if ref.Name != "" {
		obj, err := c.Reader.Get(ctx, gr, objects.Key{Namespace: namespace, Name: ref.Name})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return []objects.Object{obj}, err
	}
	selector, err := metav1.LabelSelectorAsSelector(ref.Selector)
	if err != nil {
		return nil, err
	}
	all, err := c.Reader.List(ctx, gr, namespace)
	if err != nil {
		return nil, err
	}
	var out []objects.Object
	for _, obj := range all {
		if selector.Matches(labels.Set(obj.GetLabels())) {
			out = append(out, obj)
		}
	}
	return out, nil
}

// in returns a copy of a parameter in the version that the policy names, with its TypeMeta set.
func (k paramKind) in(obj objects.Object) (objects.Object, error) {
	var out runtime.Object
	if k.served.From == nil {
		out = obj.DeepCopyObject()
	} else {
		var err error
		if out, err = k.served.From(obj); err != nil {
			return nil, err
		}
	}
	out.GetObjectKind().SetGroupVersionKind(k.gvk)
	versioned, ok := out.(objects.Object)
	if !ok {
		return nil, fmt.Errorf("%T has no metadata", out)
	}
	return versioned, nil
}
