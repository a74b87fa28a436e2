package openapi

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/kube-openapi/pkg/spec3"
	openapiproto "k8s.io/kube-openapi/pkg/util/proto"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/builtin"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

func resources(t testing.TB) []objects.Resource {
	t.Helper()
	return append(slices.Clone(builtin.Resources()), objects.Row(objects.Def[*minikctl.Decision]{
		Names: objects.Names{Group: "minikctl.dev", Version: "v1", Kind: "Decision", Plural: "decisions"},
		New:   func() *minikctl.Decision { return &minikctl.Decision{} },
		NewList: func() runtime.Object {
			return &minikctl.DecisionList{}
		},
		Verbs: []string{"get", "list", "watch"},
	}))
}

func document3(t testing.TB, s *Specs, gv schema.GroupVersion) *spec3.OpenAPI {
	t.Helper()
	body, etag, ok := s.Document(gv.Group, gv.Version)
	if !ok || etag == "" {
		t.Fatalf("%s has no document", gv)
	}
	var doc spec3.OpenAPI
	if err := json.Unmarshal(body, &doc); err != nil {
		t.Fatal(err)
	}
	return &doc
}

func TestEveryReferenceIsDefined(t *testing.T) {
	s := New(objects.Each(resources(t)))
	for _, gv := range s.order {
		body, _, _ := s.Document(gv.Group, gv.Version)
		doc := document3(t, s, gv)
		for _, m := range refs().FindAllSubmatch(body, -1) {
			if doc.Components.Schemas[string(m[1])] == nil {
				t.Errorf("%s refers to %s, which is not defined", gv, m[1])
			}
		}
	}
}

// These are kubectl's checks before an apply: whether PATCH has fieldValidation and strategic merge patches, and
// whether the kind's definition has merge keys.
func TestKubectlApplyChecks(t *testing.T) {
	s := New(objects.Each(resources(t)))
	docs := map[schema.GroupVersion]*spec3.OpenAPI{}
	for _, v := range allVersions(s) {
		gvk := v.gv.WithKind(v.resource.Names.Kind)
		if !slices.Contains(v.resource.Verbs, "patch") {
			continue
		}
		if docs[v.gv] == nil {
			docs[v.gv] = document3(t, s, v.gv)
		}
		doc := docs[v.gv]
		found := false
		for _, p := range doc.Paths.Paths {
			if p.Patch == nil {
				continue
			}
			var got map[string]string
			if err := p.Patch.Extensions.GetObject("x-kubernetes-group-version-kind", &got); err != nil {
				t.Fatal(err)
			}
			if got["group"] != gvk.Group || got["version"] != gvk.Version || got["kind"] != gvk.Kind {
				continue
			}
			found = true
			if !slices.ContainsFunc(p.Patch.Parameters, func(p *spec3.Parameter) bool { return p.Name == "fieldValidation" && p.In == "query" }) {
				t.Errorf("PATCH of %s has no fieldValidation", gvk)
			}
			if p.Patch.RequestBody.Content["application/strategic-merge-patch+json"] == nil {
				t.Errorf("PATCH of %s has no strategic merge", gvk)
			}
		}
		if !found {
			t.Errorf("%s has no PATCH", gvk)
		}
	}
}

func TestThreeWayMergeByDefinition(t *testing.T) {
	doc := document3(t, New(objects.Each(resources(t))), schema.GroupVersion{Group: "apps", Version: "v1"})
	look := strategicpatch.PatchMetaFromOpenAPIV3{
		Schema: doc.Components.Schemas["io.k8s.api.apps.v1.Deployment"], SchemaList: doc.Components.Schemas,
	}
	before := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"a","image":"1"}]}}}}`)
	after := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"a","image":"2"}]}}}}`)
	now := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"a","image":"1"},{"name":"sidecar","image":"x"}]}}}}`)
	patch, err := strategicpatch.CreateThreeWayMergePatch(before, after, now, look, true)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"a"}],"containers":[{"image":"2","name":"a"}]}}}}`; string(patch) != want {
		t.Errorf("patch is %s, want %s", patch, want)
	}
}

type version struct {
	served
	gv schema.GroupVersion
}

func allVersions(s *Specs) []version {
	var list []version
	for _, gv := range s.order {
		for _, v := range s.versions[gv] {
			list = append(list, version{v, gv})
		}
	}
	return list
}

func TestExplainFindsEachKind(t *testing.T) {
	type file struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
		Defs  struct {
			Schemas map[string]struct {
				Kinds      []metav1.GroupVersionKind  `json:"x-kubernetes-group-version-kind"`
				Properties map[string]json.RawMessage `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	s := New(objects.Each(resources(t)))
	docs := map[schema.GroupVersion]*file{}
	for _, v := range allVersions(s) {
		doc := docs[v.gv]
		if doc == nil {
			doc = new(file)
			docs[v.gv] = doc
			body, _, _ := s.Document(v.gv.Group, v.gv.Version)
			if err := json.Unmarshal(body, doc); err != nil {
				t.Fatal(err)
			}
		}
		d := describer{served: v.served, gv: v.gv, namespaced: !v.resource.Names.Cluster}
		if doc.Paths[d.base()] == nil {
			t.Errorf("%s has no path %s", v.gv, d.base())
		}
		want := metav1.GroupVersionKind{Group: v.gv.Group, Version: v.gv.Version, Kind: v.resource.Names.Kind}
		found := 0
		for _, def := range doc.Defs.Schemas {
			if slices.Contains(def.Kinds, want) && len(def.Properties) > 0 {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%v is defined %d times", want, found)
		}
	}
}

// TestEqualsKubernetesDocument compares with the document of a real server, which is in the test data of a library.
func TestEqualsKubernetesDocument(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kube-openapi").Output()
	if err != nil {
		t.Skip("no go command: ", err)
	}
	raw, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "pkg/util/proto/testdata/openapi_v3_0_0/apps/v1.json"))
	if err != nil {
		t.Skip(err)
	}
	type operations map[string]json.RawMessage
	type file struct {
		Paths map[string]operations `json:"paths"`
	}
	var theirs, ours file
	body, _, _ := New(objects.Each(resources(t))).Document("apps", "v1")
	if err := json.Unmarshal(raw, &theirs); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body, &ours); err != nil {
		t.Fatal(err)
	}
	for path, ops := range ours.Paths {
		for method, op := range ops {
			if method == "parameters" {
				continue
			}
			var a, b struct {
				ID          string   `json:"operationId"`
				Description string   `json:"description"`
				Tags        []string `json:"tags"`
			}
			if theirs.Paths[path][method] == nil {
				t.Errorf("they have no %s %s", method, path)
				continue
			}
			if err := json.Unmarshal(op, &a); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(theirs.Paths[path][method], &b); err != nil {
				t.Fatal(err)
			}
			if a.ID != b.ID || a.Description != b.Description || !slices.Equal(a.Tags, b.Tags) {
				t.Errorf("%s %s: got %+v, want %+v", method, path, a, b)
			}
		}
	}
	for path := range theirs.Paths {
		known := strings.Contains(path, "/deployments") || strings.Contains(path, "/replicasets")
		if known && !strings.Contains(path, "/watch/") && ours.Paths[path] == nil {
			t.Errorf("we have no %s", path)
		}
	}
}

func TestSwaggerOfOldClients(t *testing.T) {
	s := New(objects.Each(resources(t)))
	raw, etag, err := s.SwaggerProtobuf()
	if err != nil || etag == "" {
		t.Fatal(err)
	}
	var doc openapi_v2.Document
	if err := proto.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	models, err := openapiproto.NewOpenAPIData(&doc)
	if err != nil {
		t.Fatal(err)
	}
	pod := models.LookupModel("io.k8s.api.core.v1.Pod")
	if pod == nil {
		t.Fatal("there is no Pod")
	}
	spec, _, err := strategicpatch.NewPatchMetaFromOpenAPI(pod).LookupPatchMetadataForStruct("spec")
	if err != nil {
		t.Fatal(err)
	}
	_, merge, err := spec.LookupPatchMetadataForSlice("containers")
	if err != nil || merge.GetPatchMergeKey() != "name" {
		t.Errorf("containers merge by %q: %v", merge.GetPatchMergeKey(), err)
	}
}

func TestDeleteDescribesItsResponse(t *testing.T) {
	doc := document3(t, New(objects.Each(resources(t))), schema.GroupVersion{Version: "v1"})
	for path, want := range map[string]string{
		"/api/v1/namespaces/{namespace}/pods/{name}":       "io.k8s.api.core.v1.Pod",
		"/api/v1/namespaces/{namespace}/configmaps/{name}": metaPrefix + "Status",
	} {
		response := doc.Paths.Paths[path].Delete.Responses.StatusCodeResponses[200].Content["application/json"].Schema.Ref.String()
		if response != refPrefix+want {
			t.Errorf("%s responds with %s", path, response)
		}
	}
}

func TestDocumentsAreBuiltOnDemand(t *testing.T) {
	s := New(objects.Each(resources(t)))
	s.Index()
	if len(s.docs) != 0 {
		t.Error("the index made documents")
	}
}

func TestHashDistinguishesVersions(t *testing.T) {
	a, b := New(objects.Each(resources(t))), New(objects.Each(resources(t)[:3]))
	core := schema.GroupVersion{Version: "v1"}
	if a.hash(core) != New(objects.Each(resources(t))).hash(core) {
		t.Error("the same resources have two hashes")
	}
	if a.hash(core) == b.hash(core) {
		t.Error("other resources have the same hash")
	}
}

func TestServe(t *testing.T) {
	s := New(objects.Each(resources(t)))
	var index struct {
		Paths map[string]struct {
			URL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	get := func(url, accept, match string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, url, nil)
		r.Header.Set("Accept", accept)
		r.Header.Set("If-None-Match", match)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	if err := json.Unmarshal(get("/openapi/v3", "*/*", "").Body.Bytes(), &index); err != nil {
		t.Fatal(err)
	}
	apps := index.Paths["apis/apps/v1"].URL
	ok := get(apps, "application/json", "")
	if ok.Code != http.StatusOK || !strings.Contains(ok.Header().Get("Cache-Control"), "immutable") {
		t.Errorf("%s: %d %v", apps, ok.Code, ok.Header())
	}
	if c := get(apps, "application/json", ok.Header().Get("ETag")).Code; c != http.StatusNotModified {
		t.Errorf("the same again: %d", c)
	}
	for _, c := range []struct {
		url, accept string
		code        int
		media       string
	}{
		{"/openapi/v3/api/v1", "", 200, "application/json"},
		{"/openapi/v3/apis/minikctl.dev/v1", "application/json", 200, "application/json"},
		{"/openapi/v3/apis/apps/v1?hash=old", "", 301, ""},
		{"/openapi/v3/apis/apps/v9", "", 404, ""},
		{"/openapi/v3/apis//v1", "", 404, ""},
		{"/openapi/v3/api/v1/pods", "", 404, ""},
		{"/openapi/v4", "", 404, ""},
		{"/openapi/v3/api/v1", "text/html", 406, ""},
		{"/openapi/v2", "", 200, "application/json"},
		{"/openapi/v2", "application/json, */*", 200, "application/json"},
		{"/openapi/v2", protobufV2Old, 200, protobufV2},
		{"/openapi/v2", protobufV2, 200, protobufV2},
		{"/openapi/v2", "text/html", 406, ""},
	} {
		w := get(c.url, c.accept, "")
		if w.Code != c.code || c.media != "" && w.Header().Get("Content-Type") != c.media {
			t.Errorf("%s %q: %d %s", c.url, c.accept, w.Code, w.Header().Get("Content-Type"))
		}
	}
}

func TestOwnKindsAreDescribed(t *testing.T) {
	doc := document3(t, New(objects.Each(resources(t))), minikctl.GroupVersion)
	d := doc.Components.Schemas["dev.minikctl.v1.Decision"]
	if d == nil {
		t.Fatal("there is no Decision")
	}
	if got := d.Properties["scores"].Items.Schema.Ref.String(); got != refPrefix+"dev.minikctl.v1.NodeScores" {
		t.Errorf("scores are %q", got)
	}
	if !slices.Contains(d.Required, "pod") || slices.Contains(d.Required, "message") {
		t.Errorf("required are %v", d.Required)
	}
}

// TestEmbeddedDefinitionsDecompress decompresses every embedded file.
func TestEmbeddedDefinitionsDecompress(t *testing.T) {
	entries, err := packed.ReadDir("definitions")
	if err != nil {
		t.Fatal(err)
	}
	all := newLibrary()
	for _, e := range entries {
		pkg, ok := strings.CutSuffix(e.Name(), ".json.gz")
		if !ok {
			continue
		}
		for name := range unpack(pkg) {
			if !all.use(name) {
				t.Errorf("%s is not found", name)
			}
		}
	}
	if len(all.found) < 700 {
		t.Errorf("there are only %d definitions", len(all.found))
	}
	for name, raw := range all.found {
		for _, m := range refs().FindAllSubmatch(raw, -1) {
			if all.found[string(m[1])] == nil {
				t.Errorf("%s refers to %s", name, m[1])
			}
		}
		if bytes.Contains(raw, []byte("k8s.io/api/")) && bytes.Contains(raw, []byte(`"$ref":"#/components/schemas/k8s.io`)) {
			t.Errorf("%s refers to a Go type", name)
		}
	}
}

// TestDefinitionsMatchGoMod checks the modules' versions, which is faster than "go run ./gen -check".
func TestDefinitionsMatchGoMod(t *testing.T) {
	raw, err := packed.ReadFile("definitions/versions.gz")
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	of, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("../../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(of)) {
		if !strings.Contains(string(mod), strings.TrimSpace(line)) {
			t.Errorf("the definitions are of %s, go.mod has another version: run go generate", strings.TrimSpace(line))
		}
	}
}

func BenchmarkDocument(b *testing.B) {
	rows := resources(b)
	for b.Loop() {
		New(objects.Each(rows)).Document("", "v1")
	}
}

func BenchmarkIndex(b *testing.B) {
	rows := resources(b)
	for b.Loop() {
		New(objects.Each(rows)).Index()
	}
}

func BenchmarkSwaggerProtobuf(b *testing.B) {
	rows := resources(b)
	for b.Loop() {
		if _, _, err := New(objects.Each(rows)).SwaggerProtobuf(); err != nil {
			b.Fatal(err)
		}
	}
}
