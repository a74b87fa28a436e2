// Package authn owns how the API server finds out who makes a request: by a proxy that it believes, by client certificate, by a token of the static
// token file, by a ServiceAccount token, and else as the anonymous user, whom the authorizers let see health and version.
package authn

import (
	"crypto/x509"
	"errors"
	"net/http"
	"slices"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/tokens"
	"github.com/minikctl/minikctl/pkg/clock"
)

// Config says which credentials are accepted. The zero value knows the anonymous user only.
type Config struct {
	Front   *FrontProxy           // believed about whom it asks for; nil: nobody is
	Clients *x509.CertPool        // who may sign client certificates; nil: none are accepted
	Static  Static                // of the token file, see ReadTokens
	Issuer  *tokens.Issuer        // of ServiceAccount tokens; nil: none are accepted
	More    []stage.Authenticator // asked before the others
	Reader  stage.Reader          // looks up bootstrap tokens; nil: none are accepted
	Clock   clock.Clock
}

// New returns the chain of c's authenticators. It has an answer to every request: a user, or an error because of
// credentials that are bad.
func New(c Config) stage.Authenticator {
	list := slices.Clone(c.More)
	if c.Front != nil {
		list = append(list, frontProxy{*c.Front, c.Clock})
	}
	if c.Clients != nil {
		list = append(list, newCertificates(c.Clients, c.Clock))
	}
	list = append(list, bearer{static: c.Static, issuer: c.Issuer, reader: c.Reader, clk: c.Clock})
	return chain(list)
}

// chain asks one authenticator after the other. Credentials of one kind that are bad do not stop those of another.
type chain []stage.Authenticator

func (c chain) Authenticate(r *http.Request) (user.Info, bool, error) {
	var errs []error
	for _, a := range c {
		who, ok, err := a.Authenticate(r)
		if ok {
			return authenticated(who), true, nil
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return nil, false, errors.Join(errs...)
	}
	return anonymous, true, nil
}

var anonymous = &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}

// authenticated adds the group of all who are known.
func authenticated(who user.Info) user.Info {
	groups := who.GetGroups()
	if who.GetName() == user.Anonymous || slices.Contains(groups, user.AllAuthenticated) || slices.Contains(groups, user.AllUnauthenticated) {
		return who
	}
	return &user.DefaultInfo{
		Name: who.GetName(), UID: who.GetUID(), Extra: who.GetExtra(),
		Groups: append(slices.Clone(groups), user.AllAuthenticated),
	}
}
