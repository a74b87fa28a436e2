package authn

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/clock"
)

// The headers by which a front proxy says for whom it asks: what Kubernetes' installers configure.
const (
	RemoteUser        = "X-Remote-User"
	RemoteUID         = "X-Remote-Uid"
	RemoteGroup       = "X-Remote-Group"
	RemoteExtraPrefix = "X-Remote-Extra-"
)

// FrontProxy says whom to believe who a request comes from.
type FrontProxy struct {
	Roots func() (*x509.CertPool, error) // who signs its certificates. Asked only when a request has the headers
	Names []string                       // the common names of its certificates
}

// frontProxy knows users by what a proxy, which shows its own certificate, says about them in headers.
type frontProxy struct {
	FrontProxy
	clk clock.Clock
}

func (f frontProxy) Authenticate(r *http.Request) (user.Info, bool, error) {
	name := r.Header.Get(RemoteUser)
	if name == "" || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, false, nil
	}
	roots, err := f.Roots()
	if err != nil {
		return nil, false, err
	}
	if _, err := (&certificates{roots: roots, clk: f.clk}).verify(r.TLS.PeerCertificates); err != nil {
		return nil, false, err
	}
	if cn := r.TLS.PeerCertificates[0].Subject.CommonName; !slices.Contains(f.Names, cn) {
		return nil, false, fmt.Errorf("x509: subject with cn=%s is not in the allowed list", cn)
	}
	who := &user.DefaultInfo{Name: name, UID: r.Header.Get(RemoteUID), Extra: map[string][]string{}}
	for _, g := range r.Header.Values(RemoteGroup) {
		if g != "" {
			who.Groups = append(who.Groups, g)
		}
	}
	for header, values := range r.Header {
		if key, ok := strings.CutPrefix(header, RemoteExtraPrefix); ok {
			key = ExtraKey(key)
			who.Extra[key] = append(who.Extra[key], values...)
		}
	}
	return who, true, nil
}

// Clear takes what a client has said of itself out of the headers of a request that is authenticated. Whoever the request is
// passed on to is not to get its credentials, nor to believe what only a front proxy may say.
func Clear(h http.Header) {
	for _, name := range []string{"Authorization", RemoteUser, RemoteUID, RemoteGroup} {
		h.Del(name)
	}
	for name := range h {
		if strings.HasPrefix(name, RemoteExtraPrefix) {
			delete(h, name)
		}
	}
}

// ExtraKey reads the key of an extra value as it is written in a header's name.
func ExtraKey(in string) string {
	in = strings.ToLower(in)
	if key, err := url.PathUnescape(in); err == nil {
		return key
	}
	return in
}
