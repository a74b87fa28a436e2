// Package authn authenticates requests: by the headers of a trusted front proxy, by client certificate, by a token of the static
// token file, by a bootstrap token, and by a ServiceAccount token. A request without credentials is the anonymous user's.
//
// It doesn't use k8s.io/apiserver's authenticators: those link the dynamic certificate and OIDC machinery, which every start of
// the program would initialise.
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

// Config names the accepted credentials. The zero value accepts none, so every request is anonymous.
type Config struct {
	Front   *FrontProxy           // the proxy whose headers name the user; nil: headers are ignored
	Clients *x509.CertPool        // authorities of client certificates; nil: certificates are ignored
	Static  Static                // of the token file, see ReadTokens
	Issuer  *tokens.Issuer        // of ServiceAccount tokens; nil: none are accepted
	More    []stage.Authenticator // called before the others
	Reader  stage.Reader          // looks up bootstrap tokens; nil: none are accepted
	Clock   clock.Clock
}

// New returns the chain of c's authenticators. It returns a user for every request, or an error if the credentials are invalid.
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

// chain calls its authenticators in order until one returns a user. Invalid credentials of one kind do not reject valid ones of another.
type chain []stage.Authenticator

func (c chain) Authenticate(r *http.Request) (user.Info, bool, error) {
	var errs []error
	for _, a := range c {
		info, ok, err := a.Authenticate(r)
		if ok {
			return authenticated(info), true, nil
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

// authenticated adds the group system:authenticated to a user that is not anonymous.
func authenticated(info user.Info) user.Info {
	groups := info.GetGroups()
	if info.GetName() == user.Anonymous || slices.Contains(groups, user.AllAuthenticated) || slices.Contains(groups, user.AllUnauthenticated) {
		return info
	}
	return &user.DefaultInfo{
		Name: info.GetName(), UID: info.GetUID(), Extra: info.GetExtra(),
		Groups: append(slices.Clone(groups), user.AllAuthenticated),
	}
}
