package apiserver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	reviewv1 "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

const balloons = `{"name":"v1","served":true,"storage":true,
	"subresources":{"status":{},"scale":{"specReplicasPath":".spec.count","statusReplicasPath":".status.count","labelSelectorPath":".status.selector"}},
	"selectableFields":[{"jsonPath":".spec.color"}],
	"schema":{"openAPIV3Schema":{"type":"object","properties":{
		"spec":{"type":"object","properties":{"count":{"type":"integer","maximum":5},"color":{"type":"string","x-kubernetes-validations":[{"rule":"self == oldSelf","message":"it stays"}]}}},
		"status":{"type":"object","properties":{"count":{"type":"integer","maximum":9},"selector":{"type":"string"}}}}}}}`

// balloon defines a kind with the subresources status and scale, and creates an object.
func balloon(t *testing.T) customs {
	c := customs{t, apiservertest.New(t)}
	c.define("balloons", definitionOf("balloons", "Balloon", "", balloons))
	c.must("POST", at("v1", "balloons", ""), cr("v1", "Balloon", "a", `,"spec":{"color":"red"},"status":{"count":3}`))
	return c
}

func TestCustomScale(t *testing.T) {
	c := balloon(t)
	scale := at("v1", "balloons", "a/scale")
	c.fails(500, `the spec replicas field \".spec.count\" does not exist`, "GET", scale, "")
	c.fails(400, `the spec replicas field \".spec.count\" cannot be empty`, "PATCH", scale, `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", mergePatch)
	c.must("PATCH", scale, `{"spec":{"replicas":3}}`, "Content-Type", mergePatch)
	c.must("PATCH", at("v1", "balloons", "a"), `{"spec":{"count":4}}`, "Content-Type", mergePatch)
	c.must("PATCH", scale, `{"spec":{"replicas":3}}`, "Content-Type", mergePatch)
	c.fails(422, `Balloon.example.com \"a\" is invalid: spec.count: Invalid value: 6: spec.count in body should be less than or equal to 5`,
		"PATCH", scale, `{"spec":{"replicas":6}}`, "Content-Type", mergePatch)
	c.fails(422, `Balloon.example.com \"a\" is invalid: .spec.count: Invalid value: -1: should be a non-negative integer`,
		"PATCH", scale, `{"spec":{"replicas":-1}}`, "Content-Type", mergePatch)
	c.must("PATCH", at("v1", "balloons", "a/status"), `{"status":{"count":2,"selector":"a=b"}}`, "Content-Type", mergePatch)
	got := c.must("GET", scale, "")
	spec, _, _ := unstructured.NestedInt64(got.Object, "spec", "replicas")
	if s, _ := json.Marshal(got.Object["status"]); string(s) != `{"replicas":2,"selector":"a=b"}` || spec != 3 && specOf(got, "replicas") != float64(3) {
		t.Errorf("got %v", got.Object)
	}
	_, shown := do(t, c.env, "GET", scale, "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	if !strings.Contains(shown, `"cells":["a",3,2,"`) || !strings.Contains(shown, `{"name":"Desired","type":"integer","format":"","description":"Number of desired replicas","priority":0}`) {
		t.Errorf("shown %s", shown)
	}
	obj := c.must("GET", at("v1", "balloons", "a"), "")
	if specOf(obj, "count") != float64(3) || obj.Object["metadata"].(map[string]any)["generation"] != float64(4) {
		t.Errorf("got %v", obj.Object)
	}
	if managed := managers(obj); !strings.Contains(managed, byScale) {
		t.Errorf("managed by %s", managed)
	}
}

// TestCustomAppliedIntegers applies integers that a validation rule and the scale subresource read: on create, in a
// version other than the storage version, on an existing object, and as a duplicate field.
func TestCustomAppliedIntegers(t *testing.T) {
	c := customs{t, apiservertest.New(t)}
	version := func(name string, storage bool) string {
		return fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"subresources":{"scale":{"specReplicasPath":".spec.count","statusReplicasPath":".status.count"}},
			"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object",
			"properties":{"count":{"type":"integer"},"most":{"type":"integer"},"share":{"type":"number"}},
			"x-kubernetes-validations":[{"rule":"self.count <= self.most && self.share < 2.5","message":"too many"}]}}}}}`, name, storage)
	}
	c.define("kites", definitionOf("kites", "Kite", "", version("v1beta1", false), version("v1", true)))
	apply := func(v, name, count string) (path, body string) {
		return at(v, "kites", name) + "?fieldManager=a&fieldValidation=Warn", cr(v, "Kite", name, `,"spec":{"count":`+count+`,"most":5,"share":2}`)
	}
	for _, a := range []struct {
		version, name, count string
		want                 float64
	}{
		{"v1", "x", "2", 2}, {"v1", "x", "3", 3}, {"v1beta1", "y", "4", 4}, {"v1beta1", "x", "5", 5}, {"v1", "y", `1,"count":2`, 2},
	} {
		path, body := apply(a.version, a.name, a.count)
		if got := c.must("PATCH", path, body, "Content-Type", applyPatch); specOf(got, "count") != a.want {
			t.Errorf("%s %s %s: %v", a.version, a.name, a.count, got.Object)
		}
	}
	path, body := apply("v1", "x", "6")
	c.fails(422, "too many", "PATCH", path, body, "Content-Type", applyPatch)
}

const byScale = `"fieldsV1":{"f:spec":{"f:count":{}}},"manager":"Go-http-client","operation":"Update","subresource":"scale"`

func managers(u *unstructured.Unstructured) string {
	b, _ := json.Marshal(u.Object["metadata"].(map[string]any)["managedFields"]) // decoded above
	return string(b)
}

func TestCustomStatus(t *testing.T) {
	c := balloon(t)
	status := at("v1", "balloons", "a/status")
	if made := c.must("GET", at("v1", "balloons", "a"), ""); made.Object["status"] != nil {
		t.Errorf("made with a status: %v", made.Object)
	}
	c.fails(422, `status.count: Invalid value: 10: count in body should be less than or equal to 9`, "PATCH", status, `{"status":{"count":10}}`, "Content-Type", mergePatch)
	c.fails(422, `.status.count: Invalid value: -1: should be a non-negative integer`, "PATCH", status, `{"status":{"count":-1}}`, "Content-Type", mergePatch)
	got := c.must("PATCH", status, `{"metadata":{"labels":{"a":"b"}},"spec":{"color":"blue"},"status":{"count":1}}`, "Content-Type", mergePatch)
	if specOf(got, "color") != "red" || got.GetLabels() != nil {
		t.Errorf("got %v", got.Object)
	}
	got = c.must("PATCH", at("v1", "balloons", "a"), `{"status":{"count":7},"spec":{"count":1}}`, "Content-Type", mergePatch)
	if n, _, _ := unstructured.NestedFieldNoCopy(got.Object, "status", "count"); n != float64(1) {
		t.Errorf("got %v", got.Object)
	}
	c.fails(422, `spec.color: Invalid value: \"blue\": it stays`, "PATCH", at("v1", "balloons", "a"), `{"spec":{"color":"blue"}}`, "Content-Type", mergePatch)
}

func TestCustomSelectableFields(t *testing.T) {
	c := balloon(t)
	c.must("POST", at("v1", "balloons", ""), cr("v1", "Balloon", "b", `,"spec":{"color":"blue"}`))
	got := c.must("GET", at("v1", "balloons", "")+"?fieldSelector=spec.color%3Dblue", "")
	if items, _, _ := unstructured.NestedSlice(got.Object, "items"); len(items) != 1 {
		t.Errorf("got %v", got.Object)
	}
	c.fails(400, `field label not supported: spec.count`, "GET", at("v1", "balloons", "")+"?fieldSelector=spec.count%3D1", "")
	c.define("plains", definition("plains", "Plain", ""))
	c.fails(400, `field label not supported: spec.count`, "GET", at("v1", "plains", "")+"?fieldSelector=spec.count%3D1", "")
}

// TestCustomAdmission runs a webhook and a policy on custom resources. Fields that the webhook adds and the schema does
// not have are pruned.
func TestCustomAdmission(t *testing.T) {
	c, h := balloon(t), newHooks(t)
	admin := kubernetes.NewForConfigOrDie(c.env.AdminConfig)
	h.serve["/paint"] = func(r *reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse {
		return patch(`[{"op":"add","path":"/spec/count","value":2},{"op":"add","path":"/spec/odd","value":1},{"op":"add","path":"/metadata/labels","value":{"by":"hook"}}]`)
	}
	addMutating(t, admin, "paint", admissionv1.MutatingWebhook{Name: "paint.example.com", Rules: on("balloons", "CREATE"), ClientConfig: h.config("/paint")})
	got := c.must("POST", at("v1", "balloons", ""), cr("v1", "Balloon", "b", `,"spec":{"color":"red"}`))
	if specOf(got, "count") != float64(2) || specOf(got, "odd") != nil || got.GetLabels()["by"] != "hook" {
		t.Errorf("made %v", got.Object)
	}
	if reviewed := string(h.last(t, "/paint").Object.Raw); !strings.Contains(reviewed, `"apiVersion":"example.com/v1"`) || !strings.Contains(reviewed, `"color":"red"`) {
		t.Errorf("reviewed %s", reviewed)
	}
}

// TestCustomPolicy runs validating and mutating policies on custom resources, one of which is their parameter.
func TestCustomPolicy(t *testing.T) {
	c := balloon(t)
	a := kubernetes.NewForConfigOrDie(c.env.AdminConfig).AdmissionregistrationV1()
	c.must("POST", at("v1", "balloons", ""), cr("v1", "Balloon", "limits", `,"spec":{"color":"red","count":3}`))
	change := &admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "change"}, Spec: admissionv1.MutatingAdmissionPolicySpec{
		MatchConstraints: matchResources("balloons", "*"), ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
		Mutations: []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeApplyConfiguration, ApplyConfiguration: &admissionv1.ApplyConfiguration{
			Expression: `Object{spec: Object.spec{color: "green"}}`}}}}}
	if _, err := a.MutatingAdmissionPolicies().Create(t.Context(), change, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.MutatingAdmissionPolicyBindings().Create(t.Context(), &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "change"},
		Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "change"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	check := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "check"}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: matchResources("balloons", "*"), ParamKind: &admissionv1.ParamKind{APIVersion: "example.com/v1", Kind: "Balloon"},
		Validations: []admissionv1.Validation{{Expression: "object.spec.count <= params.spec.count && object.spec.color == 'green'"}}}}
	if _, err := a.ValidatingAdmissionPolicies().Create(t.Context(), check, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "check", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		ParamRef: &admissionv1.ParamRef{Name: "limits", Namespace: "default", ParameterNotFoundAction: new(admissionv1.DenyAction)}}
	if _, err := a.ValidatingAdmissionPolicyBindings().Create(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "check"}, Spec: binding}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := c.must("POST", at("v1", "balloons", ""), cr("v1", "Balloon", "b", `,"spec":{"color":"red","count":3}`)); specOf(got, "color") != "green" {
		t.Errorf("made %v", got.Object)
	}
	c.fails(422, `ValidatingAdmissionPolicy 'check' with binding 'check' denied request: failed expression`,
		"POST", at("v1", "balloons", ""), cr("v1", "Balloon", "c", `,"spec":{"count":4}`))
}
