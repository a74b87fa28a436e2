package authn

import (
	"crypto/x509"
	"net/http"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"

	"github.com/minikctl/minikctl/pkg/clock"
)

// The headers in which a front proxy names the user, as Kubernetes' installers configure them.
const (
	RemoteUser        = "X-Remote-User"
	RemoteUID         = "X-Remote-Uid"
	RemoteGroup       = "X-Remote-Group"
	RemoteExtraPrefix = "X-Remote-Extra-"
)

var (
	remoteUser  = headerrequest.StaticStringSlice{RemoteUser}
	remoteUID   = headerrequest.StaticStringSlice{RemoteUID}
	remoteGroup = headerrequest.StaticStringSlice{RemoteGroup}
	remoteExtra = headerrequest.StaticStringSlice{RemoteExtraPrefix}
)

// FrontProxy describes the certificates of trusted front proxies.
type FrontProxy struct {
	Roots func() (*x509.CertPool, error) // their authorities; called only for requests with the headers
	Names []string                       // their common names
}

// frontProxy authenticates by the headers of a proxy that shows a trusted client certificate.
type frontProxy struct {
	FrontProxy
	clk clock.Clock
}

// AuthenticateRequest implements authenticator.Request.
func (f frontProxy) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if r.Header.Get(RemoteUser) == "" || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, false, nil
	}
	roots, err := f.Roots()
	if err != nil {
		return nil, false, err
	}
	headers := headerrequest.NewDynamic(remoteUser, remoteUID, remoteGroup, remoteExtra)
	return x509request.NewVerifier(verifyOptions(roots, f.clk), headers, sets.NewString(f.Names...)).AuthenticateRequest(r)
}

// Clear removes the credentials and a front proxy's headers from an authenticated request, so that a server which the request is
// forwarded to neither receives the credentials nor uses the headers.
func Clear(h http.Header) {
	h.Del("Authorization")
	headerrequest.ClearAuthenticationHeaders(h, remoteUser, remoteUID, remoteGroup, remoteExtra)
}
