package admission

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/authz"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

// celAuthorizer lets CEL expressions call the server's authorizers.
type celAuthorizer struct{ list []stage.Authorizer }

func (c celAuthorizer) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	q := &stage.Attributes{
		User: a.GetUser(), Verb: a.GetVerb(), Path: a.GetPath(), Namespace: a.GetNamespace(), Name: a.GetName(), Subresource: a.GetSubresource(),
		Warn: func(string) {},
	}
	if a.IsResourceRequest() {
		q.GVR = schema.GroupVersionResource{Group: a.GetAPIGroup(), Version: a.GetAPIVersion(), Resource: a.GetResource()}
		q.Resource = &objects.Resource{Names: objects.Names{Group: a.GetAPIGroup(), Version: a.GetAPIVersion(), Plural: a.GetResource()}}
	}
	d, reason, err := authz.Decide(ctx, c.list, q)
	switch d {
	case stage.Allow:
		return authorizer.DecisionAllow, reason, err
	case stage.Deny:
		return authorizer.DecisionDeny, reason, err
	}
	return authorizer.DecisionNoOpinion, reason, err
}
