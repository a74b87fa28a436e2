package apiserver

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

// mode is a way in which a user may be allowed to act as another: all but the last are constrained ones
// (https://kep.k8s.io/5284), where the right to be somebody is one and the right to do something as somebody another.
type mode struct {
	name string // "": the old one, whose right is to do anything
	fits func(as *user.DefaultInfo, who user.Info) bool
}

// modes are in the order in which they are tried.
var modes = []mode{
	{associatedNode, func(as *user.DefaultInfo, who user.Info) bool {
		node, ok := nodeOf(as.Name)
		_, _, err := serviceaccount.SplitUsername(who.GetName())
		own := who.GetExtra()[serviceaccount.NodeNameKey]
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

// associatedNode is for a pod that acts as the node that it is on.
const associatedNode = "associated-node"

func nameAlone(as *user.DefaultInfo) bool {
	return as.UID == "" && len(as.Groups) == 0 && len(as.Extra) == 0
}

func nodeOf(name string) (string, bool) {
	node, ok := strings.CutPrefix(name, "system:node:")
	return node, ok && len(validation.NameIsDNSSubdomain(node, false)) == 0
}

// asked are the attributes of a request as the user that it came with.
func (c *call) asked(r *http.Request) *stage.Attributes {
	a := c.address
	out := &stage.Attributes{User: c.user, UserAgent: r.UserAgent(), Verb: a.verb, Path: r.URL.Path, Warn: c.warn}
	if a.resourceful {
		out.Namespace, out.Name, out.Subresource, out.Fields = a.namespace, a.name, a.subresource, a.fields
		out.GVR = schema.GroupVersionResource{Group: a.group, Version: a.version, Resource: a.resource}
	}
	return out
}

// actAs returns whom a request acts as, and the right that allows it if that is a constrained one. The error is that of the
// first mode.
func (s *Server) actAs(ctx context.Context, asked *stage.Attributes, as *user.DefaultInfo) (_ user.Info, constraint string, err error) {
	for _, m := range modes {
		if !m.fits(as, asked.User) {
			continue
		}
		who, merr := s.actIn(ctx, m, asked, as)
		if merr == nil {
			return who, m.constraint(), nil
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

// actIn checks what a mode demands: the right to what is asked, in constrained modes, and then to be each part of as.
func (s *Server) actIn(ctx context.Context, m mode, asked *stage.Attributes, as *user.DefaultInfo) (user.Info, error) {
	who := asked.User
	if m.name == associatedNode {
		who = ofSomeNode(who)
	}
	if m.name != "" {
		on := *asked
		on.User, on.Verb = who, "impersonate-on:"+m.name+":"+asked.Verb
		if err := s.check(ctx, &on); err != nil {
			return nil, err
		}
	}
	x := impersonation{mode: m, who: who, check: func(a *stage.Attributes) error { return s.check(ctx, a) }}
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

// ofSomeNode leaves out of a ServiceAccount on a node what tells the node: the rights are those of all its pods.
func ofSomeNode(who user.Info) user.Info {
	keys := slices.Sorted(maps.Keys(who.GetExtra()))
	return &user.DefaultInfo{
		Name: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups(),
		Extra: map[string][]string{"authentication.kubernetes.io/associated-node-keys": keys},
	}
}

// impersonation checks the rights to be somebody.
type impersonation struct {
	mode  mode
	who   user.Info
	check func(*stage.Attributes) error
}

func (x impersonation) constrained() bool { return x.mode.name != "" }

// right is that to be what a resource, of the authentication group, stands for.
func (x impersonation) right(resource, name string) *stage.Attributes {
	verb := x.mode.constraint()
	if verb == "" {
		verb = "impersonate"
	}
	gvr := authenticationv1.SchemeGroupVersion.WithResource(resource)
	if !x.constrained() && resource != "uids" && resource != "userextras" {
		gvr.Group = ""
	}
	return &stage.Attributes{User: x.who, Verb: verb, Name: name, GVR: gvr}
}

// name checks the right to be of a name, and fills in the groups that come with it.
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

// manyRights is from how many on the right to all is asked for first.
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
