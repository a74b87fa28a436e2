package apiserver_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

// ropeWebhook converts ropes: v1 has spec.length as a number, v2 as a text with a unit.
type ropeWebhook struct {
	*httptest.Server
	calls   atomic.Int64
	objects atomic.Int64
	broken  atomic.Bool
}

func newRope(t *testing.T) *ropeWebhook {
	r := &ropeWebhook{}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		var review apiextensionsv1.ConversionReview
		if err := json.Unmarshal(body, &review); err != nil {
			t.Errorf("request %s: %v", body, err)
			return
		}
		r.calls.Add(1)
		response := &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: "Success"}}
		if r.broken.Load() {
			response.Result = metav1.Status{Status: "Failure", Message: "the rope is torn"}
		}
		for _, raw := range review.Request.Objects {
			r.objects.Add(1)
			response.ConvertedObjects = append(response.ConvertedObjects, convertRope(raw, review.Request.DesiredAPIVersion))
		}
		review.Request, review.Response = nil, response
		_ = json.NewEncoder(w).Encode(review)
	}))
	r.Config.ErrorLog = log.New(io.Discard, "", 0)
	r.TLS = &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}}
	r.StartTLS()
	t.Cleanup(r.Close)
	return r
}

func convertRope(raw runtime.RawExtension, version string) runtime.RawExtension {
	u := &unstructured.Unstructured{}
	_ = u.UnmarshalJSON(raw.Raw) // sent by the server
	u.SetAPIVersion(version)
	if spec, ok := u.Object["spec"].(map[string]any); ok {
		switch length := spec["length"].(type) {
		case int64:
			spec["length"] = fmt.Sprint(length, "m")
		case string:
			var n int64
			_, _ = fmt.Sscanf(length, "%dm", &n)
			spec["length"] = n
		}
	}
	return runtime.RawExtension{Object: u}
}

func (r *ropeWebhook) definition() string {
	version := func(name string, storage bool, length, more string) string {
		return fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"subresources":{"status":{}},"additionalPrinterColumns":[{"name":"Length","type":"string","jsonPath":".spec.length"}],
			%s"schema":{"openAPIV3Schema":{"type":"object","properties":{
			"spec":{"type":"object","properties":{"length":%s,"color":{"type":"string"}}},"status":{"type":"object","properties":{"cut":{"type":"boolean"}}}}}}}`, name, storage, more, length)
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.TLS.Certificates[0].Certificate[0]})
	conversion := fmt.Sprintf(`"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":%q,"caBundle":%q}}},"scope":`,
		r.URL+"/convert", base64.StdEncoding.EncodeToString(ca))
	body := definitionOf("ropes", "Rope", "", version("v1", true, `{"type":"integer","maximum":100}`, ""),
		version("v2", false, `{"type":"string","maxLength":4}`, `"selectableFields":[{"jsonPath":".spec.length"}],`))
	return strings.Replace(body, `"scope":`, conversion, 1)
}

func lengthOf(u *unstructured.Unstructured) any { return specOf(u, "length") }

func TestCustomWebhookConversion(t *testing.T) {
	r := newRope(t)
	c := customs{t, apiservertest.New(t)}
	c.define("ropes", r.definition())

	c.must("POST", at("v1", "ropes", ""), cr("v1", "Rope", "a", `,"spec":{"length":3}`))
	if n := r.calls.Load(); n != 0 {
		t.Errorf("%d calls for the stored version", n)
	}
	if got := c.must("GET", at("v2", "ropes", "a"), ""); lengthOf(got) != "3m" || got.GetAPIVersion() != "example.com/v2" {
		t.Errorf("read %v", got.Object)
	}
	if got := c.must("POST", at("v2", "ropes", ""), cr("v2", "Rope", "b", `,"spec":{"length":"7m","color":"red"}`)); lengthOf(got) != "7m" {
		t.Errorf("made %v", got.Object)
	}
	if got := c.must("GET", at("v1", "ropes", "b"), ""); lengthOf(got) != float64(7) {
		t.Errorf("stored %v", got.Object)
	}
	got := c.must("PATCH", at("v2", "ropes", "b"), `{"spec":{"length":"8m"}}`, "Content-Type", mergePatch)
	if lengthOf(got) != "8m" || got.Object["metadata"].(map[string]any)["generation"] != float64(2) {
		t.Errorf("patched %v", got.Object)
	}
	got = c.must("PATCH", at("v2", "ropes", "b/status"), `{"status":{"cut":true}}`, "Content-Type", mergePatch)
	if cut, _, _ := unstructured.NestedBool(got.Object, "status", "cut"); !cut || lengthOf(got) != "8m" {
		t.Errorf("cut %v", got.Object)
	}
	got = c.must("PATCH", at("v2", "ropes", "b")+"?fieldManager=me", `{"apiVersion":"example.com/v2","kind":"Rope","spec":{"color":"red"}}`, "Content-Type", "application/apply-patch+yaml")
	if specOf(got, "color") != "red" {
		t.Errorf("applied %v", got.Object)
	}
	c.fails(422, `spec.length: Too long`, "PATCH", at("v2", "ropes", "b"), `{"spec":{"length":"1000m"}}`, "Content-Type", mergePatch)

	list := c.must("GET", at("v2", "ropes", "")+"?fieldSelector=spec.length%3D8m", "")
	if items, _, _ := unstructured.NestedSlice(list.Object, "items"); len(items) != 1 {
		t.Errorf("selected %v", list.Object)
	}
	_, table := do(t, c.env, "GET", at("v2", "ropes", ""), "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	if !strings.Contains(table, `"cells":["a","3m"]`) || !strings.Contains(table, `"cells":["b","8m"]`) {
		t.Errorf("shown %s", table)
	}

	r.broken.Store(true)
	const torn = `conversion webhook for example.com/v1, Kind=Rope failed: the rope is torn`
	c.fails(500, torn, "PATCH", at("v2", "ropes", "a"), `{"spec":{"color":"blue"}}`, "Content-Type", mergePatch)
	c.must("GET", at("v1", "ropes", "a"), "")
	r.broken.Store(false)
	c.must("DELETE", at("v2", "ropes", "a"), "")
}

// TestCustomVersionRemoved stops serving a version in which objects were written, and then removes it from the definition.
// Like Kubernetes, the server keeps its managedFields as long as the definition has the version, and refuses applies
// afterwards.
func TestCustomVersionRemoved(t *testing.T) {
	c := customs{t, apiservertest.New(t)}
	const schema = `"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}}}}}}`
	version := func(name string, storage bool) string {
		return fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,%s}`, name, storage, schema)
	}
	c.define("carts", definitionOf("carts", "Cart", "", version("v1beta1", false), version("v1", true)))
	c.must("POST", at("v1beta1", "carts", ""), cr("v1beta1", "Cart", "x", `,"spec":{"a":1}`))
	apply := func(version, manager, spec string) *unstructured.Unstructured {
		return c.must("PATCH", at(version, "carts", "x")+"?fieldManager="+manager, fmt.Sprintf(`{"apiVersion":"example.com/%s","kind":"Cart","spec":%s}`, version, spec),
			"Content-Type", "application/apply-patch+yaml")
	}
	apply("v1beta1", "old", `{"b":1}`)
	if got := managers(apply("v1", "new", `{"b":1}`)); !strings.Contains(got, `"manager":"old"`) || !strings.Contains(got, `"manager":"new"`) {
		t.Errorf("managed by %s", got)
	}
	define := func(versions ...string) {
		c.must("PATCH", definitionsPath+"/carts.example.com", fmt.Sprintf(`{"spec":{"versions":[%s]}}`, strings.Join(versions, ",")), "Content-Type", mergePatch)
	}
	define(strings.Replace(version("v1beta1", false), `"served":true`, `"served":false`, 1), version("v1", true))
	c.eventually(at("v1beta1", "carts", "x"), func(code int, _ *unstructured.Unstructured) bool { return code == 404 })
	if got := managers(apply("v1", "new", `{"b":1}`)); !strings.Contains(got, `"manager":"old"`) {
		t.Errorf("managed by %s", got)
	}
	define(version("v1", true))
	const gone = "request to convert CR to an invalid group/version: example.com/v1beta1"
	c.eventually(at("v1", "carts", "x"), func(int, *unstructured.Unstructured) bool {
		resp, response := do(t, c.env, "PATCH", at("v1", "carts", "x")+"?fieldManager=new", `{"apiVersion":"example.com/v1","kind":"Cart","spec":{"b":2}}`,
			"Content-Type", "application/apply-patch+yaml")
		return resp.StatusCode == 500 && strings.Contains(response, gone)
	})
	if got := c.must("PATCH", at("v1", "carts", "x"), `{"spec":{"a":3}}`, "Content-Type", mergePatch); specOf(got, "a") != float64(3) {
		t.Errorf("got %v", got.Object)
	}
}

// TestCustomDefaultsOfStored writes in a version other than the storage version: defaults of the storage version have
// no manager.
func TestCustomDefaultsOfStored(t *testing.T) {
	c := customs{t, apiservertest.New(t)}
	version := func(name string, storage bool, wheels string) string {
		field := fmt.Sprintf(`{"type":"object","default":{},"properties":{"a":{"type":"integer"},"wheels":{"type":"integer"%s}}}`, wheels)
		return fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"subresources":{"status":{}},
			"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":%s,"status":%[3]s}}}}`, name, storage, field)
	}
	c.define("carts", definitionOf("carts", "Cart", "", version("v1beta1", false, ""), version("v1", true, `,"default":4`)))
	has := func(what string, got *unstructured.Unstructured) {
		t.Helper()
		status, _, _ := unstructured.NestedFieldNoCopy(got.Object, "status", "wheels")
		if specOf(got, "wheels") != float64(4) || status != float64(4) || strings.Contains(managers(got), "wheels") {
			t.Errorf("%s: %v", what, got.Object)
		}
	}
	const old = "v1beta1"
	has("created", c.must("POST", at(old, "carts", ""), cr(old, "Cart", "x", `,"spec":{"a":1}`)))
	has("patched", c.must("PATCH", at(old, "carts", "x"), `{"spec":{"a":2,"wheels":null}}`, "Content-Type", mergePatch))
	has("status", c.must("PATCH", at(old, "carts", "x")+"/status", `{"status":{"a":3,"wheels":null}}`, "Content-Type", mergePatch))
	has("read", c.must("GET", at("v1", "carts", "x"), ""))
	for _, query := range []string{"?dryRun=All", ""} {
		got := c.must("POST", at("v1", "carts", "")+query, cr("v1", "Cart", "y", `,"spec":{"a":1}`))
		status, _, _ := unstructured.NestedFieldNoCopy(got.Object, "status", "wheels")
		if status != float64(4) || strings.Count(managers(got), "wheels") != 1 {
			t.Errorf("created in the stored version: %v", got.Object)
		}
	}
}
