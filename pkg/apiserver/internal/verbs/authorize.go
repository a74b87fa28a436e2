package verbs

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
)

// authorize asks the authorizers in order; the first with an opinion decides.
func (e *Engine) authorize(ctx context.Context, a *stage.Attributes) error {
	if len(e.stages.Authorizers) == 0 {
		return nil
	}
	var why string
	for _, z := range e.stages.Authorizers {
		decision, reason, err := z.Authorize(ctx, a)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		if decision == stage.Allow {
			return nil
		}
		if reason != "" {
			why = reason
		}
		if decision == stage.Deny {
			break
		}
	}
	return Forbidden(a, why)
}

// Forbidden is the answer to who may not do what a says.
func Forbidden(a *stage.Attributes, reason string) error {
	text := denied(a)
	if reason != "" {
		text += ": " + reason
	}
	gr := schema.GroupResource{Group: a.GVR.Group, Resource: a.GVR.Resource}
	return apierrors.NewForbidden(gr, a.Name, errors.New(text))
}

func denied(a *stage.Attributes) string {
	name := ""
	if a.User != nil {
		name = a.User.GetName()
	}
	if a.Resource == nil && a.GVR.Resource == "" {
		return fmt.Sprintf("User %q cannot %s path %q", name, a.Verb, a.Path)
	}
	resource := a.GVR.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	where := "at the cluster scope"
	if a.Namespace != "" {
		where = fmt.Sprintf("in the namespace %q", a.Namespace)
	}
	return fmt.Sprintf("User %q cannot %s resource %q in API group %q %s", name, a.Verb, resource, a.GVR.Group, where)
}
