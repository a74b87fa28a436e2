package authn

import (
	"crypto/tls"
	"crypto/x509"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	clocktesting "k8s.io/utils/clock/testing"

	"k8s.io/apiserver/pkg/authentication/user"
)

func TestFrontProxy(t *testing.T) {
	ca, other := newAuthority(t, nil), newAuthority(t, nil)
	named := func(by *authority, name string) *authority {
		return issue(t, by, func(c *x509.Certificate) { c.Subject.CommonName = name })
	}
	calls := 0
	a := New(Config{Clock: clocktesting.NewFakeClock(start), Front: &FrontProxy{
		Roots: func() (*x509.CertPool, error) { calls++; return pool(ca), nil }, Names: []string{"proxy"},
	}})
	bob := &user.DefaultInfo{Name: "bob", UID: "7", Groups: []string{"a", "b", user.AllAuthenticated}, Extra: map[string][]string{"example.org/x": {"1", "2"}}}
	for _, c := range []struct {
		name    string
		cert    *authority
		headers [][2]string
		want    user.Info
		err     string
		calls   int
	}{
		{"no header", named(ca, "proxy"), nil, anonymousUser, "", 0},
		{"no certificate", nil, [][2]string{{RemoteUser, "bob"}}, anonymousUser, "", 0},
		{"believed", named(ca, "proxy"), [][2]string{
			{RemoteUser, "bob"}, {RemoteUID, "7"}, {RemoteGroup, "a"}, {RemoteGroup, "b"}, {RemoteExtraPrefix + "Example.org%2fx", "1"}, {RemoteExtraPrefix + "Example.org%2fx", "2"},
		}, bob, "", 1},
		{"of another authority", named(other, "proxy"), [][2]string{{RemoteUser, "bob"}}, nil, "certificate signed by unknown authority", 1},
		{"of another name", named(ca, "eve"), [][2]string{{RemoteUser, "bob"}}, nil, "x509: subject with cn=eve is not in the allowed list", 1},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		for _, h := range c.headers {
			r.Header.Add(h[0], h[1])
		}
		if c.cert != nil {
			r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c.cert.cert}}
		}
		calls = 0
		info, ok, err := authenticate(a, r)
		if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", c.name, err, c.err)
		}
		if calls != c.calls || ok != (c.want != nil) || c.want != nil && !reflect.DeepEqual(info, c.want) {
			t.Errorf("%s: got %v, want %v; %d calls of Roots", c.name, info, c.want, calls)
		}
	}
}
