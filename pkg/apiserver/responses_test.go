package apiserver_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

// step is a request and the expected response.
type step struct {
	method, path, body, media string
	code                      int
	has                       string // part of the body; with a leading "!": must not be part of it
}

// play sends the requests in order and checks the responses.
func play(t *testing.T, e *apiservertest.Env, steps []step) {
	t.Helper()
	for i, s := range steps {
		var headers []string
		if s.media != "" {
			headers = []string{"Content-Type", s.media}
		}
		resp, body := do(t, e, s.method, s.path, s.body, headers...)
		if resp.StatusCode != s.code {
			t.Fatalf("step %d, %s %s: got %d, want %d: %s", i, s.method, s.path, resp.StatusCode, s.code, body)
		}
		without, not := strings.CutPrefix(s.has, "!")
		if strings.Contains(body, without) == not && s.has != "" {
			t.Fatalf("step %d, %s %s: got %s, want %s", i, s.method, s.path, body, s.has)
		}
	}
}

const (
	merge    = "application/merge-patch+json"
	apply    = "application/apply-patch+yaml"
	sequence = "application/json-patch+json"
)

// These responses of Kubernetes may be unexpected.
func TestResponseSequences(t *testing.T) {
	const maps, a = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/configmaps/a"
	for name, conversation := range map[string][]step{
		"create with a version": {
			{"POST", maps, `{"metadata":{"name":"a","resourceVersion":"5"}}`, "", 500, `"message":"resourceVersion should not be set on objects to be created","code":500`},
			{"POST", maps + "?dryRun=All", `{"metadata":{"name":"a","resourceVersion":"5"}}`, "", 201, ""},
			{"POST", maps, `{"metadata":{"name":"a","resourceVersion":"0"}}`, "", 201, ""},
		},
		"create with fields that the server sets": {
			{"POST", maps, `{"metadata":{"name":"a","deletionTimestamp":"2020-01-01T00:00:00Z","uid":"x"}}`, "", 201, "!f:deletionTimestamp"},
		},
		"create of an object that is being deleted": {
			{"POST", maps, `{"metadata":{"name":"a","finalizers":["a.b/c"]}}`, "", 201, ""},
			{"POST", maps, `{"metadata":{"name":"a"}}`, "", 409, `"message":"configmaps \"a\" already exists"`},
			{"DELETE", a, "", "", 200, ""},
			{"POST", maps, `{"metadata":{"name":"a"}}`, "", 409, `object is being deleted: configmaps \"a\" already exists`},
		},
		"update": {
			{"POST", maps, `{"metadata":{"name":"a"}}`, "", 201, ""},
			{"PUT", a, `{"metadata":{"name":"a","resourceVersion":"abc"}}`, "", 500, `"message":"strconv.ParseUint: parsing \"abc\": invalid syntax"`},
			{"PUT", a, `{"metadata":{"name":"a","selfLink":"/x"}}`, "", 200, "!selfLink"},
			{"PATCH", a, `{"metadata":{"namespace":"b"}}`, merge, 400, "the namespace of the provided object does not match the namespace sent on the request"},
			{"PATCH", a, `{"metadata":{"name":null}}`, merge, 400, "was undeterminable"},
			{"PATCH", a, `{"kind":"Nope"}`, merge, 422, `no kind \"Nope\" is registered for version \"v1\"`},
			{"PATCH", a, `{"apiVersion":"v2"}`, merge, 422, `no kind \"ConfigMap\" is registered for version \"v2\"`},
			{"PATCH", a, `{"apiVersion":"apps/v1","kind":"DaemonSet"}`, merge, 422, "converting (v1.DaemonSet) to (core.ConfigMap): unknown conversion"},
			{"PATCH", a, `{"apiVersion":null}`, merge, 400, "was undeterminable"},
			{"PATCH", a, `{"kind":null}`, merge, 200, ""},
			{"PATCH", a, `{}`, sequence, 400, "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"},
		},
		"a collection": {
			{"POST", maps, `{"metadata":{"name":"a","labels":{"x":"y"},"finalizers":["a.b/c"]}}`, "", 201, ""},
			{"POST", maps, `{"metadata":{"name":"b","labels":{"x":"y"}}}`, "", 201, ""},
			{"DELETE", maps + "?labelSelector=x&limit=1", "", "", 200, `"continue":`},
			{"DELETE", maps + "?labelSelector=x&resourceVersion=1", "", "", 200, `"items":[]`},
			{"DELETE", maps + "?labelSelector=x", `{"preconditions":{"uid":"z"}}`, "", 409, `"a\"`},
			{"DELETE", maps + "?labelSelector=x%3Dy", "", "", 200, `"name":"b"`},
			{"GET", a, "", "", 200, `"deletionGracePeriodSeconds":0`},
		},
		"a collection as it was": {
			{"POST", maps, `{"metadata":{"name":"a","labels":{"x":"y"},"finalizers":["a.b/c"]}}`, "", 201, ""},
			{"DELETE", maps + "?labelSelector=x", "", "", 200, "!deletionTimestamp"},
		},
		"paging through any version": {
			{"GET", "/api/v1/namespaces?limit=1&resourceVersion=0&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYSJ9", "", "", 200, "!\"continue\""},
		},
		"lists of nothing": {
			{"POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", `{"metadata":{"name":"a"},"rules":[]}`, "", 201, `"rules":null`},
			{"POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles?dryRun=All", `{"metadata":{"name":"b"},"rules":[]}`, "", 201, `"rules":null`},
			{"GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/a", "", "", 200, `"rules":null`},
		},
		"custom resources have apiVersion and kind": {
			{"POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"metadata":{"name":"toys.example.com"},"spec":{"group":"example.com","scope":"Cluster",
				"names":{"plural":"toys","kind":"Toy"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`, "", 201, ""},
			{"POST", "/apis/example.com/v1/toys", `{"metadata":{"name":"a"}}`, "", 400,
				`the object provided is unrecognized (must be of type Toy): Object 'Kind' is missing in '{\"metadata\":{\"name\":\"a\"}}' (`},
			{"POST", "/apis/example.com/v1/toys?fieldValidation=Ignore", `{}`, "", 400, `Toy in version \"v1\" cannot be handled as a Toy: Object 'Kind' is missing in '{}'`},
			{"POST", "/apis/example.com/v1/toys", `{"kind":"Toy","metadata":{"name":"a"}}`, "", 400,
				"the API version in the data () does not match the expected API version (example.com/v1)"},
			{"POST", "/apis/example.com/v1/toys", `{"apiVersion":"example.com/v1","kind":"Other","metadata":{"name":"a"}}`, "", 422,
				`Other.example.com \"a\" is invalid: kind: Invalid value: \"Other\": must be Toy`},
			{"GET", "/apis/example.com/v1/others", "", "", 404, "404 page not found"},
		},
		"a part of a pod": {
			{"POST", "/api/v1/namespaces/default/serviceaccounts", `{"metadata":{"name":"default"}}`, "", 201, ""},
			{"POST", "/api/v1/namespaces/default/pods", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, "", 201, ""},
			{"PATCH", "/api/v1/namespaces/default/pods/p/resize", `{"spec":{"containers":[{"name":"c","image":"other"}]}}`, "application/strategic-merge-patch+json", 200,
				`"fieldsV1":{"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{"f:image":{}}}}},"subresource":"resize"`},
		},
		"the scale of another": {
			{"POST", "/apis/apps/v1/namespaces/default/deployments", `{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},
				"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`, "", 201, ""},
			{"PUT", "/apis/apps/v1/namespaces/default/deployments/d/scale", `{"metadata":{"name":"d","namespace":"default","uid":"x"}}`, "", 409, `"kind":"deployments"`},
		},
		"eviction": {
			{"POST", "/api/v1/namespaces/default/serviceaccounts", `{"metadata":{"name":"default"}}`, "", 201, ""},
			{"POST", "/api/v1/namespaces/default/pods", `{"metadata":{"name":"p","labels":{"x":"y"}},"spec":{"containers":[{"name":"c","image":"i"}]}}`, "", 201, ""},
			{"POST", "/api/v1/namespaces/default/pods/p/eviction", `{"metadata":{"name":"p"},"deleteOptions":{"propagationPolicy":"x"}}`, "", 422,
				`DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value`},
			{"POST", "/api/v1/namespaces/default/pods/p/binding", `{"metadata":{"name":"p","uid":"z"},"target":{"name":"n"}}`, "", 409, `"kind":"pods"`},
			{"POST", "/api/v1/namespaces/default/bindings", `{"metadata":{"name":"p","uid":"z"},"target":{"name":"n"}}`, "", 201, ""},
			{"PATCH", "/api/v1/namespaces/default/pods/p/status", `{"status":{"phase":"Running"}}`, merge, 200, ""},
			{"POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", `{"metadata":{"name":"a"},"spec":{"selector":{}}}`, "", 201, ""},
			{"POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", `{"metadata":{"name":"b"},"spec":{"selector":{}}}`, "", 201, ""},
			{"POST", "/api/v1/namespaces/default/pods/p/eviction", `{"metadata":{"name":"p"}}`, "", 500, "This pod has more than one PodDisruptionBudget"},
		},
		"the version": {
			{"GET", "/version", "", "", 200, `"emulationMinor": "36"`},
			{"GET", "/version", "", "", 200, `"minCompatibilityMinor": "35"`},
		},
		"a token for others": {
			{"POST", "/apis/authentication.k8s.io/v1/tokenreviews", `{"spec":{"token":"` + apiservertest.AdminToken + `","audiences":["x"]}}`, "", 201, `"error":"invalid bearer token"`},
		},
	} {
		t.Run(name, func(t *testing.T) { play(t, apiservertest.New(t), conversation) })
	}
}

// An apply that changes nothing still records its manager, without a time.
func TestApplyWithoutChangesRecordsManager(t *testing.T) {
	e := apiservertest.New(t)
	const path = "/api/v1/namespaces/default/configmaps/a"
	config := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}`
	play(t, e, []step{
		{"PATCH", path + "?fieldManager=one", config, apply, 201, ""},
		{"PATCH", path + "?fieldManager=two", config, apply, 200, ""},
	})
	_, body := do(t, e, "GET", path, "")
	var got metav1.PartialObjectMetadata
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	m := got.ManagedFields
	if len(m) != 2 || m[0].Manager != "two" || m[0].Time != nil || m[1].Manager != "one" || m[1].Time == nil {
		t.Errorf("got %v", m)
	}
}

// The duplicate fields of a YAML body are reported one by one, for each media type of the body.
func TestWarningsOfYAML(t *testing.T) {
	e := apiservertest.New(t)
	config := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: \"1\", a: \"2\", b: \"1\", b: \"2\"}\n"
	for _, c := range []struct{ method, path, media string }{
		{"POST", "/api/v1/namespaces/default/configmaps", "application/yaml"},
		{"PATCH", "/api/v1/namespaces/default/configmaps/a?fieldManager=m", apply},
	} {
		resp, body := do(t, e, c.method, c.path, config, "Content-Type", c.media)
		got := resp.Header.Values("Warning")
		if len(got) != 2 || got[0] != `299 - "line 4: key \"a\" already set in map"` {
			t.Errorf("%s: got %q, %s", c.method, got, body)
		}
	}
}

// YAML has no framing: the server refuses a watch in YAML, with an error in YAML.
func TestWatchInYAML(t *testing.T) {
	resp, body := do(t, apiservertest.New(t), "GET", "/api/v1/configmaps?watch=1", "", "Accept", "application/yaml")
	const want = "only the following media types are accepted: application/json;stream=watch,"
	if resp.StatusCode != http.StatusNotAcceptable || !strings.Contains(body, want) {
		t.Errorf("got %d %s", resp.StatusCode, body)
	}
}

// A delete responds with the object where Kubernetes does so.
func TestDeletedObjects(t *testing.T) {
	e := apiservertest.New(t)
	for path, body := range map[string]string{
		"/api/v1/namespaces/default/resourcequotas":                   `{"metadata":{"name":"x"}}`,
		"/api/v1/namespaces/default/podtemplates":                     `{"metadata":{"name":"x"},"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}}`,
		"/apis/storage.k8s.io/v1/storageclasses":                      `{"metadata":{"name":"x"},"provisioner":"a.b/c"}`,
		"/apis/storage.k8s.io/v1/csidrivers":                          `{"metadata":{"name":"x"},"spec":{}}`,
		"/apis/storage.k8s.io/v1/csinodes":                            `{"metadata":{"name":"x"},"spec":{"drivers":[]}}`,
		"/apis/storage.k8s.io/v1/volumeattributesclasses":             `{"metadata":{"name":"x"},"driverName":"a.b","parameters":{"a":"b"}}`,
		"/apis/resource.k8s.io/v1/deviceclasses":                      `{"metadata":{"name":"x"},"spec":{}}`,
		"/apis/resource.k8s.io/v1/namespaces/default/resourceclaims":  `{"metadata":{"name":"x"},"spec":{}}`,
		"/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles": ``,
		"/api/v1/namespaces/default/configmaps":                       ``,
	} {
		kept := body != ""
		if !kept {
			body = `{"metadata":{"name":"x"}}`
		}
		if resp, got := do(t, e, "POST", path, body); resp.StatusCode != http.StatusCreated {
			t.Fatalf("%s: %s", path, got)
		}
		_, got := do(t, e, "DELETE", path+"/x", "")
		if strings.Contains(got, `"kind":"Status"`) == kept {
			t.Errorf("%s: got %s", path, got)
		}
	}
}

// The row of a finished pod has a condition; kubectl hides such rows on request.
func TestTableRowsOfFinishedPods(t *testing.T) {
	e := apiservertest.New(t)
	const pods = "/api/v1/namespaces/default/pods"
	play(t, e, []step{{"POST", "/api/v1/namespaces/default/serviceaccounts", `{"metadata":{"name":"default"}}`, "", 201, ""}})
	for phase, message := range map[string]string{"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed.", "Running": ""} {
		name := strings.ToLower(phase)
		play(t, e, []step{
			{"POST", pods, `{"metadata":{"name":"` + name + `"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, "", 201, ""},
			{"PATCH", pods + "/" + name + "/status", `{"status":{"phase":"` + phase + `"}}`, merge, 200, ""},
		})
		_, body := do(t, e, "GET", pods+"/"+name, "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
		var table metav1.Table
		if err := json.Unmarshal([]byte(body), &table); err != nil {
			t.Fatal(err)
		}
		got := table.Rows[0].Conditions
		if message == "" && len(got) > 0 || message != "" && (len(got) != 1 || got[0].Message != message || got[0].Reason != phase || got[0].Type != metav1.RowCompleted) {
			t.Errorf("%s: got %v", phase, got)
		}
	}
}
