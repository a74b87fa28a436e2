package apiserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/authn"
)

// impersonate lets who is allowed to act as another user do so, by the headers that Kubernetes documents
// (https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation/). Components that run apart from the API
// server use it to act under the names of their own.
func (s *Server) impersonate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		as, err := impersonated(r.Header)
		if err != nil {
			fail(w, r, err)
			return
		}
		if as == nil {
			next.ServeHTTP(w, r)
			return
		}
		c := callOf(r)
		who, constraint, err := s.actAs(r.Context(), c.asked(r), as)
		if err != nil {
			fail(w, r, err)
			return
		}
		c.user = who
		c.audit.Impersonated(who, constraint)
		removeImpersonation(r.Header)
		next.ServeHTTP(w, r)
	})
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
			name = authn.ExtraKey(name)
			as.Extra[name] = append(as.Extra[name], values...)
		}
	}
	if as.Name == "" {
		if as.UID != "" || len(as.Groups) > 0 || len(as.Extra) > 0 {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("requested %#v without impersonating a user name", as))
		}
		return nil, nil
	}
	return as, nil
}

// completeGroups adds the groups that every user is in who is known, or who is not.
func completeGroups(as user.DefaultInfo) *user.DefaultInfo {
	common := user.AllAuthenticated
	if as.Name == user.Anonymous {
		common = user.AllUnauthenticated
	}
	if !slices.Contains(as.Groups, common) && !slices.Contains(as.Groups, user.AllUnauthenticated) {
		as.Groups = append(slices.Clone(as.Groups), common)
	}
	return &as
}

func removeImpersonation(h http.Header) {
	for key := range h {
		if strings.HasPrefix(key, "Impersonate-") {
			h.Del(key)
		}
	}
}
