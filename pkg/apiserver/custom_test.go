package apiserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/store/badger"
)

const (
	definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	mergePatch      = "application/merge-patch+json"
)

// definition is a definition in group example.com of a kind with one version.
func definition(plural, kind, more string) string {
	return definitionOf(plural, kind, more, `{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},`+anySchema+`}`)
}

const anySchema = `"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}`

func definitionOf(plural, kind, more string, versions ...string) string {
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]s.example.com"},
		"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"%[1]s","kind":"%[2]s"%[3]s},"versions":[%[4]s]}}`,
		plural, kind, more, strings.Join(versions, ","))
}

// customs is a client for custom resources.
type customs struct {
	testing.TB
	env *apiservertest.Env
}

// must sends a request that must succeed and returns the response body.
func (c customs) must(method, path, body string, headers ...string) *unstructured.Unstructured {
	c.Helper()
	resp, text := do(c, c.env, method, path, body, headers...)
	if resp.StatusCode >= 300 {
		c.Fatalf("%s %s: %d %s", method, path, resp.StatusCode, text)
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), &u.Object); err != nil {
		c.Fatalf("%s %s: %v: %s", method, path, err, text)
	}
	return u
}

// fails sends a request that must fail with a code and a message.
func (c customs) fails(code int, message, method, path, body string, headers ...string) {
	c.Helper()
	resp, text := do(c, c.env, method, path, body, headers...)
	if resp.StatusCode != code || !strings.Contains(text, message) {
		c.Fatalf("%s %s: %d %s, want %d %s", method, path, resp.StatusCode, text, code, message)
	}
}

// eventually waits until ok accepts the response to a GET of path.
func (c customs) eventually(path string, ok func(code int, u *unstructured.Unstructured) bool) {
	c.Helper()
	var text string
	err := wait.PollUntilContextTimeout(testContext(c), 2*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		var resp *http.Response
		resp, text = do(c, c.env, "GET", path, "")
		u := &unstructured.Unstructured{}
		_ = json.Unmarshal([]byte(text), &u.Object) // a body that is not an object has no fields
		return ok(resp.StatusCode, u), nil
	})
	if err != nil {
		c.Fatalf("GET %s: %v: %s", path, err, text)
	}
}

func condition(u *unstructured.Unstructured, kind string) (status, reason string) {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, one := range list {
		if c, ok := one.(map[string]any); ok && c["type"] == kind {
			return fmt.Sprint(c["status"]), fmt.Sprint(c["reason"])
		}
	}
	return "", ""
}

// define creates a definition and waits until it is established.
func (c customs) define(plural, body string) {
	c.Helper()
	c.must("POST", definitionsPath, body)
	c.established(plural)
}

func (c customs) established(plural string) {
	c.Helper()
	c.eventually(definitionsPath+"/"+plural+".example.com", func(_ int, u *unstructured.Unstructured) bool {
		status, _ := condition(u, "Established")
		return status == "True"
	})
}

func at(version, plural, name string) string {
	path := "/apis/example.com/" + version + "/namespaces/default/" + plural
	if name != "" {
		path += "/" + name
	}
	return path
}

func cr(version, kind, name, more string) string {
	return fmt.Sprintf(`{"apiVersion":"example.com/%s","kind":"%s","metadata":{"name":"%s"}%s}`, version, kind, name, more)
}

func specOf(u *unstructured.Unstructured, field string) any {
	v, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", field)
	return v
}

// TestCustomVersions writes objects in one version and reads them in another, also after the storage version changes.
// Conversion drops the fields that a version does not have. Objects that are read get the defaults of the storage
// version, written ones those of the request's version.
func TestCustomVersions(t *testing.T) {
	c := customs{t, apiservertest.New(t)}
	version := func(name string, storage bool, fields string) string {
		return fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
			"spec":{"type":"object","properties":{%s}},"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}`, name, storage, fields)
	}
	old, current := `"a":{"type":"integer"},"was":{"type":"string","default":"old"}`, `"a":{"type":"integer","maximum":9},"is":{"type":"string","default":"new"}`
	c.define("boats", definitionOf("boats", "Boat", "", version("v1beta1", true, old), version("v1", false, current)))

	made := c.must("POST", at("v1beta1", "boats", ""), cr("v1beta1", "Boat", "one", `,"spec":{"a":1}`))
	if specOf(made, "was") != "old" || specOf(made, "is") != nil {
		t.Errorf("made in v1beta1: %v", made.Object)
	}
	got := c.must("GET", at("v1", "boats", "one"), "")
	if got.GetAPIVersion() != "example.com/v1" || specOf(got, "was") != nil || specOf(got, "a") != float64(1) {
		t.Errorf("read in v1: %v", got.Object)
	}
	c.must("POST", at("v1beta1", "boats", ""), cr("v1beta1", "Boat", "ten", `,"spec":{"a":10}`))
	c.fails(422, "spec.a in body should be less than or equal to 9", "POST", at("v1", "boats", ""), cr("v1", "Boat", "more", `,"spec":{"a":10}`))
	c.fails(422, "spec.a in body should be less than or equal to 9", "PATCH", at("v1", "boats", "one"), `{"spec":{"a":11}}`, "Content-Type", mergePatch)
	c.fails(400, "does not match the expected API version (example.com/v1)", "POST", at("v1", "boats", ""), cr("v1beta1", "Boat", "x", ""))

	crd := c.must("GET", definitionsPath+"/boats.example.com", "")
	if err := unstructured.SetNestedSlice(crd.Object, []any{
		mustMap(t, version("v1beta1", false, old)), mustMap(t, version("v1", true, current)),
	}, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(crd.Object)
	if err != nil {
		t.Fatal(err)
	}
	crd = c.must("PUT", definitionsPath+"/boats.example.com", string(b))
	if stored, _, _ := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions"); len(stored) != 2 {
		t.Errorf("stored versions: %v", stored)
	}
	c.eventually(at("v1", "boats", "ten"), func(code int, u *unstructured.Unstructured) bool {
		return code == 200 && u.GetAPIVersion() == "example.com/v1"
	})
	c.eventually(at("v1beta1", "boats", "ten"), func(_ int, u *unstructured.Unstructured) bool { return specOf(u, "was") == nil })
	applied := c.must("PATCH", at("v1", "boats", "one")+"?fieldManager=me", cr("v1", "Boat", "one", `,"spec":{"is":"mine"}`), "Content-Type", applyPatch)
	if specOf(applied, "is") != "mine" || specOf(applied, "a") != float64(1) {
		t.Errorf("applied in v1: %v", applied.Object)
	}
	c.must("PATCH", at("v1beta1", "boats", "one"), `{"spec":{"a":2}}`, "Content-Type", mergePatch)
	list := c.must("GET", at("v1beta1", "boats", ""), "")
	items, _, _ := unstructured.NestedSlice(list.Object, "items")
	if len(items) != 2 || list.GetKind() != "BoatList" {
		t.Errorf("list in v1beta1: %v", list.Object)
	}
}

func TestCustomServedAfterCreate(t *testing.T) {
	c := customs{t, apiservertest.New(t)}
	for i := range 20 {
		plural := fmt.Sprintf("things%d", i)
		c.must("POST", definitionsPath, definition(plural, fmt.Sprintf("Thing%d", i), ""))
		c.must("GET", at("v1", plural, ""), "")
		if status, _ := condition(c.must("GET", definitionsPath+"/"+plural+".example.com", ""), "Established"); status != "True" {
			t.Fatalf("definition %d is not established though its resource is served", i)
		}
		c.must("PATCH", definitionsPath+"/"+plural+".example.com", `{"spec":{"versions":[{"name":"v1","served":false,"storage":false,`+anySchema+`},{"name":"v2","served":true,"storage":true,`+anySchema+`}]}}`, "Content-Type", mergePatch)
		c.must("GET", at("v2", plural, ""), "")
	}
}

func mustMap(t testing.TB, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestCustomNames creates two definitions with the same kind: the second is accepted once the first is deleted.
func TestCustomNames(t *testing.T) {
	c := customs{t, apiservertest.New(t)}
	c.define("cats", definition("cats", "Cat", `,"shortNames":["c"]`))
	c.must("POST", definitionsPath, definition("felines", "Cat", `,"shortNames":["c"],"singular":"feline","listKind":"FelineList"`))
	felines := definitionsPath + "/felines.example.com"
	c.eventually(felines, func(_ int, u *unstructured.Unstructured) bool {
		status, reason := condition(u, "NamesAccepted")
		return status == "False" && reason == "KindConflict"
	})
	c.fails(404, "", "GET", at("v1", "felines", ""), "")
	c.must("DELETE", definitionsPath+"/cats.example.com", "")
	c.eventually(felines, func(_ int, u *unstructured.Unstructured) bool {
		status, _ := condition(u, "Established")
		return status == "True"
	})
	c.must("POST", at("v1", "felines", ""), cr("v1", "Cat", "tom", ""))
}

// TestCustomDeletion deletes a definition whose objects have finalizers.
func TestCustomDeletion(t *testing.T) {
	c := customs{t, apiservertest.New(t)}
	c.define("dogs", definition("dogs", "Dog", ""))
	c.must("POST", at("v1", "dogs", ""), cr("v1", "Dog", "free", ""))
	c.must("POST", at("v1", "dogs", ""), `{"apiVersion":"example.com/v1","kind":"Dog","metadata":{"name":"held","finalizers":["example.com/hold"]}}`)
	ended := c.watched(at("v1", "dogs", "") + "?watch=true&resourceVersion=" + c.must("GET", at("v1", "dogs", ""), "").GetResourceVersion())

	c.must("DELETE", definitionsPath+"/dogs.example.com", "")
	c.eventually(definitionsPath+"/dogs.example.com", func(_ int, u *unstructured.Unstructured) bool {
		_, reason := condition(u, "Terminating") // before, only the deletion is pending, and a create may still be allowed
		return reason == "InstanceDeletionInProgress"
	})
	c.fails(403, "create not allowed while custom resource definition is terminating", "POST", at("v1", "dogs", ""), cr("v1", "Dog", "late", ""))
	c.eventually(at("v1", "dogs", "free"), func(code int, _ *unstructured.Unstructured) bool { return code == 404 })
	crd := c.must("GET", definitionsPath+"/dogs.example.com", "")
	if status, reason := condition(crd, "Terminating"); status != "True" || reason != "InstanceDeletionInProgress" {
		t.Errorf("Terminating is %s, %s", status, reason)
	}
	c.must("PATCH", at("v1", "dogs", "held"), `{"metadata":{"finalizers":null}}`, "Content-Type", mergePatch)
	c.eventually(definitionsPath+"/dogs.example.com", func(code int, _ *unstructured.Unstructured) bool { return code == 404 })
	c.eventually(at("v1", "dogs", ""), func(code int, _ *unstructured.Unstructured) bool { return code == 404 })
	c.eventually("/apis/example.com", func(code int, _ *unstructured.Unstructured) bool { return code == 404 })
	if got := <-ended; strings.Count(got, `"DELETED"`) != 2 {
		t.Errorf("the watch saw %s", got)
	}

	c.define("dogs", definition("dogs", "Dog", ""))
	list := c.must("GET", at("v1", "dogs", ""), "")
	if items, _, _ := unstructured.NestedSlice(list.Object, "items"); len(items) != 0 {
		t.Errorf("a new definition has the old one's objects: %v", items)
	}
}

// watched reads a watch to its end.
func (c customs) watched(path string) <-chan string {
	c.Helper()
	hc, err := rest.HTTPClientFor(c.env.AdminConfig)
	if err != nil {
		c.Fatal(err)
	}
	req, err := http.NewRequestWithContext(testContext(c), http.MethodGet, c.env.URL+path, nil)
	if err != nil {
		c.Fatal(err)
	}
	resp, err := hc.Do(req)
	if err != nil {
		c.Fatal(err)
	}
	out := make(chan string, 1)
	go func() {
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body) // the error at its end is irrelevant
		out <- string(b)
	}()
	return out
}

// TestCustomWatchEnds changes a definition during a watch: the watch ends, and a new one resumes from its last
// resourceVersion.
func TestCustomWatchEnds(t *testing.T) {
	c := customs{t, apiservertest.New(t)}
	c.define("owls", definition("owls", "Owl", ""))
	made := c.must("POST", at("v1", "owls", ""), cr("v1", "Owl", "one", ""))
	ended := c.watched(at("v1", "owls", "") + "?watch=true&resourceVersion=" + made.GetResourceVersion())
	c.must("POST", at("v1", "owls", ""), cr("v1", "Owl", "two", ""))
	c.must("PATCH", definitionsPath+"/owls.example.com", `{"spec":{"names":{"shortNames":["ow"]}}}`, "Content-Type", mergePatch)
	if got := <-ended; strings.Count(got, `"ADDED"`) > 1 || strings.Contains(got, `"ERROR"`) {
		t.Errorf("the watch saw %s", got)
	}
	again := c.watched(at("v1", "owls", "") + "?watch=true&timeoutSeconds=1&resourceVersion=" + made.GetResourceVersion())
	if got := <-again; strings.Count(got, `"ADDED"`) != 1 || !strings.Contains(got, `"two"`) {
		t.Errorf("the watch saw %s", got)
	}
}

// TestCustomAfterRestart: custom resources are served as soon as a new server over the same store is ready.
func TestCustomAfterRestart(t *testing.T) {
	dir := t.TempDir()
	same := func(cfg *apiserver.Config) {
		s, err := badger.Open(badger.Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Store = s
	}
	t.Run("before", func(t *testing.T) {
		c := customs{t, apiservertest.New(t, same)}
		c.define("apes", definition("apes", "Ape", ""))
		c.must("POST", at("v1", "apes", ""), cr("v1", "Ape", "one", `,"spec":{"a":1}`))
	})
	c := customs{t, apiservertest.New(t, same)}
	if got := c.must("GET", at("v1", "apes", "one"), ""); specOf(got, "a") != float64(1) {
		t.Errorf("after the restart: %v", got.Object)
	}
}

// TestManyDefinitions creates many definitions at once, like the installation of a large operator.
func TestManyDefinitions(t *testing.T) {
	const many = 60
	c := customs{t, apiservertest.New(t)}
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			do(c, c.env, "POST", definitionsPath, definition(fmt.Sprintf("kind%ds", i), fmt.Sprintf("Kind%d", i), ""))
		})
	}
	all.Wait()
	for i := range many {
		c.established(fmt.Sprintf("kind%ds", i))
	}
	list := c.must("GET", "/apis/example.com/v1", "")
	if resources, _, _ := unstructured.NestedSlice(list.Object, "resources"); len(resources) != 2*many {
		t.Errorf("%d resources in discovery", len(resources))
	}
}
