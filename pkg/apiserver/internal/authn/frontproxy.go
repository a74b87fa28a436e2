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

// The headers in which a front proxy names the user, as Kubernetes' installers configure them.
const (
	RemoteUser        = "X-Remote-User"
	RemoteUID         = "X-Remote-Uid"
	RemoteGroup       = "X-Remote-Group"
	RemoteExtraPrefix = "X-Remote-Extra-"
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
	info := &user.DefaultInfo{Name: name, UID: r.Header.Get(RemoteUID), Extra: map[string][]string{}}
	for _, g := range r.Header.Values(RemoteGroup) {
		if g != "" {
			info.Groups = append(info.Groups, g)
		}
	}
	for header, values := range r.Header {
		if key, ok := strings.CutPrefix(header, RemoteExtraPrefix); ok {
			key = ExtraKey(key)
			info.Extra[key] = append(info.Extra[key], values...)
		}
	}
	return info, true, nil
}

// Clear removes the credentials and a front proxy's headers from an authenticated request, so that a server which the request is
// forwarded to neither receives the credentials nor trusts the headers.
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

// ExtraKey decodes the key of an extra value from a header's name.
func ExtraKey(in string) string {
	in = strings.ToLower(in)
	if key, err := url.PathUnescape(in); err == nil {
		return key
	}
	return in
}
