package apiserver_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/memory"
)

func TestBadRequests(t *testing.T) {
	e := apiservertest.New(t)
	const maps = "/api/v1/namespaces/default/configmaps"
	noResource, noMethod := "the server could not find the requested resource", "the server does not allow this method on the requested resource"
	for _, c := range []struct {
		name, method, path, body string
		headers                  []string
		code                     int
		message                  string // of the Status; the whole body where it begins with "404"
	}{
		{"unknown page", "GET", "/nope", "", nil, 404, "404 page not found"},
		{"unknown version", "GET", "/api/v9/pods", "", nil, 404, "404 page not found"},
		{"unknown group", "GET", "/apis/none/v1", "", nil, 404, "404 page not found"},
		{"unknown version of a group", "GET", "/apis/apps/v9", "", nil, 404, noResource},
		{"resource of an unknown version", "GET", "/apis/apps/v9/deployments", "", nil, 404, noResource},
		{"name of a create-only resource", "GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/x", "", nil, 404, noResource},
		{"bindings of all namespaces", "POST", "/api/v1/bindings", "{}", nil, 404, noResource},
		{"unknown resource", "GET", "/api/v1/nonsense", "", nil, 404, noResource},
		{"unknown subresource", "GET", maps + "/x/status", "", nil, 404, noResource},
		{"path below a subresource", "GET", "/api/v1/namespaces/default/pods/x/status/y", "", nil, 404, noResource},
		{"namespaced name without a namespace", "GET", "/api/v1/configmaps/x", "", nil, 404, noResource},
		{"namespace before a cluster-scoped resource", "GET", "/api/v1/namespaces/default/nodes", "", nil, 404, noResource},
		{"namespace before another namespace", "GET", "/api/v1/namespaces/default/namespaces/kube-system", "", nil, 404, noResource},
		{"namespace before all namespaces", "GET", "/api/v1/namespaces/default/namespaces", "", nil, 404, noResource},
		{"create by name", "POST", maps + "/x", "{}", nil, 405, noMethod},
		{"create in all namespaces", "POST", "/api/v1/configmaps", "{}", nil, 405, noMethod},
		{"update of a collection", "PUT", maps, "{}", nil, 405, noMethod},
		{"create by a path to watch", "POST", "/api/v1/watch/namespaces/default/configmaps", `{"metadata":{"name":"x"}}`, nil, 405, noMethod},
		{"unknown method", "TRACE", maps, "", nil, 405, noMethod},
		{"unsupported media type of the response", "GET", maps, "", []string{"Accept", "text/html"}, 406,
			"406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf, " +
				"application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"},
		{"unreadable object", "GET", maps + "/x", "", []string{"Accept", "application/*"}, 406,
			"406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf"},
		{"unreadable groups", "GET", "/apis", "", []string{"Accept", "text/html"}, 406,
			"only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"},
		{"metadata of a list", "GET", maps, "", []string{"Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}, 406,
			"you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)"},
		{"metadata of lists", "POST", maps + "?dryRun=All", `{"metadata":{"name":"x"}}`, []string{"Accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}, 406,
			"you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)"},
		{"table of nothing", "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", `{}`, []string{"Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"}, 406,
			"only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"},
		{"rows with what", "GET", maps + "?includeObject=All", "", []string{"Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"}, 400,
			`Unable to convert to Table as requested: includeObject: Invalid value: "All": must be 'Metadata', 'Object', 'None', or empty`},
		{"export", "GET", maps + "/x?export=true", "", nil, 400, "the export parameter, deprecated since v1.14, is no longer supported"},
		{"version of a list", "GET", maps + "?resourceVersion=x", "", nil, 400,
			`invalid resource version: resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax`},
		{"resourceVersion with continue", "GET", maps + "?limit=1&resourceVersion=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJ4In0", "", nil, 400,
			"specifying resource version is not allowed when using continue"},
		{"unknown transformation", "GET", maps, "", []string{"Accept", "application/json;as=Nonsense;v=v1;g=meta.k8s.io"}, 406,
			"only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"},
		{"unreadable body", "POST", maps, "x", []string{"Content-Type", "text/plain"}, 415,
			"the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf"},
		{"unknown patch", "PATCH", maps + "/x", "{}", []string{"Content-Type", "application/json"}, 415, "415: Unsupported Media Type"},
		{"large body", "POST", maps, strings.Repeat(" ", 3<<20+1), nil, 413, "Request entity too large: limit is 3145728"},
		{"no JSON", "POST", maps, "not json at all", nil, 400,
			"the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: invalid character 'o' in literal null (expecting 'u') (6e6f74206a736f6e20617420616c6c)"},
		{"no object", "POST", maps, "1", nil, 400,
			"the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: json: cannot unmarshal number into Go value of type " +
				`struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" } (31)`},
		{"no protobuf", "POST", maps, "xx", []string{"Content-Type", "application/vnd.kubernetes.protobuf"}, 400,
			"the object provided is unrecognized (must be of type ConfigMap): provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] (7878)"},
		{"a list", "POST", maps, `{"apiVersion":"v1","kind":"ConfigMapList"}`, nil, 400,
			`ConfigMapList in version "v1" cannot be handled as a ConfigMap: converting (v1.ConfigMapList) to (core.ConfigMap): unknown conversion`},
		{"options of no kind", "DELETE", maps + "/x", `{"apiVersion":"v1","kind":"Pod"}`, nil, 400,
			`no kind "Pod" is registered for version "v1" in scheme "pkg/apis/meta/internalversion/scheme/register.go:27"`},
		{"options of another kind", "DELETE", maps + "/x", `{"apiVersion":"v1","kind":"Status"}`, nil, 400, "converting (v1.Status) to (v1.DeleteOptions): unknown conversion"},
		{"wrong options", "DELETE", maps + "/x", `{"gracePeriodSeconds":"a"}`, nil, 400,
			"json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64"},
		{"options of any version", "DELETE", maps + "/x", `{"apiVersion":"apps/v1","kind":"DeleteOptions"}`, nil, 404, `configmaps "x" not found`},
		{"no name", "PUT", maps + "/x", `{"metadata":{}}`, nil, 400, "the name of the object (x based on URL) was undeterminable: name must be provided"},
		{"access review without attributes", "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", `{}`, nil, 422,
			`.authorization.k8s.io "" is invalid: spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified`},
		{"field of another version", "GET", "/apis/events.k8s.io/v1/events?fieldSelector=involvedObject.kind%3DPod", "", nil, 400, "field label not supported: involvedObject.kind"},
		{"field of no namespace", "GET", "/api/v1/namespaces?fieldSelector=name%3Dx", "", nil, 400, "field label not supported: name"},
		{"field of no ReplicaSet", "GET", "/apis/apps/v1/replicasets?fieldSelector=status.replicas%3D1", "", nil, 400,
			`"status.replicas" is not a known field selector: only "metadata.name", "metadata.namespace"`},
		{"field of no Job", "GET", "/apis/batch/v1/jobs?fieldSelector=status.active%3D1", "", nil, 400, `field label "status.active" not supported for Job`},
		{"field of no ResourceSlice", "GET", "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.pool%3Dx", "", nil, 400,
			"field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: spec.pool"},
		{"another kind", "POST", maps, `{"apiVersion":"v1","kind":"Secret"}`, nil, 400,
			`Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): unknown conversion`},
		{"unknown kind", "POST", maps, `{"apiVersion":"v1","kind":"Nope"}`, nil, 400,
			`Nope in version "v1" cannot be handled as a ConfigMap: no kind "Nope" is registered for version "v1" in scheme "pkg/api/legacyscheme/scheme.go:30"`},
		{"another version", "POST", "/apis/apps/v1/namespaces/default/deployments", `{"apiVersion":"apps/v1beta1","kind":"Deployment"}`, nil, 400,
			"the API version in the data (apps/v1beta1) does not match the expected API version (apps/v1)"},
		{"wrong type", "POST", maps, `{"metadata":{"name":5}}`, nil, 400,
			`ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string`},
		{"strict", "POST", maps + "?fieldValidation=Strict", `{"metadata":{"name":"x"},"dta":{},"data":{"a":"1","a":"2"}}`, nil, 400,
			`ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "dta", duplicate field "data.a"`},
		{"another namespace", "POST", maps, `{"metadata":{"name":"x","namespace":"y"}}`, nil, 400,
			"the namespace of the provided object does not match the namespace sent on the request"},
		{"dry run", "POST", maps + "?dryRun=yes", `{"metadata":{"name":"x"}}`, nil, 422,
			`CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["yes"]: supported values: "All"`},
		{"limit", "GET", maps + "?limit=x", "", nil, 400, `strconv.ParseInt: parsing "x": invalid syntax`},
		{"watch-list without a match", "GET", maps + "?watch=1&sendInitialEvents=true", "", nil, 422,
			`ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan`},
		{"watch of two names", "GET", "/api/v1/watch/namespaces/default/configmaps/b?fieldSelector=metadata.name%3Da", "", nil, 400,
			"fieldSelector metadata.name doesn't match requested name"},
		{"unknown token", "GET", maps, "", []string{"Authorization", "Bearer nonsense"}, 401, "Unauthorized"},
		{"no right to a resource", "GET", maps, "", []string{"Authorization", "Bearer " + apiservertest.AliceToken}, 403,
			`configmaps is forbidden: User "alice" cannot list resource "configmaps" in API group "" in the namespace "default"`},
		{"no right to a page", "GET", "/metrics", "", []string{"Authorization", "Bearer " + apiservertest.BobToken}, 403, `forbidden: User "bob" cannot get path "/metrics"`},
		{"timeout", "GET", maps + "?timeout=soon", "", nil, 400, `invalid timeout specified in the request URL - time: invalid duration "soon"`},
		{"exec without an upgrade", "GET", "/api/v1/namespaces/default/pods/x/exec", "", nil, 404, `pods "x" not found`},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, body := do(t, e, c.method, c.path, c.body, c.headers...)
			if resp.StatusCode != c.code {
				t.Fatalf("got status %d, want %d: %s", resp.StatusCode, c.code, body)
			}
			if strings.HasPrefix(c.message, "404") {
				if body != c.message+"\n" {
					t.Errorf("got body %q", body)
				}
				return
			}
			var st metav1.Status
			if err := json.Unmarshal([]byte(body), &st); err != nil {
				t.Fatalf("%v: %s", err, body)
			}
			if st.Message != c.message || st.Kind != "Status" || st.Status != "Failure" || int(st.Code) != c.code {
				t.Errorf("got  %s\nwant %s", body, c.message)
			}
		})
	}
}

// blockingStore is a store that blocks every call once it is switched on.
type blockingStore struct {
	store.Store
	on atomic.Bool
}

func (s *blockingStore) Head(ctx context.Context) (store.Revision, error) {
	if !s.on.Load() {
		return s.Store.Head(ctx)
	}
	<-ctx.Done()
	return 0, ctx.Err()
}

func TestRequestTimeout(t *testing.T) {
	s := &blockingStore{Store: memory.New()}
	e := apiservertest.New(t, func(c *apiserver.Config) { c.Store = s })
	s.on.Store(true)
	resp, body := do(t, e, "GET", "/api/v1/namespaces/default?timeout=50ms", "")
	if resp.StatusCode != http.StatusGatewayTimeout || !strings.Contains(body, `"reason":"Timeout"`) {
		t.Errorf("got %s %s", resp.Status, body)
	}
}

func TestWarnings(t *testing.T) {
	e := apiservertest.New(t)
	resp, body := do(t, e, "POST", "/apis/apps/v1beta1/namespaces/default/deployments?fieldValidation=Warn", `{
		"apiVersion":"apps/v1beta1","kind":"Deployment","metadata":{"name":"old"},"bogus":1,
		"spec":{"bogus":2,"template":{"metadata":{"labels":{"app":"old"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`)
	if resp.StatusCode != http.StatusCreated {
		t.Fatal(resp.Status, body)
	}
	want := []string{
		`299 - "apps/v1beta1 Deployment is deprecated in v1.8+, unavailable in v1.16+; use apps/v1 Deployment"`,
		`299 - "unknown field \"bogus\""`, `299 - "unknown field \"spec.bogus\""`,
	}
	if got := resp.Header.Values("Warning"); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got warnings %q, want %q", got, want)
	}
	if resp.Header.Get("Audit-Id") == "" {
		t.Error("no Audit-Id")
	}
	if !strings.Contains(body, `"apiVersion":"apps/v1beta1"`) || !strings.Contains(body, `"matchLabels":{"app":"old"}`) {
		t.Errorf("the response is not of the requested version, with its defaults: %s", body)
	}
	if _, body = do(t, e, "GET", "/apis/apps/v1/namespaces/default/deployments/old", ""); !strings.Contains(body, `"apiVersion":"apps/v1"`) {
		t.Errorf("not readable as apps/v1: %s", body)
	}
}

func TestFormBodies(t *testing.T) {
	e := apiservertest.New(t)
	const maps = "/api/v1/namespaces/default/configmaps"
	do(t, e, "POST", maps, `{"metadata":{"name":"a","labels":{"x":"y"}},"data":{"k":"v"}}`)
	for _, c := range []struct {
		name, path string
		headers    []string
		media      string
		contains   []string
	}{
		{"one", maps + "/a", nil, "application/json", []string{`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a",`, "}\n"}},
		{"list", maps, nil, "application/json", []string{`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"`, `"items":[{"metadata":{"name":"a"`, "]}\n"}},
		{"pretty", maps + "?pretty=1", nil, "application/json", []string{"{\n  \"kind\": \"ConfigMapList\"", "\n    {\n      \"metadata\""}},
		{"curl", maps + "/a", []string{"User-Agent", "curl/8"}, "application/json", []string{"{\n  \"kind\": \"ConfigMap\""}},
		{"YAML", maps + "/a", []string{"Accept", "application/yaml"}, "application/yaml", []string{"apiVersion: v1\ndata:\n  k: v\nkind: ConfigMap\n"}},
		{"YAML list", maps, []string{"Accept", "application/yaml"}, "application/yaml", []string{"kind: ConfigMapList\n"}},
		{"table", maps, []string{"Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}, "application/json",
			[]string{`{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"`, `"cells":["a",`, `"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a"`}},
		{"table with objects", maps + "?includeObject=Object", []string{"Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"}, "application/json", []string{`"object":{"kind":"ConfigMap","apiVersion":"v1"`, `"data":{"k":"v"}`}},
		{"metadata", maps + "/a", []string{"Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}, "application/json", []string{`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1"`}},
		{"second choice", maps + "/a", []string{"Accept", "text/html, application/json;q=0.5"}, "application/json", []string{`"ConfigMap"`}},
		{"version", "/version", nil, "application/json", []string{`"major": "1"`, `"minor": "36"`, `"gitVersion": "v1.36.3"`}},
		{"health", "/healthz", nil, "text/plain; charset=utf-8", []string{"ok"}},
		{"verbose health", "/readyz?verbose", nil, "text/plain; charset=utf-8", []string{"[+]ping ok\n", "[+]etcd ok\n", "readyz check passed\n"}},
		{"one probe", "/livez/ping", nil, "text/plain; charset=utf-8", []string{"ok"}},
		{"metrics", "/metrics", nil, "", []string{`minikctl_apiserver_requests_total{code="201",resource="configmaps",verb="create"} 1`}},
		{"index", "/", nil, "application/json", []string{`"/apis/",`, `"/apis/apps/v1",`, `"/livez/ping",`, `"/metrics/slis",`, `"/openapi/v3/",`, `"/readyz/shutdown",`}},
		{"results of checks", "/metrics/slis", nil, "", []string{`kubernetes_healthcheck{name="ping",type="readyz"} 1`, `kubernetes_healthchecks_total{name="etcd",status="success",type="readyz"} `}},
		{"state", "/statusz", nil, "text/plain; charset=utf-8", []string{"\napiserver statusz\n", "\nPaths: /debug /flagz /healthz /livez /metrics /readyz /statusz /version\n"}},
		{"flags", "/flagz", nil, "text/plain; charset=utf-8", []string{"\napiserver flagz\n"}},
		{"OpenAPI", "/openapi/v3", nil, "application/json", []string{`"apis/apps/v1"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, body := do(t, e, "GET", c.path, "", c.headers...)
			if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || c.media != "" && got != c.media {
				t.Errorf("got %s, %s", resp.Status, got)
			}
			for _, want := range c.contains {
				if !strings.Contains(body, want) {
					t.Errorf("%q is not in\n%s", want, body)
				}
			}
		})
	}
}

// TestUncleanPaths: such a path gets 404, not a redirect.
func TestUncleanPaths(t *testing.T) {
	e := apiservertest.New(t)
	for path, want := range map[string]int{
		"/healthz": 200, "/healthz/": 200, "/debug/pprof/": 200, "/debug/flags/": 200, "/debug/flags/v": 406, "//healthz": 404, "/healthz//": 404, "//": 404, "/./version": 404, "/api/../version": 404, "/apis//": 404,
	} {
		if resp, _ := do(t, e, "GET", path, ""); resp.StatusCode != want || resp.Request.URL.Path != path {
			t.Errorf("%s: got %s of %s, want %d", path, resp.Status, resp.Request.URL.Path, want)
		}
	}
}
