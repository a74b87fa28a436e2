package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
)

// impersonate replaces the user of a request by the one in its Impersonate headers, if the user may impersonate it
// (https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation/). Components outside the API server's
// process use it to act as their own users.
func (s *Handler) impersonate(next http.Handler) http.Handler {
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
		info, constraint, err := s.impersonatedBy(r.Context(), c.original(r), as)
		if err != nil {
			fail(w, r, err)
			return
		}
		c.user = info
		c.audit.Impersonated(info, constraint)
		removeImpersonation(r.Header)
		next.ServeHTTP(w, r)
	})
}

// impersonated returns the user in the headers; nil without such headers.
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
			name = extraKey(name)
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

// completeGroups adds system:authenticated or system:unauthenticated.
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

// extraKey decodes the key of an extra value from a header's name.
func extraKey(in string) string {
	in = strings.ToLower(in)
	if key, err := url.PathUnescape(in); err == nil {
		return key
	}
	return in
}
