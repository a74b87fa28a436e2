package authz

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/tokens"
)

// Rules allow what any of the indexes allows.
type Rules []*Index

// Authorize allows the request if a rule does. It never denies. If no rule matches, the reason lists the bound roles that
// do not exist.
func (r Rules) Authorize(_ context.Context, a *stage.Attributes) (stage.Decision, string, error) {
	if a.User == nil {
		return stage.NoOpinion, "", nil
	}
	var missing []error
	for _, x := range r {
		g, without := x.find(a)
		if g != nil {
			return stage.Allow, g.Reason, nil
		}
		missing = append(missing, without...)
	}
	if len(missing) > 0 {
		return stage.NoOpinion, fmt.Sprintf("RBAC: %v", utilerrors.NewAggregate(missing)), nil
	}
	return stage.NoOpinion, "", nil
}

// Grant is what one binding gives to one subject.
type Grant struct {
	Reason    string // names the binding: "RBAC: allowed by …"
	Namespace string // where it applies; "": everywhere, and to non-resource URLs
	Rules     []rbacv1.PolicyRule
	Missing   error // why there are no rules: the role does not exist
}

// Index holds grants by user and group. It must not be changed once it is in use.
type Index struct {
	users  map[string][]Grant // ServiceAccounts by their user names
	groups map[string][]Grant
}

// NewIndex returns an empty index.
func NewIndex() *Index {
	return &Index{users: map[string][]Grant{}, groups: map[string][]Grant{}}
}

// Add adds a grant for a subject. home is the namespace of a ServiceAccount that names none.
func (x *Index) Add(s rbacv1.Subject, home string, g Grant) {
	switch s.Kind {
	case rbacv1.UserKind:
		x.users[s.Name] = append(x.users[s.Name], g)
	case rbacv1.GroupKind:
		x.groups[s.Name] = append(x.groups[s.Name], g)
	case rbacv1.ServiceAccountKind:
		if s.Namespace != "" {
			home = s.Namespace
		}
		name := tokens.Username(home, s.Name)
		x.users[name] = append(x.users[name], g)
	}
}

// find returns a grant that allows a, or else the errors of grants whose roles are missing.
func (x *Index) find(a *stage.Attributes) (_ *Grant, missing []error) {
	g, missing := allowing(x.users[a.User.GetName()], a)
	if g != nil {
		return g, nil
	}
	for _, group := range a.User.GetGroups() {
		g, without := allowing(x.groups[group], a)
		if g != nil {
			return g, nil
		}
		missing = append(missing, without...)
	}
	return nil, missing
}

func allowing(grants []Grant, a *stage.Attributes) (_ *Grant, missing []error) {
	for i := range grants {
		g := &grants[i]
		if g.Namespace != "" && (g.Namespace != a.Namespace || !isResource(a)) {
			continue
		}
		if g.Missing != nil {
			missing = append(missing, g.Missing)
		}
		for j := range g.Rules {
			if allows(&g.Rules[j], a) {
				return g, nil
			}
		}
	}
	return nil, missing
}

// Allowed reports whether any of the rules allows a, regardless of its user.
func Allowed(rules []rbacv1.PolicyRule, a *stage.Attributes) bool {
	for i := range rules {
		if allows(&rules[i], a) {
			return true
		}
	}
	return false
}

func allows(r *rbacv1.PolicyRule, a *stage.Attributes) bool {
	if !hasOrAll(r.Verbs, a.Verb) {
		return false
	}
	if !isResource(a) {
		return hasPath(r.NonResourceURLs, a.Path)
	}
	return hasOrAll(r.APIGroups, a.GVR.Group) && hasResource(r.Resources, a.GVR.Resource, a.Subresource) &&
		(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, a.Name))
}

func hasOrAll(list []string, s string) bool {
	for _, v := range list {
		if v == s || v == "*" {
			return true
		}
	}
	return false
}

// hasResource matches a resource against "pods", "pods/log", "*/scale" and "*", which includes all subresources.
func hasResource(list []string, resource, sub string) bool {
	for _, v := range list {
		if v == "*" {
			return true
		}
		if sub == "" {
			if v == resource {
				return true
			}
			continue
		}
		name, s, ok := strings.Cut(v, "/")
		if ok && s == sub && (name == resource || name == "*") {
			return true
		}
	}
	return false
}

// hasPath matches a path against paths and prefixes that end in "*".
func hasPath(list []string, path string) bool {
	for _, v := range list {
		if v == path {
			return true
		}
		if start, ok := strings.CutSuffix(v, "*"); ok && strings.HasPrefix(path, start) {
			return true
		}
	}
	return false
}
