package apiserver

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/authz"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
)

// impersonate lets who is allowed to act as another user do so, by the headers that Kubernetes documents
// (https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation/). Components that run apart from the API
// server use it to act under the names of their own.
func (s *Server) impersonate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		as, err := impersonated(r.Header)
		if err != nil {
			fail(w, r, apierrors.NewInternalError(err))
			return
		}
		if as == nil {
			next.ServeHTTP(w, r)
			return
		}
		c := callOf(r)
		for _, a := range impersonations(c.user, as) {
			if s.check(r.Context(), a) != nil {
				fail(w, r, s.mayNotImpersonate(r, c))
				return
			}
		}
		c.user = complete(as)
		c.audit.Impersonated(c.user)
		removeImpersonation(r.Header)
		next.ServeHTTP(w, r)
	})
}

// mayNotImpersonate is the refusal of Kubernetes 1.36, which names the request that was to be made as somebody else.
func (s *Server) mayNotImpersonate(r *http.Request, c *call) error {
	a := c.address
	verb := "impersonate-on:user-info:" + a.verb
	return authz.Forbidden(&stage.Attributes{
		User: c.user, Verb: verb, Namespace: a.namespace, Name: a.name, Subresource: a.subresource, Path: r.URL.Path,
		GVR: schema.GroupVersionResource{Group: a.group, Version: a.version, Resource: a.resource},
	}, "")
}

// impersonated reads the headers; nil when there are none.
func impersonated(h http.Header) (*user.DefaultInfo, error) {
	as := &user.DefaultInfo{
		Name: h.Get(authenticationv1.ImpersonateUserHeader), UID: h.Get(authenticationv1.ImpersonateUIDHeader),
		Groups: slices.Clone(h[authenticationv1.ImpersonateGroupHeader]),
	}
	for key, values := range h {
		if name, ok := strings.CutPrefix(key, authenticationv1.ImpersonateUserExtraHeaderPrefix); ok {
			if as.Extra == nil {
				as.Extra = map[string][]string{}
			}
			as.Extra[extraKey(name)] = slices.Clone(values)
		}
	}
	if as.Name == "" {
		if as.UID != "" || len(as.Groups) > 0 || len(as.Extra) > 0 {
			return nil, errors.New("requested " + describe(as) + " without impersonating a user")
		}
		return nil, nil
	}
	return as, nil
}

func describe(as *user.DefaultInfo) string {
	return "[{Groups:[" + strings.Join(as.Groups, " ") + "] UID:" + as.UID + "}]"
}

// extraKey undoes the escapes that keep a key within what a header's name may hold.
func extraKey(name string) string {
	name = strings.ToLower(name)
	if plain, err := url.PathUnescape(name); err == nil {
		return plain
	}
	return name
}

// impersonations lists what who must be allowed in order to act as as.
func impersonations(who user.Info, as *user.DefaultInfo) []*stage.Attributes {
	var out []*stage.Attributes
	add := func(group, resource, subresource, namespace, name string) {
		out = append(out, &stage.Attributes{
			User: who, Verb: "impersonate", Namespace: namespace, Name: name, Subresource: subresource,
			GVR: schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource},
		})
	}
	if namespace, name, err := serviceaccount.SplitUsername(as.Name); err == nil {
		add("", "serviceaccounts", "", namespace, name)
	} else {
		add("", "users", "", "", as.Name)
	}
	for _, g := range as.Groups {
		add("", "groups", "", "", g)
	}
	if as.UID != "" {
		add(authenticationv1.GroupName, "uids", "", "", as.UID)
	}
	for key, values := range as.Extra {
		for _, v := range values {
			add(authenticationv1.GroupName, "userextras", key, "", v)
		}
	}
	return out
}

// complete adds the groups that every authenticated user, and every service account, is in.
func complete(as *user.DefaultInfo) user.Info {
	if namespace, _, err := serviceaccount.SplitUsername(as.Name); err == nil && len(as.Groups) == 0 {
		as.Groups = serviceaccount.MakeGroupNames(namespace)
	}
	common := user.AllAuthenticated
	if as.Name == user.Anonymous {
		common = user.AllUnauthenticated
	}
	if !slices.Contains(as.Groups, common) && !slices.Contains(as.Groups, user.AllUnauthenticated) {
		as.Groups = append(as.Groups, common)
	}
	return as
}

func removeImpersonation(h http.Header) {
	for key := range h {
		if strings.HasPrefix(key, "Impersonate-") {
			h.Del(key)
		}
	}
}
