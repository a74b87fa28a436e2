package convert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage/stagetest"
)

var (
	v1 = schema.GroupVersion{Group: "example.com", Version: "v1"}
	v2 = schema.GroupVersion{Group: "example.com", Version: "v2"}
)

// hook is a webhook over HTTPS; respond returns its response to a review.
type hook struct {
	*httptest.Server
	reviews []map[string]any
	respond func(review map[string]any) any
}

func newHook(t *testing.T) *hook {
	h := &hook{}
	h.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var review map[string]any
		if err := json.Unmarshal(body, &review); err != nil {
			t.Errorf("called with %s: %v", body, err)
		}
		review["path"] = r.URL.String()
		h.reviews = append(h.reviews, review)
		switch a := h.respond(review).(type) {
		case int:
			w.WriteHeader(a)
		case string:
			_, _ = io.WriteString(w, a)
		default:
			w.Header().Set("Content-Type", "application/json")
			if s, ok := a.(metav1.Status); ok {
				w.WriteHeader(int(s.Code))
			}
			_ = json.NewEncoder(w).Encode(a)
		}
	}))
	h.Config.ErrorLog = log.New(io.Discard, "", 0)
	h.TLS = &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}}
	h.StartTLS()
	t.Cleanup(h.Close)
	h.respond = func(review map[string]any) any { return converted(review, nil) }
	return h
}

func selfSigned(t *testing.T) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hooks"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"hooks.default.svc"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// converted returns a valid response to a review; change may make its objects invalid.
func converted(review map[string]any, change func(obj map[string]any)) map[string]any {
	request := review["request"].(map[string]any)
	var out []any
	for _, obj := range request["objects"].([]any) {
		obj := obj.(map[string]any)
		obj["apiVersion"] = request["desiredAPIVersion"]
		if change != nil {
			change(obj)
		}
		out = append(out, obj)
	}
	return map[string]any{"apiVersion": review["apiVersion"], "kind": review["kind"], "response": map[string]any{
		"uid": request["uid"], "result": map[string]any{"status": "Success"}, "convertedObjects": out,
	}}
}

// definition configures the webhook by URL.
func (h *hook) definition(versions ...string) *apiextensionsv1.CustomResourceDefinition {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.TLS.Certificates[0].Certificate[0]})
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "shirts.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Conversion: &apiextensionsv1.CustomResourceConversion{
			Strategy: apiextensionsv1.WebhookConverter,
			Webhook: &apiextensionsv1.WebhookConversion{
				ConversionReviewVersions: versions, ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: new(h.URL + "/convert"), CABundle: ca},
			},
		}},
	}
}

func shirt(name string, version schema.GroupVersion) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": version.String(), "kind": "Shirt",
		"metadata": map[string]any{"name": name, "namespace": "ns", "uid": "u-" + name, "labels": map[string]any{"a": "b"}, "generation": int64(3)},
		"spec":     map[string]any{"size": int64(1)},
	}}
}

func newWebhooks() *Webhooks {
	return New(stagetest.NewReader(), func() types.UID { return "the-uid" })
}

func TestConvert(t *testing.T) {
	for _, version := range []string{"v1", "v1beta1"} {
		t.Run(version, func(t *testing.T) {
			h := newHook(t)
			h.respond = func(review map[string]any) any {
				return converted(review, func(obj map[string]any) {
					obj["spec"] = map[string]any{"length": 2}
					m := obj["metadata"].(map[string]any)
					m["labels"], m["annotations"], m["generation"], m["finalizers"] = nil, map[string]any{"x": "y"}, 9, []string{"a/b"}
				})
			}
			in := []*unstructured.Unstructured{shirt("a", v1), shirt("b", v2), shirt("c", v1)}
			before, _ := json.Marshal(in)
			out, err := newWebhooks().Convert(t.Context(), h.definition("v7", version), in, v2)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := json.Marshal(out)
			const fresh = `"kind":"Shirt","metadata":{"annotations":{"x":"y"},"generation":3,"name":"N","namespace":"ns","uid":"u-N"},"spec":{"length":2}}`
			want := `[{"apiVersion":"example.com/v2",` + strings.ReplaceAll(fresh, "N", "a") +
				`,{"apiVersion":"example.com/v2","kind":"Shirt","metadata":{"generation":3,"labels":{"a":"b"},"name":"b","namespace":"ns","uid":"u-b"},"spec":{"size":1}}` +
				`,{"apiVersion":"example.com/v2",` + strings.ReplaceAll(fresh, "N", "c") + `]`
			if string(got) != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if after, _ := json.Marshal(in); string(after) != string(before) {
				t.Errorf("changed to %s", after)
			}
			if len(h.reviews) != 1 {
				t.Fatalf("called %d times", len(h.reviews))
			}
			review := h.reviews[0]
			request := review["request"].(map[string]any)
			if review["apiVersion"] != "apiextensions.k8s.io/"+version || review["kind"] != "ConversionReview" || request["uid"] != "the-uid" ||
				request["desiredAPIVersion"] != "example.com/v2" || len(request["objects"].([]any)) != 2 || review["path"] != "/convert?timeout=30s" {
				t.Errorf("got review %v", review)
			}
		})
	}
}

func TestConvertWithoutObjects(t *testing.T) {
	h := newHook(t)
	empty := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Shirt"}}
	out, err := newWebhooks().Convert(t.Context(), h.definition("v1"), []*unstructured.Unstructured{empty, shirt("a", v2)}, v2)
	if err != nil || len(h.reviews) != 0 || out[0].GetAPIVersion() != "example.com/v2" || empty.GetAPIVersion() != "example.com/v1" {
		t.Errorf("got %v, %v after %d calls", out, err, len(h.reviews))
	}
}

func TestInvalidResponses(t *testing.T) {
	meta := func(obj map[string]any) map[string]any { return obj["metadata"].(map[string]any) }
	spoil := func(change func(obj map[string]any)) func(map[string]any) any {
		return func(review map[string]any) any { return converted(review, change) }
	}
	respond := func(change func(review, response map[string]any)) func(map[string]any) any {
		return func(review map[string]any) any {
			a := converted(review, nil)
			change(a, a["response"].(map[string]any))
			return a
		}
	}
	for _, tt := range []struct {
		name, version string
		respond       func(map[string]any) any
		want          string // after "conversion webhook for example.com/v1, Kind=Shirt "
	}{
		{"other version", "v1", spoil(func(o map[string]any) { o["apiVersion"] = "example.com/v3" }),
			"returned invalid object at index 0: invalid groupVersion (expected example.com/v2, received example.com/v3)"},
		{"other kind", "v1", spoil(func(o map[string]any) { o["kind"] = "Sock" }), "returned invalid object at index 0: invalid kind (expected Shirt, received Sock)"},
		{"other name", "v1", spoil(func(o map[string]any) { meta(o)["name"] = "b" }), "returned invalid object: must have the same name: a != b"},
		{"other namespace", "v1", spoil(func(o map[string]any) { meta(o)["namespace"] = "b" }), "returned invalid object: must have the same namespace: ns != b"},
		{"other uid", "v1", spoil(func(o map[string]any) { meta(o)["uid"] = "b" }), "returned invalid object: must have the same UID: u-a != b"},
		{"bad label", "v1", spoil(func(o map[string]any) { meta(o)["labels"] = map[string]any{"a": "?"} }),
			`returned invalid metadata: metadata.labels: Invalid value: "?": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`},
		{"labels of numbers", "v1", spoil(func(o map[string]any) { meta(o)["labels"] = map[string]any{"a": 1} }),
			"returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object"},
		{"annotations of text", "v1", spoil(func(o map[string]any) { meta(o)["annotations"] = "x" }),
			"returned invalid metadata: invalid metadata.annotations of type string in converted object"},
		{"refused", "v1", respond(func(_, r map[string]any) {
			r["result"] = map[string]any{"status": "Failure", "message": "too long"}
		}), "failed: too long"},
		{"no result", "v1beta1", respond(func(_, r map[string]any) { delete(r, "result") }), "failed: response.result.status was '', not 'Success'"},
		{"no response", "v1", respond(func(a, _ map[string]any) { delete(a, "response") }), "failed: no response provided"},
		{"other uid of the review", "v1", respond(func(_, r map[string]any) { r["uid"] = "x" }), `failed: expected response.uid="the-uid", got "x"`},
		{"other version of the review", "v1", respond(func(a, _ map[string]any) { a["apiVersion"] = "apiextensions.k8s.io/v1beta1" }),
			"failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got apiextensions.k8s.io/v1beta1, Kind=ConversionReview"},
		{"too few", "v1", respond(func(_, r map[string]any) { r["convertedObjects"] = []any{} }), "returned 0 objects, expected 1"},
		{"no JSON", "v1", func(map[string]any) any { return "hello" }, "failed: couldn't get version/kind; json parse error: invalid character 'h' looking for beginning of value"},
		{"nothing", "v1", func(map[string]any) any { return "" }, "failed: 0-length response with status code: 200 and content type: "},
		{"bad status", "v1", func(map[string]any) any { return http.StatusTeapot }, `failed: the server responded with the status code 418 but did not return more information`},
		{"reported status", "v1", func(map[string]any) any {
			return metav1.Status{Status: "Failure", Message: "go away", Code: 403, Reason: "Forbidden"}
		}, "failed: go away"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHook(t)
			h.respond = tt.respond
			_, err := newWebhooks().Convert(t.Context(), h.definition(tt.version), []*unstructured.Unstructured{shirt("a", v1)}, v2)
			if want := "conversion webhook for example.com/v1, Kind=Shirt " + tt.want; err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

func TestErrorsOfManyObjects(t *testing.T) {
	h := newHook(t)
	for _, tt := range []struct {
		change func(obj map[string]any)
		want   string
	}{
		{func(o map[string]any) { o["apiVersion"] = "v9" }, "converted object at index 1: invalid groupVersion (expected example.com/v2, received v9)"},
		{func(o map[string]any) { delete(o, "kind") }, `converted object at index 1: Object 'Kind' is missing in '`},
		{func(o map[string]any) { o["metadata"].(map[string]any)["uid"] = "x" }, "converted object at index 1: must have the same UID: u-b != x"},
		{func(o map[string]any) { o["metadata"].(map[string]any)["labels"] = 1 }, "metadata in object at index 1: invalid metadata.labels of type int64 in converted object"},
	} {
		h.respond = func(review map[string]any) any {
			return converted(review, func(o map[string]any) {
				if o["metadata"].(map[string]any)["name"] == "b" {
					tt.change(o)
				}
			})
		}
		_, err := newWebhooks().Convert(t.Context(), h.definition("v1"), []*unstructured.Unstructured{shirt("a", v1), shirt("b", v1)}, v2)
		if want := "conversion webhook for example.com/v1, Kind=Shirt returned invalid " + tt.want; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestUnreachable(t *testing.T) {
	h := newHook(t)
	in := []*unstructured.Unstructured{shirt("a", v1)}
	w := newWebhooks()
	for _, tt := range []struct {
		name   string
		change func(c *apiextensionsv1.WebhookConversion)
		want   string
	}{
		{"no versions", func(c *apiextensionsv1.WebhookConversion) { c.ConversionReviewVersions = []string{"v9"} }, "no supported conversion review versions"},
		{"no address", func(c *apiextensionsv1.WebhookConversion) { c.ClientConfig.URL = nil }, "webhook configuration must have either service or URL"},
		{"bad bundle", func(c *apiextensionsv1.WebhookConversion) { c.ClientConfig.CABundle = []byte("x") },
			"unable to load root certificates: unable to parse bytes as PEM block"},
		{"no bundle", func(c *apiextensionsv1.WebhookConversion) { c.ClientConfig.CABundle = []byte(" ") },
			`Post "` + h.URL + `/convert?timeout=30s": tls: failed to verify certificate: x509: certificate signed by unknown authority`},
		{"no service", func(c *apiextensionsv1.WebhookConversion) {
			c.ClientConfig.URL, c.ClientConfig.Service = nil, &apiextensionsv1.ServiceReference{Namespace: "default", Name: "hooks", Path: new("/p")}
		}, `Post "https://hooks.default.svc:443/p?timeout=30s": services "hooks" not found`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			crd := h.definition("v1")
			tt.change(crd.Spec.Conversion.Webhook)
			_, err := w.Convert(t.Context(), crd, in, v2)
			if want := "conversion webhook for example.com/v1, Kind=Shirt failed: " + tt.want; err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

// TestService connects to the webhook through a Service, whose name is in its certificate.
func TestService(t *testing.T) {
	h := newHook(t)
	_, port, _ := net.SplitHostPort(h.Listener.Addr().String())
	number, _ := strconv.Atoi(port) //nolint:staticcheck // new(int32(number)) uses it
	reader := stagetest.NewReader()
	reader.Put("services", &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hooks"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "127.0.0.1"}})
	crd := h.definition("v1")
	crd.Spec.Conversion.Webhook.ClientConfig.URL = nil
	crd.Spec.Conversion.Webhook.ClientConfig.Service = &apiextensionsv1.ServiceReference{Namespace: "default", Name: "hooks", Path: new("/p"), Port: new(int32(number))}
	w := New(reader, func() types.UID { return "u" })
	for range 3 {
		if _, err := w.Convert(t.Context(), crd, []*unstructured.Unstructured{shirt("a", v1)}, v2); err != nil {
			t.Fatal(err)
		}
	}
	if len(h.reviews) != 3 || w.clients.Len() != 1 {
		t.Errorf("%d calls by %d clients", len(h.reviews), w.clients.Len())
	}
}
