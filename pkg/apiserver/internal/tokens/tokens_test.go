package tokens

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage/stagetest"
	"github.com/minikctl/minikctl/pkg/objects"
)

type fixture struct {
	*Issuer
	reader *stagetest.Reader
	clk    *clocktesting.FakeClock
}

func newFixture(t testing.TB) fixture {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r := stagetest.NewReader()
	r.Put("serviceaccounts", &corev1.ServiceAccount{ObjectMeta: meta("default", "ns", "sa-uid")})
	r.Put("pods", &corev1.Pod{ObjectMeta: meta("p", "ns", "pod-uid"), Spec: corev1.PodSpec{ServiceAccountName: "default", NodeName: "n1"}},
		&corev1.Pod{ObjectMeta: meta("other", "ns", "other-uid"), Spec: corev1.PodSpec{ServiceAccountName: "robot"}})
	r.Put("secrets", &corev1.Secret{ObjectMeta: meta("s", "ns", "secret-uid")})
	r.Put("nodes", &corev1.Node{ObjectMeta: meta("n1", "", "node-uid")})
	clk := clocktesting.NewFakeClock(time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC))
	i, err := New(key, DefaultIssuer, r, clk, nil)
	if err != nil {
		t.Fatal(err)
	}
	return fixture{i, r, clk}
}

func meta(name, namespace, uid string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: namespace, UID: types.UID(uid)}
}

// encoding encodes the parts of a token.
var encoding = base64.RawURLEncoding.Strict()

var account = objects.Key{Namespace: "ns", Name: "default"}

func request(spec authenticationv1.TokenRequestSpec) *authenticationv1.TokenRequest {
	return &authenticationv1.TokenRequest{Spec: spec}
}

func (f fixture) token(t testing.TB, spec authenticationv1.TokenRequestSpec) string {
	t.Helper()
	got, err := f.Request(t.Context(), account, request(spec))
	if err != nil {
		t.Fatal(err)
	}
	return got.Status.Token
}

func toPod(uid string) *authenticationv1.BoundObjectReference {
	return &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: "p", UID: types.UID(uid)}
}

func TestRequestDefaults(t *testing.T) {
	f := newFixture(t)
	req := request(authenticationv1.TokenRequestSpec{})
	got, err := f.Request(t.Context(), account, req)
	if err != nil {
		t.Fatal(err)
	}
	if req.Spec.ExpirationSeconds != nil || req.Spec.Audiences != nil {
		t.Error("the request is changed")
	}
	if *got.Spec.ExpirationSeconds != 3600 || !slices.Equal(got.Spec.Audiences, []string{DefaultIssuer}) || got.Name != "default" || got.Namespace != "ns" {
		t.Errorf("response is %+v", got)
	}
	if !got.Status.ExpirationTimestamp.Time.Equal(f.clk.Now().Add(time.Hour)) {
		t.Errorf("expires %v", got.Status.ExpirationTimestamp)
	}
	info, audiences, err := f.Verify(t.Context(), got.Status.Token, nil)
	if err != nil {
		t.Fatal(err)
	}
	if info.GetName() != "system:serviceaccount:ns:default" || info.GetUID() != "sa-uid" || !slices.Equal(info.GetGroups(), []string{"system:serviceaccounts", "system:serviceaccounts:ns"}) {
		t.Errorf("user is %+v", info)
	}
	if len(info.GetExtra()["authentication.kubernetes.io/credential-id"]) != 1 || !slices.Equal(audiences, []string{DefaultIssuer}) {
		t.Errorf("extra is %v, audiences %v", info.GetExtra(), audiences)
	}
}

func TestTokenClaims(t *testing.T) {
	f := newFixture(t)
	var got map[string]any
	if !unverified(f.token(t, authenticationv1.TokenRequestSpec{BoundObjectRef: toPod("pod-uid")}), &got) {
		t.Fatal("the token is not a JWT")
	}
	delete(got, "jti")
	now := f.clk.Now().Unix()
	want := map[string]any{
		"aud": []any{DefaultIssuer}, "iss": DefaultIssuer, "sub": "system:serviceaccount:ns:default",
		"iat": float64(now), "nbf": float64(now), "exp": float64(now + 3600),
		"kubernetes.io": map[string]any{
			"namespace": "ns", "node": map[string]any{"name": "n1", "uid": "node-uid"},
			"pod":            map[string]any{"name": "p", "uid": "pod-uid"},
			"serviceaccount": map[string]any{"name": "default", "uid": "sa-uid"},
		},
	}
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	if string(a) != string(b) {
		t.Errorf("claims are\n%s, want\n%s", a, b)
	}
}

// TestTokensOfSecrets checks that a token is valid only as long as its Secret holds it.
func TestTokensOfSecrets(t *testing.T) {
	f := newFixture(t)
	sa := &corev1.ServiceAccount{ObjectMeta: meta("default", "ns", "sa-uid")}
	secret := &corev1.Secret{ObjectMeta: meta("s", "ns", "secret-uid")}
	token, err := f.ForSecret(secret, sa)
	if err != nil {
		t.Fatal(err)
	}
	check := func(want string, wanted ...string) {
		t.Helper()
		info, audiences, err := f.Verify(t.Context(), token, wanted)
		switch {
		case want == "" && (err != nil || info.GetName() != "system:serviceaccount:ns:default" || info.GetUID() != "sa-uid" || len(info.GetGroups()) != 2 || !slices.Equal(audiences, []string{DefaultIssuer})):
			t.Errorf("%v for %v, %v", info, audiences, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%v, %v, want %s", info, err, want)
		}
	}
	if !f.HasIssuer(token) {
		t.Error("it is not ours")
	}
	check("Token does not match server's copy")
	held := secret.DeepCopy()
	held.Data = map[string][]byte{"token": []byte(token)}
	f.reader.Put("secrets", held)
	check("")
	check("", DefaultIssuer)
	check("token audiences", "other")
	marked := held.DeepCopy()
	marked.Labels = map[string]string{invalidSince: "2026-01-01"}
	f.reader.Put("secrets", marked)
	check("has been marked invalid")
	f.reader.Put("secrets", held)
	f.reader.Put("serviceaccounts", &corev1.ServiceAccount{ObjectMeta: meta("default", "ns", "new-uid")})
	check("ServiceAccount UID (new-uid) does not match claim (sa-uid)")
	f.reader.Put("serviceaccounts", sa)
	going := held.DeepCopy()
	going.DeletionTimestamp = &metav1.Time{Time: f.clk.Now()}
	f.reader.Put("secrets", going)
	check("Token has been invalidated")
	f.reader.Put("secrets", held)
	token = token[:len(token)-4] + "AAAA"
	check("error in cryptographic primitive")
}

// TestMountedTokensAreExtended checks that tokens mounted into pods outlast their requested lifetime, for the API server only.
func TestMountedTokensAreExtended(t *testing.T) {
	f := newFixture(t)
	mounted := int64(3607)
	for name, c := range map[string]struct {
		spec  authenticationv1.TokenRequestSpec
		lasts int64
	}{
		"mounted":      {authenticationv1.TokenRequestSpec{BoundObjectRef: toPod("pod-uid"), ExpirationSeconds: &mounted}, 365 * 24 * 3600},
		"of no pod":    {authenticationv1.TokenRequestSpec{ExpirationSeconds: &mounted}, 3607},
		"another time": {authenticationv1.TokenRequestSpec{BoundObjectRef: toPod("pod-uid")}, 3600},
		"for others":   {authenticationv1.TokenRequestSpec{BoundObjectRef: toPod("pod-uid"), ExpirationSeconds: &mounted, Audiences: []string{"x"}}, 3607},
	} {
		got, err := f.Request(t.Context(), account, request(c.spec))
		if err != nil {
			t.Fatal(err)
		}
		var read claims
		if !unverified(got.Status.Token, &read) {
			t.Fatal("the token is not a JWT")
		}
		now := f.clk.Now().Unix()
		warn := int64(0)
		if c.lasts > 3607 {
			warn = now + 3607
		}
		if int64(read.Expiry) != now+c.lasts || int64(read.Kubernetes.WarnAfter) != warn || got.Status.ExpirationTimestamp.Unix() != now+*got.Spec.ExpirationSeconds {
			t.Errorf("%s: %+v, status %v", name, read, got.Status.ExpirationTimestamp)
		}
		if id := Credential(got.Status.Token); id != "JTI="+read.ID || read.ID == "" {
			t.Errorf("%s: it is named %q", name, id)
		}
	}
}

func TestRequestRefuses(t *testing.T) {
	seconds := func(n int64) *int64 { return &n }
	ref := func(kind, version, name, uid string) authenticationv1.TokenRequestSpec {
		return authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: kind, APIVersion: version, Name: name, UID: types.UID(uid)}}
	}
	for _, c := range []struct {
		name    string
		account objects.Key
		req     *authenticationv1.TokenRequest
		want    string
		reason  metav1.StatusReason
	}{
		{"no account", objects.Key{Namespace: "ns", Name: "x"}, request(authenticationv1.TokenRequestSpec{}), `serviceaccounts "x" not found`, metav1.StatusReasonNotFound},
		{"too short", account, request(authenticationv1.TokenRequestSpec{ExpirationSeconds: seconds(5)}),
			`TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes`, metav1.StatusReasonInvalid},
		{"too long", account, request(authenticationv1.TokenRequestSpec{ExpirationSeconds: seconds(1<<32 + 1)}),
			`TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds`, metav1.StatusReasonInvalid},
		{"other name", account, &authenticationv1.TokenRequest{ObjectMeta: metav1.ObjectMeta{Name: "y"}},
			`TokenRequest.authentication.k8s.io "default" is invalid: metadata.name: Invalid value: "y": must match the service account name if specified`, metav1.StatusReasonInvalid},
		{"other account", account, &authenticationv1.TokenRequest{ObjectMeta: metav1.ObjectMeta{UID: "old"}},
			`Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "default": the UID in the token request (old) does not match the UID of the service account (sa-uid)`, metav1.StatusReasonConflict},
		{"other namespace", account, &authenticationv1.TokenRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "y"}},
			"the namespace of the provided object does not match the namespace sent on the request", metav1.StatusReasonBadRequest},
		{"no pod", account, request(ref("Pod", "v1", "x", "")), `pods "x" not found`, metav1.StatusReasonNotFound},
		{"another account's pod", account, request(ref("Pod", "v1", "other", "")),
			`cannot bind token for serviceaccount "default" to pod running with different serviceaccount name.`, metav1.StatusReasonBadRequest},
		{"an older pod", account, request(ref("Pod", "v1", "p", "old")),
			`Operation cannot be fulfilled on Pod "p": the UID in the bound object reference (old) does not match the UID in record. The object might have been deleted and then recreated`, metav1.StatusReasonConflict},
		{"no secret", account, request(ref("Secret", "v1", "x", "")), `secrets "x" not found`, metav1.StatusReasonNotFound},
		{"no node", account, request(ref("Node", "v1", "x", "")), `nodes "x" not found`, metav1.StatusReasonNotFound},
		{"another kind", account, request(ref("Deployment", "apps/v1", "x", "")), `cannot bind token to object of type apps/v1, Kind=Deployment`, metav1.StatusReasonBadRequest},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := newFixture(t).Request(t.Context(), c.account, c.req)
			if err == nil || err.Error() != c.want || apierrors.ReasonForError(err) != c.reason {
				t.Errorf("error is %v (%s), want %s", err, apierrors.ReasonForError(err), c.want)
			}
		})
	}
}

func TestVerifyRefuses(t *testing.T) {
	terminating := func(obj metav1.Object, at time.Time) { m := metav1.NewTime(at); obj.SetDeletionTimestamp(&m) }
	bound := authenticationv1.TokenRequestSpec{BoundObjectRef: toPod("")}
	toSecret := authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Secret", APIVersion: "v1", Name: "s"}}
	toNode := authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Node", APIVersion: "v1", Name: "n1"}}
	for _, c := range []struct {
		name   string
		spec   authenticationv1.TokenRequestSpec
		change func(f fixture)
		wanted []string
		want   string // "": valid
	}{
		{"good", authenticationv1.TokenRequestSpec{}, func(fixture) {}, nil, ""},
		{"just expired", authenticationv1.TokenRequestSpec{}, func(f fixture) { f.clk.Step(time.Hour + leeway) }, nil, ""},
		{"expired", authenticationv1.TokenRequestSpec{}, func(f fixture) { f.clk.Step(time.Hour + leeway + time.Second) }, nil, "service account token has expired"},
		{"of the future", authenticationv1.TokenRequestSpec{}, func(f fixture) { f.clk.SetTime(f.clk.Now().Add(-time.Hour)) }, nil, "service account token is not valid yet"},
		{"account deleted", authenticationv1.TokenRequestSpec{}, func(f fixture) { f.reader.Delete("serviceaccounts", "ns", "default") }, nil, `serviceaccounts "default" not found`},
		{"account recreated", authenticationv1.TokenRequestSpec{}, func(f fixture) {
			f.reader.Put("serviceaccounts", &corev1.ServiceAccount{ObjectMeta: meta("default", "ns", "new")})
		}, nil, "service account UID (new) does not match claim (sa-uid)"},
		{"account terminating", authenticationv1.TokenRequestSpec{}, func(f fixture) {
			sa := &corev1.ServiceAccount{ObjectMeta: meta("default", "ns", "sa-uid")}
			terminating(sa, f.clk.Now().Add(-time.Hour))
			f.reader.Put("serviceaccounts", sa)
		}, nil, "service account ns/default has been deleted"},
		{"pod there", bound, func(fixture) {}, nil, ""},
		{"pod deleted", bound, func(f fixture) { f.reader.Delete("pods", "ns", "p") }, nil, "service account token has been invalidated"},
		{"pod recreated", bound, func(f fixture) { f.reader.Put("pods", &corev1.Pod{ObjectMeta: meta("p", "ns", "new")}) }, nil,
			"pod UID (new) does not match service account pod ref claim (pod-uid)"},
		{"pod terminating just now", bound, func(f fixture) {
			pod := &corev1.Pod{ObjectMeta: meta("p", "ns", "pod-uid")}
			terminating(pod, f.clk.Now())
			f.reader.Put("pods", pod)
		}, nil, ""},
		{"pod terminating for long", bound, func(f fixture) {
			pod := &corev1.Pod{ObjectMeta: meta("p", "ns", "pod-uid")}
			terminating(pod, f.clk.Now().Add(-time.Hour))
			f.reader.Put("pods", pod)
		}, nil, "service account token has been invalidated"},
		{"pod's node deleted", bound, func(f fixture) { f.reader.Delete("nodes", "", "n1") }, nil, ""},
		{"secret there", toSecret, func(fixture) {}, nil, ""},
		{"secret deleted", toSecret, func(f fixture) { f.reader.Delete("secrets", "ns", "s") }, nil, "service account token has been invalidated"},
		{"node there", toNode, func(fixture) {}, nil, ""},
		{"node deleted", toNode, func(f fixture) { f.reader.Delete("nodes", "", "n1") }, nil, "service account token has been invalidated"},
		{"another audience", authenticationv1.TokenRequestSpec{Audiences: []string{"vault"}}, func(fixture) {}, nil,
			`token audiences ["vault"] is invalid for the target audiences ["https://kubernetes.default.svc"]`},
		{"the wanted audience", authenticationv1.TokenRequestSpec{Audiences: []string{"vault", "x"}}, func(fixture) {}, []string{"y", "vault"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			token := f.token(t, c.spec)
			c.change(f)
			info, _, err := f.Verify(t.Context(), token, c.wanted)
			if c.want == "" {
				if err != nil || info.GetName() != "system:serviceaccount:ns:default" {
					t.Errorf("%v, %v", info, err)
				}
				return
			}
			if err == nil || err.Error() != c.want {
				t.Errorf("error is %v, want %s", err, c.want)
			}
		})
	}
}

// TestSignaturesAreVerifiedOnce verifies tokens again: from the claims that are kept, but with the time and the bound object of now.
func TestSignaturesAreVerifiedOnce(t *testing.T) {
	f := newFixture(t)
	verify := func(token string) error {
		_, _, err := f.Verify(t.Context(), token, nil)
		return err
	}
	short, mounted := f.token(t, authenticationv1.TokenRequestSpec{}), f.token(t, authenticationv1.TokenRequestSpec{BoundObjectRef: toPod("")})
	for range 2 {
		for _, token := range []string{short, mounted} {
			if err := verify(token); err != nil || f.verified.find(token) == nil {
				t.Fatalf("got error %v, kept: %v", err, f.verified.find(token) != nil)
			}
		}
	}
	f.reader.Delete("pods", "ns", "p")
	if err := verify(mounted); err == nil {
		t.Error("a token is valid after its pod was deleted")
	}
	f.clk.Step(2 * time.Hour)
	if err := verify(short); err == nil {
		t.Error("a token is valid after it has expired")
	}
	if forged := short[:len(short)-4] + "AAAA"; verify(forged) == nil || f.verified.find(forged) != nil {
		t.Error("a token with another signature is valid")
	}
	for i := range 2 * mostVerified {
		f.verified.add(strconv.Itoa(i), &claims{})
	}
	if n := len(f.verified.claims); n > mostVerified {
		t.Errorf("%d tokens are kept, want %d at most", n, mostVerified)
	}
}

func TestVerifyRefusesForgeries(t *testing.T) {
	f := newFixture(t)
	good := f.token(t, authenticationv1.TokenRequestSpec{})
	head, rest, _ := strings.Cut(good, ".")
	body, sig, _ := strings.Cut(rest, ".")
	raw, err := encoding.DecodeString(sig)
	if err != nil {
		t.Fatal(err)
	}
	with := func(header string) string {
		return encoding.EncodeToString([]byte(header)) + "." + body + "." + sig
	}
	edited, _ := encoding.DecodeString(body)
	elsewhere := strings.Replace(string(edited), `"namespace":"ns"`, `"namespace":"kube-system"`, 1)
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var c claims
	if err := json.Unmarshal(edited, &c); err != nil {
		t.Fatal(err)
	}
	strangers, err := sign(stranger, f.kid, c)
	if err != nil {
		t.Fatal(err)
	}
	c.Subject = "system:serviceaccount:kube-system:root"
	confused, err := sign(f.key, f.kid, c)
	if err != nil {
		t.Fatal(err)
	}
	c.Issuer = "https://elsewhere"
	foreign, err := sign(f.key, f.kid, c)
	if err != nil {
		t.Fatal(err)
	}
	// s and n-s are both valid signatures, but not in a shorter or longer encoding.
	const half = 32
	zero := make([]byte, 2*half)
	for name, token := range map[string]string{
		"empty":            "",
		"words":            "hello world",
		"two parts":        head + "." + body,
		"four parts":       good + ".x",
		"no algorithm":     with(`{"alg":"none"}`),
		"another":          with(`{"alg":"HS256"}`),
		"critical":         with(`{"alg":"ES256","crit":["exp"]}`),
		"no signature":     head + "." + body + ".",
		"zero signature":   head + "." + body + "." + encoding.EncodeToString(zero),
		"short signature":  head + "." + body + "." + encoding.EncodeToString(raw[:half]),
		"longer signature": head + "." + body + "." + encoding.EncodeToString(append(slices.Clone(raw), 0)),
		"padding":          good + "=",
		"line break":       good + "\n",
		"edited":           head + "." + encoding.EncodeToString([]byte(elsewhere)) + "." + sig,
		"another's key":    strangers,
		"another subject":  confused,
		"another issuer":   foreign,
		"too long":         good + strings.Repeat("A", maxToken),
	} {
		if info, _, err := f.Verify(t.Context(), token, nil); err == nil {
			t.Errorf("%s: is taken for %s", name, info.GetName())
		}
	}
	if f.HasIssuer(foreign) || !f.HasIssuer(good) || f.HasIssuer("x") {
		t.Error("a token of another issuer is accepted, or a token of this issuer is not")
	}
}

func TestUsername(t *testing.T) {
	for name, want := range map[string][2]string{
		Username("ns", "sa"):            {"ns", "sa"},
		"system:serviceaccount:ns":      {},
		"system:serviceaccount::x":      {},
		"system:serviceaccount:ns:":     {},
		"system:serviceaccount:a:b:c":   {},
		"alice":                         {},
		"xsystem:serviceaccount:ns:abc": {},
	} {
		ns, sa, ok := SplitUsername(name)
		if ok != (want[0] != "") || ok && (ns != want[0] || sa != want[1]) {
			t.Errorf("%s: %q %q %v", name, ns, sa, ok)
		}
	}
}

func TestKeySet(t *testing.T) {
	f := newFixture(t)
	raw, err := f.KeySet()
	if err != nil {
		t.Fatal(err)
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(raw, &set); err != nil || len(set.Keys) != 1 {
		t.Fatalf("%s, %v", raw, err)
	}
	public, ok := set.Keys[0].Key.(*ecdsa.PublicKey)
	if !ok || set.Keys[0].KeyID != f.kid {
		t.Fatalf("%+v", set.Keys[0])
	}
	signed, err := jose.ParseSignedCompact(f.token(t, authenticationv1.TokenRequestSpec{}), []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := signed.Verify(public); err != nil {
		t.Error(err)
	}
	// The form that kube-apiserver publishes, with the members in its order.
	form := regexp.MustCompile(`^{"keys":\[{"use":"sig","kty":"EC","kid":"[\w-]{43}","crv":"P-256","alg":"ES256","x":"[\w-]{43}","y":"[\w-]{43}"}]}$`)
	if !form.Match(raw) {
		t.Errorf("the key set is %s", raw)
	}
	doc, err := f.Discovery("https://127.0.0.1:6443")
	if err != nil || !strings.Contains(string(doc), `"jwks_uri":"https://127.0.0.1:6443/openid/v1/jwks"`) {
		t.Errorf("%s, %v", doc, err)
	}
}

// FuzzVerify checks that only an issued token is accepted.
func FuzzVerify(f *testing.F) {
	x := newFixture(f)
	good := x.token(f, authenticationv1.TokenRequestSpec{})
	f.Add(good)
	f.Add("")
	f.Add("a.b.c")
	f.Add(strings.ToUpper(good))
	for _, claims := range []string{`{}`, `{"aud":1}`, `{"exp":1e99}`, `{"exp":-1}`, `{"iss":"https://kubernetes.default.svc","kubernetes.io":null}`, `[]`} {
		f.Add(encoding.EncodeToString([]byte(`{"alg":"ES256"}`)) + "." + encoding.EncodeToString([]byte(claims)) + "." + encoding.EncodeToString(make([]byte, 64)))
	}
	f.Fuzz(func(t *testing.T, token string) {
		x.HasIssuer(token)
		if _, _, err := x.Verify(t.Context(), token, nil); err == nil && token != good {
			t.Errorf("%q is taken for a token", token)
		}
	})
}

// FuzzClaims checks that signed claims of any shape cause no panic.
func FuzzClaims(f *testing.F) {
	for _, s := range []string{`{"aud":"a","exp":1.5,"nbf":0}`, `{"aud":["a","b"]}`, `{"exp":1e400}`, `{"exp":null}`, `{"kubernetes.io":{"pod":{}}}`, `nope`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		var c claims
		if json.Unmarshal([]byte(raw), &c) != nil {
			return
		}
		if c.Expiry < 0 || c.NotBefore < 0 {
			t.Errorf("%q has times before 1970", raw)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	f := newFixture(b)
	token := f.token(b, authenticationv1.TokenRequestSpec{BoundObjectRef: toPod("pod-uid")})
	for b.Loop() {
		if _, _, err := f.Verify(b.Context(), token, nil); err != nil {
			b.Fatal(err)
		}
	}
}
