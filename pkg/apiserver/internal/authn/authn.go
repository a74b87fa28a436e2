// Package authn authenticates requests: by the headers of a trusted front proxy, by client certificate, by a token of the
// static token file, by a bootstrap token, and by a ServiceAccount token. A request without credentials is the anonymous
// user's.
//
// It composes k8s.io/apiserver's authenticators, as kube-apiserver does. It adds an authenticator of tokens (token.go)
// and a cache of verified client certificates (certificate.go).
package authn

import (
	"crypto/x509"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/tokens"
	"github.com/minikctl/minikctl/pkg/clock"
)

// Config names the accepted credentials. The zero value accepts none, so every request is anonymous.
type Config struct {
	Front   *FrontProxy             // the proxy whose headers name the user; nil: headers are ignored
	Clients *x509.CertPool          // authorities of client certificates; nil: certificates are ignored
	Static  Static                  // of the token file, see ReadTokens
	Issuer  *tokens.Issuer          // of ServiceAccount tokens; nil: none are accepted
	More    []authenticator.Request // called before the others
	Reader  stage.Reader            // looks up bootstrap tokens; nil: none are accepted
	Clock   clock.Clock
}

// New returns an authenticator that tries the kinds of credentials in c in order. It returns a user for every request, or
// an error if the credentials are invalid. Invalid credentials of one kind do not reject valid ones of another.
func New(c Config) authenticator.Request {
	list := append([]authenticator.Request{}, c.More...)
	if c.Front != nil {
		list = append(list, frontProxy{*c.Front, clock.Machine(c.Clock)})
	}
	if c.Clients != nil {
		list = append(list, newCertificates(c.Clients, clock.Machine(c.Clock)))
	}
	token := tokenAuthenticator{static: c.Static, issuer: c.Issuer, reader: c.Reader, clk: c.Clock}
	list = append(list, bearertoken.New(token), websocket.NewProtocolAuthenticator(token))
	return union.NewFailOnError(group.NewAuthenticatedGroupAdder(union.New(list...)), anonymous.NewAuthenticator(nil))
}
