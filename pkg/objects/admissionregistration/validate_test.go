package admissionregistration

import (
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func webhook(change func(*admissionv1.MutatingWebhook)) *admissionv1.MutatingWebhookConfiguration {
	w := admissionv1.MutatingWebhook{Name: "w.example.com", SideEffects: new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		ClientConfig: admissionv1.WebhookClientConfig{URL: new("https://example.com/hook")}, Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{"CREATE"}, Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}}}}
	if change != nil {
		change(&w)
	}
	c := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Webhooks: []admissionv1.MutatingWebhook{w}}
	MutatingWebhookConfigurations.Default(c)
	return c
}

func TestWebhooks(t *testing.T) {
	service := func(name, namespace, path string, port int32) func(*admissionv1.MutatingWebhook) {
		return func(w *admissionv1.MutatingWebhook) {
			w.ClientConfig = admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Name: name, Namespace: namespace, Path: &path, Port: &port}}
		}
	}
	resources := func(all ...string) func(*admissionv1.MutatingWebhook) {
		return func(w *admissionv1.MutatingWebhook) { w.Rules[0].Resources = all }
	}
	for name, c := range map[string]struct {
		change func(*admissionv1.MutatingWebhook)
		want   string
	}{
		"valid":          {nil, ""},
		"name":           {func(w *admissionv1.MutatingWebhook) { w.Name = "w" }, `webhooks[0].name: Invalid value: "w": should be a domain with at least three segments separated by dots`},
		"no effects":     {func(w *admissionv1.MutatingWebhook) { w.SideEffects = nil }, "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun"},
		"side effects":   {func(w *admissionv1.MutatingWebhook) { w.SideEffects = new(admissionv1.SideEffectClassSome) }, `webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"`},
		"timeout":        {func(w *admissionv1.MutatingWebhook) { w.TimeoutSeconds = new(int32(31)) }, "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds"},
		"no versions":    {func(w *admissionv1.MutatingWebhook) { w.AdmissionReviewVersions = nil }, "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1"},
		"other versions": {func(w *admissionv1.MutatingWebhook) { w.AdmissionReviewVersions = []string{"v2"} }, `webhooks[0].admissionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1`},
		"no config":      {func(w *admissionv1.MutatingWebhook) { w.ClientConfig = admissionv1.WebhookClientConfig{} }, "webhooks[0].clientConfig: Required value: exactly one of url or service is required"},
		"http":           {func(w *admissionv1.MutatingWebhook) { w.ClientConfig.URL = new("http://x/y") }, `webhooks[0].clientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]`},
		"query":          {func(w *admissionv1.MutatingWebhook) { w.ClientConfig.URL = new("https://x/y?a=b") }, `webhooks[0].clientConfig.url: Invalid value: "a=b": query parameters are not permitted in the URL`},
		"no namespace":   {service("s", "", "/x", 443), `webhooks[0].clientConfig.service.name: Required value`},
		"port":           {service("s", "n", "/x", 0), `webhooks[0].clientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive`},
		"path":           {service("s", "n", "x//y", 1), `[webhooks[0].clientConfig.service.path: Invalid value: "x//y": must start with a '/', webhooks[0].clientConfig.service.path: Invalid value: "x//y": segment[0] may not be empty, webhooks[0].clientConfig.service.path: Invalid value: "x//y": segment[1] may not be empty]`},
		"subresources":   {resources("pods/*", "pods/status"), `webhooks[0].rules[0].resources[1]: Invalid value: "pods/status": if 'pods/*' is present, must not specify pods/status`},
		"everything":     {resources("*/*", "pods"), `webhooks[0].rules[0].resources: Invalid value: ["*/*","pods"]: if '*/*' is present, must not specify other resources`},
		"star":           {resources("*", "pods"), `webhooks[0].rules[0].resources: Invalid value: ["*","pods"]: if '*' is present, must not specify other resources without subresources`},
		"operation":      {func(w *admissionv1.MutatingWebhook) { w.Rules[0].Operations = []admissionv1.OperationType{"PATCH"} }, `webhooks[0].rules[0].operations[0]: Unsupported value: "PATCH": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"`},
		"condition": {func(w *admissionv1.MutatingWebhook) {
			w.MatchConditions = []admissionv1.MatchCondition{{Name: "a", Expression: "1 + 1"}}
		}, `webhooks[0].matchConditions[0].expression: Invalid value: "1 + 1": must evaluate to bool but got int`},
		"condition of params": {func(w *admissionv1.MutatingWebhook) {
			w.MatchConditions = []admissionv1.MatchCondition{{Name: "", Expression: " "}}
		}, "[webhooks[0].matchConditions[0].expression: Required value, webhooks[0].matchConditions[0].name: Required value]"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := webhook(c.change)
			got := ""
			if errs := validateMutating(cfg, nil); len(errs) > 0 {
				got = errs.ToAggregate().Error()
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestRatcheting checks that an update may keep the fields of the old configuration that are invalid.
func TestRatcheting(t *testing.T) {
	old := webhook(func(w *admissionv1.MutatingWebhook) {
		w.SideEffects, w.AdmissionReviewVersions = new(admissionv1.SideEffectClassSome), []string{"v2"}
		w.MatchConditions = []admissionv1.MatchCondition{{Name: "a", Expression: "1"}}
	})
	if errs := validateMutating(old, old); len(errs) > 0 {
		t.Errorf("as it was: %v", errs)
	}
	touched := old.DeepCopy()
	touched.Webhooks[0].MatchConditions[0].Expression = "2"
	if errs := validateMutating(touched, old); len(errs) != 1 {
		t.Errorf("touched: %v", errs)
	}
}

func TestMutations(t *testing.T) {
	for name, c := range map[string]struct {
		mutation admissionv1.Mutation
		want     string
	}{
		"apply": {admissionv1.Mutation{PatchType: "ApplyConfiguration", ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: "Object{}"}}, ""},
		"patch": {admissionv1.Mutation{PatchType: "JSONPatch", JSONPatch: &admissionv1.JSONPatch{Expression: `[JSONPatch{op: "remove", path: "/data"}]`}}, ""},
		"apply makes a patch": {admissionv1.Mutation{PatchType: "ApplyConfiguration", ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: "[JSONPatch{}]"}},
			`spec.mutations[0].applyConfiguration.expression: Invalid value: "[JSONPatch{}]": must evaluate to Object but got list(JSONPatch)`},
		"no type": {admissionv1.Mutation{}, "spec.mutations[0].patchType: Required value"},
		"a type":  {admissionv1.Mutation{PatchType: "Merge"}, `spec.mutations[0].patchType: Unsupported value: "Merge": supported values: "ApplyConfiguration", "JSONPatch"`},
	} {
		t.Run(name, func(t *testing.T) {
			p := &admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: admissionv1.MutatingAdmissionPolicySpec{
				ReinvocationPolicy: admissionv1.NeverReinvocationPolicy, Mutations: []admissionv1.Mutation{c.mutation},
				MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: webhook(nil).Webhooks[0].Rules[0]}}}}}
			MutatingAdmissionPolicies.Default(p)
			got := ""
			if errs := validateMutatingPolicy(p, nil); len(errs) > 0 {
				got = errs.ToAggregate().Error()
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestExpressionsWork checks that only so many expressions of an object are compiled, wherever they are.
func TestExpressionsWork(t *testing.T) {
	long := "'" + strings.Repeat("a", 90<<10) + "' != 'b'"
	rule := admissionv1.NamedRuleWithOperations{RuleWithOperations: webhook(nil).Webhooks[0].Rules[0]}
	matched := &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{rule}}
	validating := func(n int) field.ErrorList {
		p := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: matched, Variables: []admissionv1.Variable{{Name: "v", Expression: long}}}}
		for range n - 1 {
			p.Spec.Validations = append(p.Spec.Validations, admissionv1.Validation{Expression: long})
		}
		ValidatingAdmissionPolicies.Default(p)
		return validateValidatingPolicy(p, nil)
	}
	mutating := func(n int) field.ErrorList {
		p := &admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: admissionv1.MutatingAdmissionPolicySpec{
			ReinvocationPolicy: admissionv1.NeverReinvocationPolicy, MatchConstraints: matched}}
		for range n {
			p.Spec.Mutations = append(p.Spec.Mutations, admissionv1.Mutation{PatchType: "JSONPatch",
				JSONPatch: &admissionv1.JSONPatch{Expression: long + " ? [JSONPatch{}] : []"}})
		}
		MutatingAdmissionPolicies.Default(p)
		return validateMutatingPolicy(p, nil)
	}
	webhooks := func(n int) field.ErrorList {
		return validateMutating(webhook(func(w *admissionv1.MutatingWebhook) {
			for i := range n {
				w.MatchConditions = append(w.MatchConditions, admissionv1.MatchCondition{Name: fmt.Sprint("c", i), Expression: long})
			}
		}), nil)
	}
	for name, validate := range map[string]func(int) field.ErrorList{"validating": validating, "mutating": mutating, "webhook": webhooks} {
		if errs := validate(2); len(errs) > 0 {
			t.Errorf("%s, 2 expressions: %.300v", name, errs.ToAggregate())
		}
		if errs := validate(4); len(errs) != 1 || !strings.Contains(errs[0].Detail, "take too long to compile") {
			t.Errorf("%s, 4 expressions: %.300v", name, errs.ToAggregate())
		}
	}
}
