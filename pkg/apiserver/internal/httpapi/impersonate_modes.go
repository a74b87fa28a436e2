package httpapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/authz"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
)

// mode is a way to allow impersonation. All but the last are constrained (https://kep.k8s.io/5284): the right to
// impersonate a user is separate from the right to make a certain request as that user.
type mode struct {
	name string // "": the unconstrained one
	fits func(as *user.DefaultInfo, info user.Info) bool
}

// modes lists the modes in the order in which they are tried.
var modes = []mode{
	{associatedNode, func(as *user.DefaultInfo, info user.Info) bool {
		node, ok := nodeOf(as.Name)
		_, _, err := serviceaccount.SplitUsername(info.GetName())
		own := info.GetExtra()[serviceaccount.NodeNameKey]
		return ok && nameAlone(as) && err == nil && len(own) == 1 && own[0] == node
	}},
	{"arbitrary-node", func(as *user.DefaultInfo, _ user.Info) bool {
		_, ok := nodeOf(as.Name)
		return ok && nameAlone(as)
	}},
	{"serviceaccount", func(as *user.DefaultInfo, _ user.Info) bool {
		_, _, err := serviceaccount.SplitUsername(as.Name)
		return err == nil && nameAlone(as)
	}},
	{"user-info", func(as *user.DefaultInfo, _ user.Info) bool {
		_, node := nodeOf(as.Name)
		_, _, err := serviceaccount.SplitUsername(as.Name)
		return !node && err != nil
	}},
	{"", func(*user.DefaultInfo, user.Info) bool { return true }},
}

// associatedNode is the mode of a pod that impersonates its own node.
const associatedNode = "associated-node"

func nameAlone(as *user.DefaultInfo) bool {
	return as.UID == "" && len(as.Groups) == 0 && len(as.Extra) == 0
}

func nodeOf(name string) (string, bool) {
	node, ok := strings.CutPrefix(name, "system:node:")
	return node, ok && len(validation.NameIsDNSSubdomain(node, false)) == 0
}

// original returns the attributes of a request with its original user, before impersonation.
func (c *call) original(r *http.Request) *stage.Attributes {
	a := c.address
	out := &stage.Attributes{User: c.user, UserAgent: r.UserAgent(), Verb: a.verb, Path: r.URL.Path, Warn: c.warn}
	if a.resourceful {
		out.Namespace, out.Name, out.Subresource, out.Fields = a.namespace, a.name, a.subresource, a.fields
		out.GVR = schema.GroupVersionResource{Group: a.group, Version: a.version, Resource: a.resource}
	}
	return out
}

// impersonatedBy returns the impersonated user, and the constraint of the mode that allows it. If no mode does, it returns the
// first mode's error.
func (s *Handler) impersonatedBy(ctx context.Context, original *stage.Attributes, as *user.DefaultInfo) (_ user.Info, constraint string, err error) {
	for _, m := range modes {
		if !m.fits(as, original.User) {
			continue
		}
		info, merr := s.checkMode(ctx, m, original, as)
		if merr == nil {
			return info, m.constraint(), nil
		}
		if err == nil {
			err = merr
		}
	}
	return nil, "", err
}

func (m mode) constraint() string {
	if m.name == "" {
		return ""
	}
	return "impersonate:" + m.name
}

// checkMode checks the rights that a mode requires: constrained modes require the right to the request, then one for each
// part of as.
func (s *Handler) checkMode(ctx context.Context, m mode, original *stage.Attributes, as *user.DefaultInfo) (user.Info, error) {
	info := original.User
	if m.name == associatedNode {
		info = ofSomeNode(info)
	}
	if m.name != "" {
		on := *original
		on.User, on.Verb = info, "impersonate-on:"+m.name+":"+original.Verb
		if err := s.check(ctx, &on); err != nil {
			return nil, err
		}
	}
	x := impersonation{mode: m, info: info, check: func(a *stage.Attributes) error { return s.check(ctx, a) }}
	become := *as
	err := x.name(as, &become)
	if err == nil && as.UID != "" {
		err = x.check(x.right("uids", as.UID))
	}
	if err == nil {
		err = x.groups(as.Groups)
	}
	if err == nil {
		err = x.extras(as.Extra)
	}
	if err != nil {
		return nil, err
	}
	return completeGroups(become), nil
}

// ofSomeNode removes the node from the extra of a ServiceAccount, since the rights are the same on all nodes.
func ofSomeNode(info user.Info) user.Info {
	keys := slices.Sorted(maps.Keys(info.GetExtra()))
	return &user.DefaultInfo{
		Name: info.GetName(), UID: info.GetUID(), Groups: info.GetGroups(),
		Extra: map[string][]string{"authentication.kubernetes.io/associated-node-keys": keys},
	}
}

// impersonation checks the rights to impersonate a user.
type impersonation struct {
	mode  mode
	info  user.Info
	check func(*stage.Attributes) error
}

func (x impersonation) constrained() bool { return x.mode.name != "" }

// right returns the attributes of the right to impersonate a resource of the authentication group.
func (x impersonation) right(resource, name string) *stage.Attributes {
	verb := x.mode.constraint()
	if verb == "" {
		verb = "impersonate"
	}
	gvr := authenticationv1.SchemeGroupVersion.WithResource(resource)
	if !x.constrained() && resource != "uids" && resource != "userextras" {
		gvr.Group = ""
	}
	return &stage.Attributes{User: x.info, Verb: verb, Name: name, GVR: gvr}
}

// name checks the right to a user name, and sets the groups that follow from it.
func (x impersonation) name(as, become *user.DefaultInfo) error {
	a := x.right("users", as.Name)
	node, isNode := nodeOf(as.Name)
	namespace, account, err := serviceaccount.SplitUsername(as.Name)
	switch {
	case isNode && x.constrained():
		a = x.right("nodes", node)
		if x.mode.name == associatedNode {
			a.Name = "*"
		}
		become.Groups = []string{user.NodesGroup}
	case err == nil:
		a = x.right("serviceaccounts", account)
		a.Namespace = namespace
		if len(as.Groups) == 0 {
			become.Groups = serviceaccount.MakeGroupNames(namespace)
		}
	}
	return x.check(a)
}

// With at least manyRights rights to check, the right to "*" is checked first, since it may replace all others.
const manyRights = 4

func (x impersonation) groups(list []string) error {
	if x.constrained() {
		if slices.Contains(list, "") {
			return authz.Forbidden(x.right("groups", ""), "impersonating the empty string group is not allowed")
		}
		if slices.Contains(list, user.SystemPrivilegedGroup) {
			return authz.Forbidden(x.right("groups", user.SystemPrivilegedGroup), "impersonating the system:masters group is not allowed")
		}
		if len(list) >= manyRights && x.check(x.right("groups", "*")) == nil {
			return nil
		}
	}
	for _, g := range list {
		if err := x.check(x.right("groups", g)); err != nil {
			return err
		}
	}
	return nil
}

func (x impersonation) extras(extra map[string][]string) error {
	one := func(key, value string) error {
		a := x.right("userextras", value)
		a.Subresource = key
		return x.check(a)
	}
	if x.constrained() {
		if err := validExtras(extra); err != nil {
			return authz.Forbidden(x.right("userextras", ""), err.Error())
		}
		count := 0
		for _, values := range extra {
			count += len(values)
		}
		if max(count, len(extra)) >= manyRights && one("*", "*") == nil {
			return nil
		}
	}
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		for _, v := range extra[key] {
			if err := one(key, v); err != nil {
				return err
			}
		}
	}
	return nil
}

func validExtras(extra map[string][]string) error {
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		values := extra[key]
		if key == "" {
			return errors.New("impersonating the empty string key in extra is not allowed")
		}
		if err := utilvalidation.IsDomainPrefixedPath(field.NewPath("extra", "key"), key).ToAggregate(); err != nil {
			return fmt.Errorf("impersonating an invalid key in extra is not allowed: %w", err)
		}
		if key != strings.ToLower(key) {
			return fmt.Errorf("impersonating a non-lowercase key in extra is not allowed: %q", key)
		}
		if len(values) == 0 {
			return errors.New("impersonating empty values in extra is not allowed")
		}
		if slices.Contains(values, "") {
			return errors.New("impersonating the empty string value in extra is not allowed")
		}
	}
	return nil
}
