package authn

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/asn1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage/stagetest"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/tokens"
	"github.com/minikctl/minikctl/pkg/objects"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// issue creates a certificate that parent signs, or a self-signed one.
func issue(t testing.TB, parent *authority, change func(*x509.Certificate)) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<60))
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: serial, NotBefore: start.Add(-time.Hour), NotAfter: start.Add(time.Hour),
		Subject: pkix.Name{CommonName: "alice"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
	}
	change(c)
	signer, signerKey := c, key
	if parent != nil {
		signer, signerKey = parent.cert, parent.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, signer, &key.PublicKey, signerKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key}
}

func newAuthority(t testing.TB, parent *authority) *authority {
	return issue(t, parent, func(c *x509.Certificate) {
		c.Subject, c.IsCA, c.KeyUsage = pkix.Name{CommonName: "ca"}, true, x509.KeyUsageCertSign
	})
}

func pool(a *authority) *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

func withCertificates(certs ...*authority) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.TLS = &tls.ConnectionState{}
	for _, c := range certs {
		r.TLS.PeerCertificates = append(r.TLS.PeerCertificates, c.cert)
	}
	return r
}

func TestCertificates(t *testing.T) {
	ca, stranger := newAuthority(t, nil), newAuthority(t, nil)
	middle := newAuthority(t, ca)
	uid := func(value string) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			c.Subject.ExtraNames = []pkix.AttributeTypeAndValue{{Type: uidAttribute, Value: value}}
		}
	}
	plain := func(*x509.Certificate) {}
	for _, c := range []struct {
		name   string
		certs  []*authority
		user   string // "": none
		groups []string
		uid    string
		bad    bool
	}{
		{name: "none", user: user.Anonymous, groups: []string{user.AllUnauthenticated}},
		{name: "plain", certs: []*authority{issue(t, ca, plain)}, user: "alice", groups: []string{user.AllAuthenticated}},
		{name: "groups", certs: []*authority{issue(t, ca, func(c *x509.Certificate) { c.Subject.Organization = []string{"system:masters", "dev"} })},
			user: "alice", groups: []string{"dev", "system:masters", user.AllAuthenticated}}, // a set, sorted by its encoding
		{name: "uid", certs: []*authority{issue(t, ca, uid("u1"))}, user: "alice", uid: "u1", groups: []string{user.AllAuthenticated}},
		{name: "empty uid", certs: []*authority{issue(t, ca, uid(""))}, bad: true},
		{name: "two uids", certs: []*authority{issue(t, ca, func(c *x509.Certificate) {
			c.Subject.ExtraNames = []pkix.AttributeTypeAndValue{{Type: uidAttribute, Value: "a"}, {Type: uidAttribute, Value: "b"}}
		})}, bad: true},
		{name: "no name", certs: []*authority{issue(t, ca, func(c *x509.Certificate) { c.Subject = pkix.Name{Organization: []string{"system:masters"}} })},
			user: user.Anonymous, groups: []string{user.AllUnauthenticated}},
		{name: "of another authority", certs: []*authority{issue(t, stranger, plain)}, bad: true},
		{name: "self-signed", certs: []*authority{issue(t, nil, plain)}, bad: true},
		{name: "for servers", certs: []*authority{issue(t, ca, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })}, bad: true},
		{name: "expired", certs: []*authority{issue(t, ca, func(c *x509.Certificate) { c.NotAfter = start.Add(-time.Minute) })}, bad: true},
		{name: "not yet", certs: []*authority{issue(t, ca, func(c *x509.Certificate) { c.NotBefore = start.Add(time.Minute) })}, bad: true},
		{name: "over a middle one", certs: []*authority{issue(t, middle, plain), middle}, user: "alice", groups: []string{user.AllAuthenticated}},
		{name: "the middle one is missing", certs: []*authority{issue(t, middle, plain)}, bad: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := New(Config{Clients: pool(ca), Clock: clocktesting.NewFakeClock(start)})
			for range 2 { // the second time it comes from the cache
				info, ok, err := authenticate(a, withCertificates(c.certs...))
				if c.bad {
					if err == nil || ok {
						t.Fatalf("%v, %v, %v", info, ok, err)
					}
					continue
				}
				if err != nil || !ok || info.GetName() != c.user || info.GetUID() != c.uid || !slices.Equal(info.GetGroups(), c.groups) {
					t.Fatalf("%+v, %v, %v", info, ok, err)
				}
			}
		})
	}
}

func TestCachedCertificateExpires(t *testing.T) {
	ca := newAuthority(t, nil)
	clk := clocktesting.NewFakeClock(start)
	a := New(Config{Clients: pool(ca), Clock: clk})
	r := withCertificates(issue(t, ca, func(*x509.Certificate) {}))
	if _, _, err := authenticate(a, r); err != nil {
		t.Fatal(err)
	}
	clk.Step(2 * time.Hour)
	if _, ok, err := authenticate(a, r); err == nil || ok {
		t.Error("an expired certificate is accepted")
	}
}

func TestCertificateCacheIsBounded(t *testing.T) {
	ca := newAuthority(t, nil)
	c := newCertificates(pool(ca), clocktesting.NewFakeClock(start))
	for i := range maxKnown {
		c.known[[32]byte{byte(i), byte(i >> 8)}] = verified{}
	}
	if _, ok, err := authenticate(c, withCertificates(issue(t, ca, func(*x509.Certificate) {}))); !ok || err != nil || len(c.known) != 1 {
		t.Errorf("%v %v, %d are known", ok, err, len(c.known))
	}
}

const file = `admin-token,admin,admin-uid,"system:masters"
alice-token,alice,alice-uid,"developers, testers"
bob-token,bob,bob-uid
`

func static(t testing.TB, raw string) Static {
	t.Helper()
	s, err := parseTokens([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTokenFile(t *testing.T) {
	a := New(Config{Static: static(t, file), Clock: clocktesting.NewFakeClock(start)})
	for header, want := range map[string]struct {
		user   string
		groups []string
		bad    bool
	}{
		"Bearer admin-token":       {user: "admin", groups: []string{"system:masters", user.AllAuthenticated}},
		"bearer alice-token":       {user: "alice", groups: []string{"developers", "testers", user.AllAuthenticated}},
		"  Bearer bob-token":       {user: "bob", groups: []string{user.AllAuthenticated}},
		"Bearer bob-token more":    {user: "bob", groups: []string{user.AllAuthenticated}},
		"Bearer nonsense":          {bad: true},
		"Bearer bob-toke":          {bad: true},
		"Bearer bob-tokenn":        {bad: true},
		"Bearer ":                  {user: user.Anonymous, groups: []string{user.AllUnauthenticated}},
		"Bearer":                   {user: user.Anonymous, groups: []string{user.AllUnauthenticated}},
		"Basic YWRtaW46YWRtaW4=":   {user: user.Anonymous, groups: []string{user.AllUnauthenticated}},
		"":                         {user: user.Anonymous, groups: []string{user.AllUnauthenticated}},
		"Bearer eyJhbGciOiJub25l.": {bad: true},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", header)
		info, ok, err := authenticate(a, r)
		if want.bad {
			if !errors.Is(err, errBadToken) || ok {
				t.Errorf("%q: %v, %v, %v", header, info, ok, err)
			}
			continue
		}
		if err != nil || !ok || info.GetName() != want.user || !slices.Equal(info.GetGroups(), want.groups) {
			t.Errorf("%q: %+v, %v, %v", header, info, ok, err)
		}
	}
}

func TestReadTokens(t *testing.T) {
	for name, c := range map[string]struct {
		raw  string
		want []string // parts of the error; none: valid
	}{
		"empty":             {"", nil},
		"blank lines":       {"\n\na,b,c\n\n", nil},
		"quoted":            {"\"a,b\",\"u\",c\n", nil},
		"no end of line":    {"a,b,c", nil},
		"windows":           {"a,b,c\r\nd,e,f,\"g,h\"\r\n", nil},
		"no groups":         {"a,b,c,\"\"\n", nil},
		"no uid":            {"a,b,\n", nil},
		"two columns":       {"a,b,c\nd,e\n", []string{"line 2: a line needs at least three columns", "found 2"}},
		"unquoted groups":   {"a,b,c,g,h\n", []string{"line 1: a line has at most four columns, found 5", "quotation marks"}},
		"empty token":       {"a,b,c\n,e,f\n", []string{"line 2: the token is empty"}},
		"empty user":        {"a,,c\n", []string{"line 1: the user name is empty"}},
		"the same twice":    {"a,b,c\nx,y,z\na,d,e\n", []string{"line 3: the same token as in line 1"}},
		"an open quotation": {"a,b,c\nd,\"e\n", []string{"line 2"}},
		"a stray quotation": {"a,b\"c,d\n", []string{"line 1"}},
		"several mistakes":  {"a\nb\n", []string{"line 1", "line 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tokens")
			if err := os.WriteFile(path, []byte(c.raw), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := ReadTokens(path)
			if (err != nil) != (c.want != nil) {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
					t.Errorf("%q is not in: %v", want, err)
				}
			}
		})
	}
	if _, err := ReadTokens(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error is %v", err)
	}
}

func TestErrorsContainNoTokens(t *testing.T) {
	for _, raw := range []string{"secret-token,b\n", "secret-token,a,b\nsecret-token,c,d\n", "secret-token,,x\n", "secret-token,\"x\n"} {
		if _, err := parseTokens([]byte(raw)); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("error is %v", err)
		}
	}
}

func TestServiceAccountTokens(t *testing.T) {
	reader := stagetest.NewReader()
	reader.Put("serviceaccounts", &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "sa", Namespace: "ns", UID: "u"}})
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	clk := clocktesting.NewFakeClock(start)
	issuer, err := tokens.New(key, tokens.DefaultIssuer, reader, clk, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := issuer.Request(t.Context(), objects.Key{Namespace: "ns", Name: "sa"}, &authenticationv1.TokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	a := New(Config{Static: static(t, file), Issuer: issuer, Clock: clk})
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+got.Status.Token)
	info, ok, err := authenticate(a, r)
	want := []string{"system:serviceaccounts", "system:serviceaccounts:ns", user.AllAuthenticated}
	if err != nil || !ok || info.GetName() != "system:serviceaccount:ns:sa" || !slices.Equal(info.GetGroups(), want) {
		t.Fatalf("%+v, %v, %v", info, ok, err)
	}
	if r.Header.Get("Authorization") != "" {
		t.Error("the token is still in the authenticated request")
	}
	reader.Delete("serviceaccounts", "ns", "sa")
	r.Header.Set("Authorization", "Bearer "+got.Status.Token)
	if _, ok, err := authenticate(a, r); ok || !errors.Is(err, errBadToken) {
		t.Errorf("%v, %v", ok, err)
	}
}

func TestWebSocketToken(t *testing.T) {
	a := New(Config{Static: static(t, file), Clock: clocktesting.NewFakeClock(start)})
	coded := socketPrefix + base64.RawURLEncoding.EncodeToString([]byte("bob-token"))
	for _, c := range []struct {
		protocols []string
		user      string // "": rejected
		left      string
	}{
		{[]string{"v4.channel.k8s.io", coded}, "bob", "v4.channel.k8s.io"},
		{[]string{coded + ", v5.channel.k8s.io, v4.channel.k8s.io"}, "bob", "v5.channel.k8s.io,v4.channel.k8s.io"},
		{[]string{coded}, "", coded}, // no other subprotocol is left that the server could choose
		{[]string{coded + "," + coded + ",x"}, "", coded + "," + coded + ",x"},
		{[]string{socketPrefix + "***, x"}, "", socketPrefix + "***, x"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Upgrade", "websocket")
		for _, p := range c.protocols {
			r.Header.Add("Sec-Websocket-Protocol", p)
		}
		r.Header.Set("Connection", "upgrade")
		info, ok, err := authenticate(a, r)
		name := ""
		if ok {
			name = info.GetName()
		}
		if (err != nil) != (c.user == "") || name != c.user || strings.Join(r.Header.Values("Sec-Websocket-Protocol"), ",") != c.left {
			t.Errorf("%v: %+v, %v, %v; left %q", c.protocols, info, ok, err, r.Header.Get("Sec-Websocket-Protocol"))
		}
	}
}

// authenticate returns the user of a request.
func authenticate(a authenticator.Request, r *http.Request) (user.Info, bool, error) {
	response, ok, err := a.AuthenticateRequest(r)
	if response == nil {
		return nil, ok, err
	}
	return response.User, ok, err
}

type fixed struct {
	info *user.DefaultInfo
	err  error
}

func (f fixed) AuthenticateRequest(*http.Request) (*authenticator.Response, bool, error) {
	if f.info == nil {
		return nil, false, f.err
	}
	return &authenticator.Response{User: f.info}, true, nil
}

const socketPrefix = "base64url.bearer.authorization.k8s.io."

// uidAttribute is the attribute of a certificate's subject that holds the user's UID.
var uidAttribute = asn1.X509UID()

var anonymousUser = &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}

func TestChain(t *testing.T) {
	bad := errors.New("bad")
	alice := &user.DefaultInfo{Name: "alice", Groups: []string{"g"}}
	for name, c := range map[string]struct {
		more []authenticator.Request
		user string // "": an error
	}{
		"no authenticator":       {nil, user.Anonymous},
		"the first":              {[]authenticator.Request{fixed{info: alice}, fixed{err: bad}}, "alice"},
		"a bad one and a good":   {[]authenticator.Request{fixed{err: bad}, fixed{info: alice}}, "alice"},
		"a bad one and no other": {[]authenticator.Request{fixed{err: bad}, fixed{}}, ""},
		"anonymous stays so":     {[]authenticator.Request{fixed{info: anonymousUser}}, user.Anonymous},
		"complete groups":        {[]authenticator.Request{fixed{info: &user.DefaultInfo{Name: "x", Groups: []string{user.AllAuthenticated}}}}, "x"},
	} {
		info, ok, err := authenticate(New(Config{More: c.more, Clock: clocktesting.NewFakeClock(start)}), httptest.NewRequest(http.MethodGet, "/", nil))
		if c.user == "" {
			if ok || !errors.Is(err, bad) {
				t.Errorf("%s: %v, %v", name, ok, err)
			}
			continue
		}
		if err != nil || !ok || info.GetName() != c.user {
			t.Errorf("%s: %+v, %v, %v", name, info, ok, err)
			continue
		}
		known := 0
		for _, g := range info.GetGroups() {
			if g == user.AllAuthenticated || g == user.AllUnauthenticated {
				known++
			}
		}
		if known != 1 {
			t.Errorf("%s: groups are %v", name, info.GetGroups())
		}
	}
	if len(alice.Groups) != 1 {
		t.Error("an authenticator's user was changed")
	}
}

// FuzzTokenFile checks that every parsed token belongs to a user with a name, and that an empty token belongs to none.
func FuzzTokenFile(f *testing.F) {
	for _, s := range []string{file, "", "a,b,c", "\"", ",,,", "a,b,c\na,b,c", "a,b,c,\",,\"\n", "\xff,\x00,\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		s, err := parseTokens([]byte(raw))
		if err != nil {
			return
		}
		for _, info := range s.users {
			if info.Name == "" || slices.Contains(info.Groups, "") {
				t.Errorf("%q has the user %+v", raw, info)
			}
		}
		if _, ok := s.find(""); ok {
			t.Errorf("%q has an empty token", raw)
		}
	})
}

func BenchmarkCertificate(b *testing.B) {
	ca := newAuthority(b, nil)
	a := New(Config{Clients: pool(ca), Clock: clocktesting.NewFakeClock(start)})
	r := withCertificates(issue(b, ca, func(*x509.Certificate) {}))
	for b.Loop() {
		if _, _, err := authenticate(a, r); err != nil {
			b.Fatal(err)
		}
	}
}
