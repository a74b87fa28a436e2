package apiserver_test

import (
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

func matchResources(resource string, ops ...admissionv1.OperationType) *admissionv1.MatchResources {
	return &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: on(resource, ops...)[0]}}}
}

func data(pairs ...string) *corev1.ConfigMap {
	m := newMap("m")
	m.Data = map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m.Data[pairs[i]] = pairs[i+1]
	}
	return m
}

func TestValidatingPolicies(t *testing.T) {
	e := apiservertest.New(t)
	warnings := &warningLog{}
	cfg := rest.CopyConfig(e.AdminConfig)
	cfg.WarningHandler = warnings
	c := kubernetes.NewForConfigOrDie(cfg)
	a := c.AdmissionregistrationV1()
	limits := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "limits", Labels: map[string]string{"limits": "yes"}}, Data: map[string]string{"max": "2"}}
	if _, err := c.CoreV1().ConfigMaps("kube-system").Create(t.Context(), limits, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	forbidden := metav1.StatusReasonForbidden
	params := &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
	byName := &admissionv1.ParamRef{Name: "limits", Namespace: "kube-system", ParameterNotFoundAction: new(admissionv1.DenyAction)}
	deny := []admissionv1.ValidationAction{admissionv1.Deny}
	const denied = `configmaps "m" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: `
	for name, s := range map[string]struct {
		policy  admissionv1.ValidatingAdmissionPolicySpec
		binding admissionv1.ValidatingAdmissionPolicyBindingSpec
		obj     *corev1.ConfigMap
		want    string
		code    int32
		warns   string
	}{
		"holds": {admissionv1.ValidatingAdmissionPolicySpec{MatchConstraints: matchResources("configmaps", "*"), Validations: []admissionv1.Validation{{Expression: "object.metadata.name == 'm'"}}},
			admissionv1.ValidatingAdmissionPolicyBindingSpec{ValidationActions: deny}, data(), "", 0, ""},
		"does not": {admissionv1.ValidatingAdmissionPolicySpec{MatchConstraints: matchResources("configmaps", "*"), Validations: []admissionv1.Validation{{Expression: "object.metadata.name == 'x'"}}},
			admissionv1.ValidatingAdmissionPolicyBindingSpec{ValidationActions: deny}, data(), denied + "failed expression: object.metadata.name == 'x'", 422, ""},
		"a message and a reason": {admissionv1.ValidatingAdmissionPolicySpec{MatchConstraints: matchResources("configmaps", "*"), Validations: []admissionv1.Validation{{Expression: "false", Message: "never", Reason: &forbidden}}},
			admissionv1.ValidatingAdmissionPolicyBindingSpec{ValidationActions: deny}, data(), denied + "never", 403, ""},
		"variables and a message of them": {admissionv1.ValidatingAdmissionPolicySpec{MatchConstraints: matchResources("configmaps", "*"),
			Variables:   []admissionv1.Variable{{Name: "keys", Expression: "object.?data.orValue({}).map(k, k)"}, {Name: "count", Expression: "size(variables.keys)"}},
			Validations: []admissionv1.Validation{{Expression: "variables.count < 2", MessageExpression: "'has ' + string(variables.count) + ' in ' + namespaceObject.metadata.name"}}},
			admissionv1.ValidatingAdmissionPolicyBindingSpec{ValidationActions: deny}, data("a", "1", "b", "2"), denied + "has 2 in default", 422, ""},
		"parameters": {admissionv1.ValidatingAdmissionPolicySpec{ParamKind: params, MatchConstraints: matchResources("configmaps", "*"), Validations: []admissionv1.Validation{{Expression: "size(object.data) <= int(params.data.max)", MessageExpression: "'at most ' + params.data.max"}}},
			admissionv1.ValidatingAdmissionPolicyBindingSpec{ParamRef: byName, ValidationActions: deny}, data("a", "1", "b", "2", "c", "3"), denied + "at most 2", 422, ""},
		"parameters by labels": {admissionv1.ValidatingAdmissionPolicySpec{ParamKind: params, MatchConstraints: matchResources("configmaps", "*"), Validations: []admissionv1.Validation{{Expression: "size(object.data) <= int(params.data.max)"}}},
			admissionv1.ValidatingAdmissionPolicyBindingSpec{ParamRef: &admissionv1.ParamRef{Namespace: "kube-system", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"limits": "yes"}}, ParameterNotFoundAction: new(admissionv1.DenyAction)}, ValidationActions: deny}, data("a", "1"), "", 0, ""},
		"no parameters": {admissionv1.ValidatingAdmissionPolicySpec{ParamKind: params, MatchConstraints: matchResources("configmaps", "*"), Validations: []admissionv1.Validation{{Expression: "true"}}},
			admissionv1.ValidatingAdmissionPolicyBindingSpec{ParamRef: &admissionv1.ParamRef{Name: "none", ParameterNotFoundAction: new(admissionv1.DenyAction)}, ValidationActions: deny}, data(), denied + "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction", 422, ""},
		"unknown kind": {admissionv1.ValidatingAdmissionPolicySpec{ParamKind: &admissionv1.ParamKind{APIVersion: "x.io/v1", Kind: "X"}, MatchConstraints: matchResources("configmaps", "*"), Validations: []admissionv1.Validation{{Expression: "true"}}},
			admissionv1.ValidatingAdmissionPolicyBindingSpec{ParamRef: byName, ValidationActions: deny}, data(),
			`configmaps "m" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed to find resource referenced by paramKind: 'x.io/v1, Kind=X'`, 422, ""},
		"an error": {admissionv1.ValidatingAdmissionPolicySpec{MatchConstraints: matchResources("configmaps", "*"), Validations: []admissionv1.Validation{{Expression: "object.none == 1"}}},
			admissionv1.ValidatingAdmissionPolicyBindingSpec{ValidationActions: deny}, data(), denied + "expression 'object.none == 1' resulted in error: no such key: none", 422, ""},
		"an error ignored": {admissionv1.ValidatingAdmissionPolicySpec{FailurePolicy: new(admissionv1.Ignore), MatchConstraints: matchResources("configmaps", "*"), Validations: []admissionv1.Validation{{Expression: "object.none == 1"}}},
			admissionv1.ValidatingAdmissionPolicyBindingSpec{ValidationActions: deny}, data(), "", 0, ""},
		"a condition": {admissionv1.ValidatingAdmissionPolicySpec{MatchConstraints: matchResources("configmaps", "*"), MatchConditions: []admissionv1.MatchCondition{{Name: "c", Expression: "request.operation == 'DELETE'"}}, Validations: []admissionv1.Validation{{Expression: "false"}}},
			admissionv1.ValidatingAdmissionPolicyBindingSpec{ValidationActions: deny}, data(), "", 0, ""},
		"warn": {admissionv1.ValidatingAdmissionPolicySpec{MatchConstraints: matchResources("configmaps", "*"), Validations: []admissionv1.Validation{{Expression: "false", Message: "careful"}}},
			admissionv1.ValidatingAdmissionPolicyBindingSpec{ValidationActions: []admissionv1.ValidationAction{admissionv1.Warn, admissionv1.Audit}}, data(), "", 0,
			"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': careful"},
		"the authorizer": {admissionv1.ValidatingAdmissionPolicySpec{MatchConstraints: matchResources("configmaps", "*"), Validations: []admissionv1.Validation{{Expression: "authorizer.requestResource.check('delete').allowed()"}}},
			admissionv1.ValidatingAdmissionPolicyBindingSpec{ValidationActions: deny}, data(), "", 0, ""},
		"a binding for others": {admissionv1.ValidatingAdmissionPolicySpec{MatchConstraints: matchResources("configmaps", "*"), Validations: []admissionv1.Validation{{Expression: "false"}}},
			admissionv1.ValidatingAdmissionPolicyBindingSpec{ValidationActions: deny, MatchResources: &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}}, data(), "", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s.binding.PolicyName = "p"
			if _, err := a.ValidatingAdmissionPolicies().Create(t.Context(), &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: s.policy}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := a.ValidatingAdmissionPolicyBindings().Create(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: s.binding}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			_, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), s.obj, metav1.CreateOptions{DryRun: []string{"All"}})
			if s.want == "" && err != nil || s.want != "" && (err == nil || err.Error() != s.want) {
				t.Errorf("got  %v\nwant %s", err, s.want)
			}
			if status, ok := err.(apierrors.APIStatus); ok && status.Status().Code != s.code { //nolint:errorlint // client-go's are never wrapped
				t.Errorf("code %d, want %d", status.Status().Code, s.code)
			}
			if s.warns != "" && !slices.Contains(warnings.text, s.warns) {
				t.Errorf("warnings are %q", warnings.text)
			}
			if err := a.ValidatingAdmissionPolicies().Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := a.ValidatingAdmissionPolicyBindings().Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestPolicyExpressionsAreCompiled(t *testing.T) {
	c := kubernetes.NewForConfigOrDie(apiservertest.New(t).AdminConfig)
	p := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: matchResources("configmaps", "*"), Validations: []admissionv1.Validation{{Expression: "object.x +"}, {Expression: "1"}}}}
	_, err := c.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(t.Context(), p, metav1.CreateOptions{})
	status, ok := err.(apierrors.APIStatus) //nolint:errorlint // client-go's are never wrapped
	if !ok {
		t.Fatal(err)
	}
	var got []string
	for _, cause := range status.Status().Details.Causes {
		got = append(got, cause.Field+": "+cause.Message)
	}
	want := []string{
		"spec.validations[0].expression: Invalid value: \"object.x +\": compilation failed: ERROR: <input>:1:11: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | object.x +\n | ..........^",
		`spec.validations[1].expression: Invalid value: "1": must evaluate to bool but got int`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestMutatingPolicies(t *testing.T) {
	c := kubernetes.NewForConfigOrDie(apiservertest.New(t).AdminConfig)
	a := c.AdmissionregistrationV1()
	add := func(name string, mutations ...admissionv1.Mutation) {
		t.Helper()
		p := &admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.MutatingAdmissionPolicySpec{
			MatchConstraints: matchResources("configmaps", "CREATE"), Mutations: mutations, ReinvocationPolicy: admissionv1.IfNeededReinvocationPolicy,
			Variables:       []admissionv1.Variable{{Name: "who", Expression: "request.userInfo.username"}},
			MatchConditions: []admissionv1.MatchCondition{{Name: "name", Expression: "object.metadata.name.startsWith('" + name + "')"}}}}
		if _, err := a.MutatingAdmissionPolicies().Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		b := &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name}}
		if _, err := a.MutatingAdmissionPolicyBindings().Create(t.Context(), b, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	add("apply", admissionv1.Mutation{PatchType: admissionv1.PatchTypeApplyConfiguration, ApplyConfiguration: &admissionv1.ApplyConfiguration{
		Expression: `Object{metadata: Object.metadata{labels: {"by": variables.who}}}`}})
	add("patch", admissionv1.Mutation{PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{
		Expression: `[JSONPatch{op: "add", path: "/data", value: {"a": "1"}}, JSONPatch{op: "add", path: "/metadata/annotations", value: {}}, JSONPatch{op: "add", path: "/metadata/annotations/" + jsonpatch.escapeKey("x/y"), value: "2"}]`}})
	add("broken", admissionv1.Mutation{PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{
		Expression: `[JSONPatch{op: "add", path: "/none/of/it", value: "2"}]`}})
	create := func(name string) (*corev1.ConfigMap, error) {
		return c.CoreV1().ConfigMaps("default").Create(t.Context(), newMap(name), metav1.CreateOptions{})
	}
	if m, err := create("apply"); err != nil || m.Labels["by"] != "admin" {
		t.Errorf("%v: labels are %v", err, m.Labels)
	}
	if m, err := create("patch"); err != nil || m.Data["a"] != "1" || m.Annotations["x/y"] != "2" {
		t.Errorf("%v: data is %v, annotations are %v", err, m.Data, m.Annotations)
	}
	if _, err := create("broken"); err == nil || !apierrors.IsInvalid(err) {
		t.Errorf("a patch that cannot be applied: %v", err)
	}
	if _, err := create("other"); err != nil {
		t.Error(err)
	}
}
