package apiserver_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

const applyPatch = "application/apply-patch+yaml"

// applier applies configurations of one Deployment.
type applier struct {
	*testing.T
	env *apiservertest.Env
}

func (a applier) path(version, sub string) string {
	return "/apis/apps/" + version + "/namespaces/default/deployments/web" + sub
}

// apply applies config as manager and returns the response's body and code.
func (a applier) apply(manager, version, sub, config string, force bool) (string, int) {
	a.Helper()
	url := fmt.Sprintf("%s?fieldManager=%s&force=%v", a.path(version, sub), manager, force)
	resp, body := do(a, a.env, "PATCH", url, config, "Content-Type", applyPatch)
	return body, resp.StatusCode
}

func (a applier) applied(manager, version, sub, config string, force bool) {
	a.Helper()
	if body, code := a.apply(manager, version, sub, config, force); code >= 300 {
		a.Fatalf("apply of %s by %s: %d %s", config, manager, code, body)
	}
}

func (a applier) refused(manager, version, sub, config, message string) {
	a.Helper()
	body, code := a.apply(manager, version, sub, config, false)
	var status metav1.Status
	if err := json.Unmarshal([]byte(body), &status); err != nil || code != 409 || status.Message != message {
		a.Errorf("apply of %s by %s: %d %q, want %q", config, manager, code, status.Message, message)
	}
}

func (a applier) get() *appsv1.Deployment {
	a.Helper()
	var d appsv1.Deployment
	_, body := do(a, a.env, "GET", a.path("v1", ""), "")
	if err := json.Unmarshal([]byte(body), &d); err != nil {
		a.Fatal(err)
	}
	return &d
}

// owners checks the managers of fields: "MANAGER OPERATION VERSION SUBRESOURCE FIELDS" of each entry.
func (a applier) owners(want ...string) {
	a.Helper()
	var got []string
	for _, e := range a.get().ManagedFields {
		got = append(got, strings.Join([]string{e.Manager, string(e.Operation), e.APIVersion, e.Subresource, string(e.FieldsV1.Raw)}, " "))
	}
	if !slices.Equal(got, want) {
		a.Errorf("managedFields:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// deployment is a configuration in YAML flow style, with more fields in its spec and metadata.
func deployment(version, spec, meta string) string {
	return `{"apiVersion":"apps/` + version + `","kind":"Deployment","metadata":{"name":"web"` + meta + `},"spec":{` + spec + `}}`
}

const (
	whole = `"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	owned = `"f:selector":{},"f:template":{"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{},"f:name":{}}}}}`
)

func newApplier(t *testing.T) applier { return applier{t, apiservertest.New(t)} }

// An apply through scale takes the replicas from their manager, which can take them back.
func TestApplyScale(t *testing.T) {
	a := newApplier(t)
	scale := func(n int) string {
		return fmt.Sprintf(`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"web"},"spec":{"replicas":%d}}`, n)
	}
	a.applied("alice", "v1", "", deployment("v1", `"replicas":3,`+whole, ""), false)
	a.refused("bob", "v1", "/scale", scale(5), `Apply failed with 1 conflict: conflict with "alice": .spec.replicas`)
	body, code := a.apply("bob", "v1", "/scale", scale(5), true)
	var updated autoscalingv1.Scale
	if err := json.Unmarshal([]byte(body), &updated); err != nil || code != 200 || updated.Kind != "Scale" || updated.Spec.Replicas != 5 || len(updated.ManagedFields) > 0 {
		t.Errorf("apply by force: %d %s", code, body)
	}
	a.owners(`bob Apply apps/v1 scale {"f:spec":{"f:replicas":{}}}`, `alice Apply apps/v1  {"f:spec":{`+owned+`}}`)
	if d := a.get(); *d.Spec.Replicas != 5 || d.Generation != 2 {
		t.Errorf("replicas %d, generation %d", *d.Spec.Replicas, d.Generation)
	}
	a.applied("alice", "v1", "", deployment("v1", whole, ""), false)
	a.refused("alice", "v1", "", deployment("v1", `"replicas":3,`+whole, ""),
		`Apply failed with 1 conflict: conflict with "bob" with subresource "scale": .spec.replicas`)

	// An update through scale takes the replicas from the manager that applied them.
	resp, body := do(t, a.env, "PUT", a.path("v1", "/scale?fieldManager=carol"), scale(7))
	if resp.StatusCode != 200 {
		t.Fatal(body)
	}
	a.owners(`alice Apply apps/v1  {"f:spec":{`+owned+`}}`, `carol Update apps/v1 scale {"f:spec":{"f:replicas":{}}}`)

	if _, code := a.apply("bob", "v1", "/scale", deployment("v1", "", ""), true); code != 400 {
		t.Errorf("apply of a Deployment to its scale: %d", code)
	}
	resp, body = do(t, a.env, "PUT", a.path("v1", "/scale"), strings.Replace(scale(1), `"name"`, `"uid":"other","name"`, 1))
	if want := "Precondition failed: UID in precondition: other, UID in object meta: "; resp.StatusCode != 409 || !strings.Contains(body, want) {
		t.Errorf("the scale of another: %d %s", resp.StatusCode, body)
	}
}

// A manager that applies in another version keeps the fields that it owned.
func TestApplyInVersions(t *testing.T) {
	a := newApplier(t)
	a.applied("alice", "v1beta1", "", deployment("v1beta1", `"replicas":2,`+whole, ""), false)
	a.owners(`alice Apply apps/v1beta1  {"f:spec":{"f:replicas":{},` + owned + `}}`)
	a.refused("bob", "v1", "", deployment("v1", `"replicas":4`, ""), `Apply failed with 1 conflict: conflict with "alice": .spec.replicas`)
	a.applied("alice", "v1", "", deployment("v1", whole, ""), false)
	a.owners(`alice Apply apps/v1  {"f:spec":{` + owned + `}}`)
	if d := a.get(); *d.Spec.Replicas != 1 {
		t.Errorf("the replicas without an owner are %d, not the default", *d.Spec.Replicas)
	}
}

// A field is removed when its last owner no longer applies it; a field with several owners stays.
func TestApplyRemovesUnappliedFields(t *testing.T) {
	a := newApplier(t)
	a.applied("alice", "v1", "", deployment("v1", whole, `,"labels":{"a":"1","b":"2"},"finalizers":["example.com/x","example.com/y"]`), false)
	a.applied("bob", "v1", "", deployment("v1", "", `,"labels":{"b":"2"},"finalizers":["example.com/y","example.com/z"]`), false)
	a.applied("alice", "v1", "", deployment("v1", whole, ""), false)
	d := a.get()
	if fmt.Sprint(d.Labels) != "map[b:2]" || !slices.Equal(d.Finalizers, []string{"example.com/y", "example.com/z"}) {
		t.Errorf("labels %v, finalizers %v", d.Labels, d.Finalizers)
	}
	a.applied("bob", "v1", "", deployment("v1", "", ""), false)
	if d := a.get(); len(d.Labels) > 0 || len(d.Finalizers) > 0 {
		t.Errorf("labels %v, finalizers %v", d.Labels, d.Finalizers)
	}
	a.owners(`alice Apply apps/v1  {"f:spec":{`+owned+`}}`, `bob Apply apps/v1  {"f:spec":{}}`)
}

// Status is applied separately, by another manager.
func TestApplyStatus(t *testing.T) {
	a := newApplier(t)
	status := func(n int) string {
		return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":9},"status":{"observedGeneration":%d}}`, n)
	}
	a.applied("alice", "v1", "", deployment("v1", whole, ""), false)
	a.applied("ctrl", "v1", "/status", status(1), false)
	if d := a.get(); d.Status.ObservedGeneration != 1 || *d.Spec.Replicas != 1 {
		t.Errorf("observed %d, replicas %d", d.Status.ObservedGeneration, *d.Spec.Replicas)
	}
	a.refused("other", "v1", "/status", status(2), `Apply failed with 1 conflict: conflict with "ctrl" with subresource "status": .status.observedGeneration`)
	a.owners(`alice Apply apps/v1  {"f:spec":{`+owned+`}}`, `ctrl Apply apps/v1 status {"f:status":{"f:observedGeneration":{}}}`)
	if _, code := a.apply("other", "v1", "/nonsense", status(1), false); code != 404 {
		t.Errorf("apply to an unknown subresource: %d", code)
	}
}

// A client can remove managedFields, and an apply can take over the fields of an earlier create.
func TestApplyAfterUpdate(t *testing.T) {
	a := newApplier(t)
	resp, body := do(t, a.env, "POST", "/apis/apps/v1/namespaces/default/deployments?fieldManager=maker", deployment("v1", `"replicas":2,`+whole, ""))
	if resp.StatusCode != 201 {
		t.Fatal(body)
	}
	a.refused("alice", "v1", "", deployment("v1", `"replicas":3`, ""), `Apply failed with 1 conflict: conflict with "maker" using apps/v1: .spec.replicas`)
	resp, body = do(t, a.env, "PATCH", a.path("v1", ""), `{"metadata":{"managedFields":[{}]}}`, "Content-Type", "application/merge-patch+json")
	if resp.StatusCode != 200 {
		t.Fatal(body)
	}
	a.owners()
	a.refused("alice", "v1", "", deployment("v1", `"replicas":3`, ""), `Apply failed with 1 conflict: conflict with "before-first-apply" using apps/v1: .spec.replicas`)
	a.applied("alice", "v1", "", deployment("v1", `"replicas":3`, ""), true)
	a.owners(`alice Apply apps/v1  {"f:spec":{"f:replicas":{}}}`,
		`before-first-apply Update apps/v1  {"f:spec":{"f:progressDeadlineSeconds":{},"f:revisionHistoryLimit":{},"f:selector":{},`+
			`"f:strategy":{"f:rollingUpdate":{".":{},"f:maxSurge":{},"f:maxUnavailable":{}},"f:type":{}},"f:template":{"f:metadata":{"f:labels":{".":{},"f:app":{}}},`+
			`"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:resources":{},"f:terminationMessagePath":{},"f:terminationMessagePolicy":{}}},`+
			`"f:dnsPolicy":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{},"f:terminationGracePeriodSeconds":{}}}}}`)
}
