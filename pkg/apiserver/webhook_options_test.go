package apiserver_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

// TestReviewHasRequestOptions: an AdmissionReview has the options of the request unchanged, for each verb.
func TestReviewHasRequestOptions(t *testing.T) {
	e, h := apiservertest.New(t), newHooks(t)
	c := kubernetes.NewForConfigOrDie(e.AdminConfig)
	maps := c.CoreV1().ConfigMaps("default")
	h.serve["/all"] = allow
	addValidating(t, c, "all", admissionv1.ValidatingWebhook{Name: "all.example.com", ClientConfig: h.config("/all"), Rules: on("configmaps", "*")})
	type options map[string]any
	of := func(kind string, more options) options {
		out := options{"apiVersion": "meta.k8s.io/v1", "kind": kind}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	strict := options{"fieldManager": "me", "fieldValidation": "Strict", "dryRun": []any{"All"}}
	for _, step := range []struct {
		name string
		do   func() error
		want options
	}{
		{"a create with nothing", func() error { _, err := maps.Create(t.Context(), newMap("m"), metav1.CreateOptions{}); return err }, of("CreateOptions", nil)},
		{"a create with all", func() error {
			_, err := maps.Create(t.Context(), newMap("n"), metav1.CreateOptions{FieldManager: "me", FieldValidation: "Strict", DryRun: []string{"All"}})
			return err
		}, of("CreateOptions", strict)},
		{"an update", func() error {
			_, err := maps.Update(t.Context(), newMap("m"), metav1.UpdateOptions{FieldManager: "me", FieldValidation: "Strict", DryRun: []string{"All"}})
			return err
		}, of("UpdateOptions", strict)},
		{"a patch", func() error {
			_, err := maps.Patch(t.Context(), "m", types.MergePatchType, []byte(`{"data":{"a":"b"}}`), metav1.PatchOptions{FieldValidation: "Ignore"})
			return err
		}, of("UpdateOptions", options{"fieldValidation": "Ignore"})},
		{"an apply to nothing", func() error {
			_, err := maps.Patch(t.Context(), "o", types.ApplyPatchType, []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"o"}}`), metav1.PatchOptions{FieldManager: "me"})
			return err
		}, of("CreateOptions", options{"fieldManager": "me"})},
		{"a delete", func() error {
			return maps.Delete(t.Context(), "o", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
		}, of("DeleteOptions", options{"propagationPolicy": "Background"})},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		var got options
		if err := json.Unmarshal(h.last(t, "/all").Options.Raw, &got); err != nil || !reflect.DeepEqual(got, step.want) {
			t.Errorf("%s: %v: got %v, want %v", step.name, err, got, step.want)
		}
	}
}

// TestReviewsOfDeleteCollection: the review of a deletecollection has no name, although there is one review for each
// object.
func TestReviewsOfDeleteCollection(t *testing.T) {
	e, h := apiservertest.New(t), newHooks(t)
	c := kubernetes.NewForConfigOrDie(e.AdminConfig)
	maps := c.CoreV1().ConfigMaps("default")
	h.serve["/all"] = allow
	addValidating(t, c, "all", admissionv1.ValidatingWebhook{Name: "all.example.com", ClientConfig: h.config("/all"), Rules: on("configmaps", "DELETE"),
		MatchConditions: []admissionv1.MatchCondition{{Name: "nameless", Expression: "!has(request.name)"}}})
	for _, name := range []string{"a", "b"} {
		if _, err := maps.Create(t.Context(), newMap(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := maps.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := h.calls("/all"); n != 2 {
		t.Errorf("called %d times", n)
	}
	if r := h.last(t, "/all"); r.Name != "" || r.Namespace != "default" || !strings.Contains(string(r.OldObject.Raw), `"name":"`) {
		t.Errorf("the review is %+v", r)
	}
}
