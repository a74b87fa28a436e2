// Package authz authorizes requests with three authorizers. The first allows everything to the group system:masters. The
// node authorizer allows a kubelet what its Node and the pods bound to it need. The RBAC authorizer allows what roles and
// bindings grant. The default roles and bindings are compiled in: until a client writes a role or binding, RBAC uses them
// without reading any object.
package authz

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects/feature"
)

// New returns the authorizers in the order in which Decide calls them. rolesChanged reports whether the roles and bindings
// of r may differ from Defaults. As long as it is false, the authorizers do not read them.
func New(r stage.Reader, g feature.Gates, rolesChanged func(context.Context) bool) []stage.Authorizer {
	return []stage.Authorizer{masters{}, newNode(r), newRBAC(r, g, rolesChanged)}
}

// Check calls the authorizers until one allows or denies. It returns nil, or a Forbidden StatusError.
func Check(ctx context.Context, list []stage.Authorizer, a *stage.Attributes) error {
	d, reason, err := Decide(ctx, list, a)
	if a.Audit != nil {
		note(a.Audit, d, reason, err)
	}
	if d == stage.Allow {
		return nil
	}
	if err != nil && reason == "" {
		reason = err.Error()
	}
	return Forbidden(a, reason)
}

// note records the decision and its reason in the audit log.
func note(log stage.Audit, d stage.Decision, reason string, err error) {
	decision := "forbid"
	switch {
	case d == stage.Allow:
		decision = "allow"
	case err != nil:
		log.Annotate("authorization.k8s.io/reason", "internal error")
		return
	}
	log.Annotate("authorization.k8s.io/decision", decision)
	log.Annotate("authorization.k8s.io/reason", reason)
}

// Decide calls the authorizers until one allows or denies. A failed one has no opinion; the reasons and errors are
// joined.
func Decide(ctx context.Context, list []stage.Authorizer, a *stage.Attributes) (stage.Decision, string, error) {
	var reasons []string
	var errs []error
	for _, z := range list {
		d, reason, err := z.Authorize(ctx, a)
		if d != stage.NoOpinion {
			return d, reason, err
		}
		if reason != "" {
			reasons = append(reasons, reason)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return stage.NoOpinion, strings.Join(reasons, "\n"), errors.Join(errs...)
}

// Forbidden returns the error for a request that is not allowed.
func Forbidden(a *stage.Attributes, reason string) *apierrors.StatusError {
	text := notHTML.Replace(message(a))
	if reason != "" {
		text += ": " + reason
	}
	return apierrors.NewForbidden(a.GVR.GroupResource(), a.Name, errors.New(text))
}

// notHTML escapes user-chosen names, so that a browser does not read them as HTML.
var notHTML = strings.NewReplacer(`&`, "&amp;", `<`, "&lt;", `>`, "&gt;")

func message(a *stage.Attributes) string {
	info := ""
	if a.User != nil {
		info = a.User.GetName()
	}
	if !isResource(a) {
		return fmt.Sprintf("User %q cannot %s path %q", info, a.Verb, a.Path)
	}
	what := a.GVR.Resource
	if a.Subresource != "" {
		what += "/" + a.Subresource
	}
	text := fmt.Sprintf("User %q cannot %s resource %q in API group %q", info, a.Verb, what, a.GVR.Group)
	if a.Namespace == "" {
		return text + " at the cluster scope"
	}
	return text + fmt.Sprintf(" in the namespace %q", a.Namespace)
}

func isResource(a *stage.Attributes) bool { return a.GVR.Resource != "" }

// masters allows everything to the group system:masters.
type masters struct{}

func (masters) Authorize(_ context.Context, a *stage.Attributes) (stage.Decision, string, error) {
	if a.User != nil && slices.Contains(a.User.GetGroups(), user.SystemPrivilegedGroup) {
		return stage.Allow, "", nil
	}
	return stage.NoOpinion, "", nil
}
