package admission

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/admission/policy"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/authz"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

// paramAccess rejects a policy or binding whose author may not read its parameters, since a policy's message can reveal what its
// expressions read.
type paramAccess struct {
	list []stage.Authorizer
	find policy.FindKind
}

func (paramAccess) Name() string { return "ParamAccess" }

func (p paramAccess) Validate(ctx context.Context, a *stage.Admission) error {
	if a.Subresource != "" || a.Operation != stage.Create && a.Operation != stage.Update || a.GVR.Group != registration {
		return nil
	}
	kind := kindOf(a.Object)
	if kind == nil || a.Old != nil && equality.Semantic.DeepEqual(kind, kindOf(a.Old)) {
		return nil
	}
	q := &stage.Attributes{User: a.User, Verb: "get", Name: "*", Namespace: "*", Warn: func(string) {},
		GVR: schema.GroupVersionResource{Group: "*", Version: "*", Resource: "*"}}
	if gv, err := schema.ParseGroupVersion(kind.APIVersion); err == nil {
		q.GVR.Group, q.GVR.Version = gv.Group, gv.Version
		if r, _ := p.find(gv.WithKind(kind.Kind)); r != nil {
			q.GVR.Resource = r.Names.Plural
		}
	}
	q.Resource = &objects.Resource{Names: objects.Names{Group: q.GVR.Group, Version: q.GVR.Version, Plural: q.GVR.Resource}}
	d, _, err := authz.Decide(ctx, p.list, q)
	if d == stage.Allow {
		return nil
	}
	why := fmt.Sprintf(`user %v must have "get" permission on all objects of the referenced paramKind (kind=%s, apiVersion=%s)`, a.User, kind.Kind, kind.APIVersion)
	if err != nil {
		why = fmt.Sprintf("failed to authorize request: %v", err)
	}
	return apierrors.NewInvalid(a.Resource.Names.GVK().GroupKind(), a.Object.GetName(), field.ErrorList{field.Forbidden(field.NewPath("spec", "paramKind"), why)})
}

// kindOf returns the kind of a policy's parameters, or nil.
func kindOf(obj objects.Object) *admissionv1.ParamKind {
	switch p := obj.(type) {
	case *admissionv1.ValidatingAdmissionPolicy:
		return p.Spec.ParamKind
	case *admissionv1.MutatingAdmissionPolicy:
		return p.Spec.ParamKind
	}
	return nil
}
