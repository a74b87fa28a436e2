// Package authz owns who may do what: the group that may do everything, what a node may do because of the pods that are
// bound to it, and rules by user, group and ServiceAccount. The rules that every cluster begins with are compiled in, and hold
// as they are until they have become objects.
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
)

// New returns the authorizers, in the order in which they are asked.
func New(r stage.Reader) []stage.Authorizer {
	return []stage.Authorizer{masters{}, newNode(r), newRBAC(r)}
}

// Check asks authorizers until one has an opinion, and returns nil or a Forbidden StatusError.
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

// note tells the audit log what was decided, and why.
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

// Decide asks authorizers until one has an opinion. Those that fail have none; their reasons and errors are joined.
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

// Forbidden returns the answer to a request that is not allowed.
func Forbidden(a *stage.Attributes, reason string) *apierrors.StatusError {
	text := notHTML.Replace(message(a))
	if reason != "" {
		text += ": " + reason
	}
	return apierrors.NewForbidden(a.GVR.GroupResource(), a.Name, errors.New(text))
}

// notHTML keeps names that users choose from looking like HTML to a browser.
var notHTML = strings.NewReplacer(`&`, "&amp;", `<`, "&lt;", `>`, "&gt;")

func message(a *stage.Attributes) string {
	who := ""
	if a.User != nil {
		who = a.User.GetName()
	}
	if !isResource(a) {
		return fmt.Sprintf("User %q cannot %s path %q", who, a.Verb, a.Path)
	}
	what := a.GVR.Resource
	if a.Subresource != "" {
		what += "/" + a.Subresource
	}
	text := fmt.Sprintf("User %q cannot %s resource %q in API group %q", who, a.Verb, what, a.GVR.Group)
	if a.Namespace == "" {
		return text + " at the cluster scope"
	}
	return text + fmt.Sprintf(" in the namespace %q", a.Namespace)
}

func isResource(a *stage.Attributes) bool { return a.GVR.Resource != "" }

// masters may do everything, whatever the rules say.
type masters struct{}

func (masters) Authorize(_ context.Context, a *stage.Attributes) (stage.Decision, string, error) {
	if a.User != nil && slices.Contains(a.User.GetGroups(), user.SystemPrivilegedGroup) {
		return stage.Allow, "", nil
	}
	return stage.NoOpinion, "", nil
}
