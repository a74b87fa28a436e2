package apiserver_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

// TestOldDefinition creates a definition in v1beta1, which many articles still show.
func TestOldDefinition(t *testing.T) {
	c := customs{t, apiservertest.New(t)}
	const path = "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions"
	resp, body := do(t, c.env, "POST", path, `{"metadata":{"name":"coats.example.com"},"spec":{"group":"example.com","version":"v1alpha1",
		"names":{"plural":"coats","kind":"Coat"},"validation":{"openAPIV3Schema":{"properties":{"spec":{"properties":{"size":{"type":"integer","minimum":1}}}}}}}}`)
	if resp.StatusCode != 201 || !strings.Contains(body, `"apiVersion":"apiextensions.k8s.io/v1beta1"`) {
		t.Fatalf("got %s %s", resp.Status, body)
	}
	want := `299 - "apiextensions.k8s.io/v1beta1 CustomResourceDefinition is deprecated in v1.16+, unavailable in v1.22+; use apiextensions.k8s.io/v1 CustomResourceDefinition"`
	if got := resp.Header.Get("Warning"); got != want {
		t.Errorf("got warning %s, want %s", got, want)
	}
	c.established("coats")
	const coats = "/apis/example.com/v1alpha1/namespaces/default/coats"
	coat := c.must("POST", coats, `{"apiVersion":"example.com/v1alpha1","kind":"Coat","metadata":{"name":"a"},"spec":{"size":3,"color":"blue"},"more":{"b":1}}`)
	if color, _, _ := unstructured.NestedString(coat.Object, "spec", "color"); color != "blue" || coat.Object["more"] == nil {
		t.Errorf("an unspecified field was pruned: %v", coat.Object)
	}
	c.fails(422, "spec.size in body should be greater than or equal to 1", "POST", coats,
		`{"apiVersion":"example.com/v1alpha1","kind":"Coat","metadata":{"name":"b"},"spec":{"size":0}}`)
	if old := c.must("GET", path+"/coats.example.com", ""); old.Object["spec"].(map[string]any)["version"] != "v1alpha1" {
		t.Errorf("got %v", old.Object)
	}
}

// TestDefinitionWrites changes a definition over HTTP and checks the managers of its fields.
func TestDefinitionWrites(t *testing.T) {
	c := customs{t, apiservertest.New(t)}
	c.define("shirts", definition("shirts", "Shirt", ""))
	const shirts = definitionsPath + "/shirts.example.com"
	c.fails(422, "metadata.resourceVersion: Invalid value: 0: must be specified for an update", "PUT", shirts, definition("shirts", "Shirt", ""))
	c.fails(422, `spec.names.kind: Invalid value: \"Coat\": field is immutable`, "PATCH", shirts, `{"spec":{"names":{"kind":"Coat","listKind":"CoatList"}}}`, "Content-Type", mergePatch)
	now := c.must("PATCH", shirts, `{"spec":{"names":{"shortNames":["sh"]}},"status":{"storedVersions":["v9"]}}`, "Content-Type", mergePatch)
	stored, _, _ := unstructured.NestedStringSlice(now.Object, "status", "storedVersions")
	if generation, _, _ := unstructured.NestedFloat64(now.Object, "metadata", "generation"); generation != 2 || len(stored) != 1 || stored[0] != "v1" {
		t.Errorf("got generation %v, stored versions %q", generation, stored)
	}
	now = c.must("PATCH", shirts+"/status", `{"metadata":{"labels":{"a":"b"}},"spec":{"scope":"Cluster"}}`, "Content-Type", mergePatch)
	if scope, _, _ := unstructured.NestedString(now.Object, "spec", "scope"); scope != "Namespaced" || now.GetLabels()["a"] != "b" {
		t.Errorf("got scope %s, labels %v", scope, now.GetLabels())
	}
	apply := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"shirts.example.com"},
		"spec":{"names":{"plural":"shirts","kind":"Shirt","categories":["all"]}}}`
	now = c.must("PATCH", shirts+"?fieldManager=second", apply, "Content-Type", "application/apply-patch+yaml")
	for _, entry := range now.GetManagedFields() {
		if fields := string(entry.FieldsV1.Raw); entry.Manager == "second" && fields != `{"f:spec":{"f:names":{"f:categories":{},"f:kind":{},"f:plural":{}}}}` {
			t.Errorf("the second owns %s", fields)
		}
	}
	apply = strings.Replace(apply, `"categories":["all"]`, `"shortNames":["s"]`, 1)
	c.fails(409, ".spec.names.shortNames", "PATCH", shirts+"?fieldManager=second", apply, "Content-Type", "application/apply-patch+yaml")
	resp, _ := do(t, c.env, "POST", definitionsPath, strings.Replace(definition("hats", "Hat", ""), `"x-kubernetes-preserve-unknown-fields":true`,
		`"properties":{"a":{"type":"string","format":"felt"}}`, 1))
	if got := resp.Header.Get("Warning"); got != `299 - "unrecognized format \"felt\""` {
		t.Errorf("got warning %s", got)
	}
}

// TestMetricsOfDeletedKind: the metrics of a kind are removed with its definition.
func TestMetricsOfDeletedKind(t *testing.T) {
	c := customs{t, apiservertest.New(t)}
	c.define("caps", definition("caps", "Cap", ""))
	c.must("GET", "/apis/example.com/v1/caps", "")
	measured := func() bool {
		_, body := do(t, c.env, "GET", "/metrics", "")
		if !strings.Contains(body, `resource="customresourcedefinitions"`) {
			t.Fatalf("got %s", body)
		}
		return strings.Contains(body, `resource="caps"`)
	}
	if !measured() {
		t.Error("no metrics of a served resource")
	}
	c.must("DELETE", definitionsPath+"/caps.example.com", "")
	for deadline := time.Now().Add(time.Minute); measured(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it is still measured")
		}
	}
}
