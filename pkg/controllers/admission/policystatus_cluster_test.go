package admission_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/controllers/controllertest"
)

var validatingPolicies = admissionv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies")

// ruleFor returns a rule for a resource, given as GROUP/VERSION/RESOURCE.
func ruleFor(what string) admissionv1.NamedRuleWithOperations {
	parts := strings.Split(what, "/")
	return admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.OperationAll},
		Rule: admissionv1.Rule{
			APIGroups: strings.Split(parts[0], ","), APIVersions: strings.Split(parts[1], ","), Resources: []string{strings.Join(parts[2:], "/")},
		},
	}}
}

func policyOn(name string, expression string, what ...string) *admissionv1.ValidatingAdmissionPolicy {
	p := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{}, Validations: []admissionv1.Validation{{Expression: expression}},
		},
	}
	for _, w := range what {
		p.Spec.MatchConstraints.ResourceRules = append(p.Spec.MatchConstraints.ResourceRules, ruleFor(w))
	}
	return p
}

// undefined returns the warning about an undefined field. dots has the length of the expression before it.
func undefined(kind, field, expression, dots string) string {
	return kind + ": ERROR: <input>:1:" + strconv.Itoa(len(dots)+1) + ": undefined field '" + field + "'\n | " + expression + "\n | " + dots + "^\n"
}

func TestPolicyTypes(t *testing.T) {
	c := controllertest.Start(t, clock.Real())
	tests := map[string]struct {
		policy *admissionv1.ValidatingAdmissionPolicy
		change func(*admissionv1.ValidatingAdmissionPolicySpec)
		want   []admissionv1.ExpressionWarning
	}{
		"sound": {policy: policyOn("sound", "object.spec.replicas > 1 && oldObject.metadata.name == request.name", "apps/v1/deployments")},
		"misspelt": {
			policy: policyOn("misspelt", "object.replicas > 1", "apps/v1/deployments"),
			want: []admissionv1.ExpressionWarning{{FieldRef: "spec.validations[0].expression",
				Warning: undefined("apps/v1, Kind=Deployment", "replicas", "object.replicas > 1", "......")}},
		},
		"several": { // one warning for each kind with an error, in the order of kinds
			policy: policyOn("several", "object.spec.replicas > 1", "batch/v1/jobs", "apps/v1/deployments", "/v1/pods"),
			want: []admissionv1.ExpressionWarning{{FieldRef: "spec.validations[0].expression",
				Warning: undefined("/v1, Kind=Pod", "replicas", "object.spec.replicas > 1", "...........") + "\n" +
					undefined("batch/v1, Kind=Job", "replicas", "object.spec.replicas > 1", "...........")}},
		},
		"message": {
			policy: policyOn("message", "object.spec.replicas > 1", "apps/v1/deployments"),
			change: func(s *admissionv1.ValidatingAdmissionPolicySpec) {
				s.Validations[0].MessageExpression = "'not ' + object.nothing"
			},
			want: []admissionv1.ExpressionWarning{{FieldRef: "spec.validations[0].messageExpression",
				Warning: undefined("apps/v1, Kind=Deployment", "nothing", "'not ' + object.nothing", "...............")}},
		},
		"variables": { // the type of a variable is that of its expression if it is simple
			policy: policyOn("variables", "variables.count > 'a' && variables.spec.anything", "apps/v1/deployments"),
			change: func(s *admissionv1.ValidatingAdmissionPolicySpec) {
				s.Variables = []admissionv1.Variable{{Name: "spec", Expression: "object.spec"}, {Name: "count", Expression: "object.spec.replicas"}}
			},
			want: []admissionv1.ExpressionWarning{{FieldRef: "spec.validations[0].expression",
				Warning: "apps/v1, Kind=Deployment: ERROR: <input>:1:17: found no matching overload for '_>_' applied to '(int, string)'\n" +
					" | variables.count > 'a' && variables.spec.anything\n | ................^\n"}},
		},
		"params": {
			policy: policyOn("params", "params.data.x == params.dat", "apps/v1/deployments"),
			change: func(s *admissionv1.ValidatingAdmissionPolicySpec) {
				s.ParamKind = &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
			},
			want: []admissionv1.ExpressionWarning{{FieldRef: "spec.validations[0].expression",
				Warning: undefined("apps/v1, Kind=Deployment", "dat", "params.data.x == params.dat", ".......................")}},
		},
		"unknown params": {
			policy: policyOn("unknown-params", "params.data.x == params.dat", "apps/v1/deployments"),
			change: func(s *admissionv1.ValidatingAdmissionPolicySpec) {
				s.ParamKind = &admissionv1.ParamKind{APIVersion: "x.example.com/v1", Kind: "Nothing"}
			},
		},
		"any group":      {policy: policyOn("any-group", "object.replicas > 1", "*/v1/deployments")},
		"any resource":   {policy: policyOn("any-resource", "object.replicas > 1", "apps/v1/*")},
		"subresource":    {policy: policyOn("subresource", "object.replicas > 1", "apps/v1/deployments/scale")},
		"unserved":       {policy: policyOn("unserved", "object.replicas > 1", "apps/v7/deployments")},
		"of two groups":  {policy: policyOn("of-two-groups", "object.spec.replicas > 1", "apps,x/v1/deployments")},
		"int or string":  {policy: policyOn("int-or-string", "object.spec.ports.all(p, p.targetPort == 1 || p.targetPort == 'a')", "/v1/services")},
		"times and such": {policy: policyOn("times", "object.metadata.creationTimestamp > timestamp('2020-01-01T00:00:00Z')", "/v1/pods")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.change != nil {
				test.change(&test.policy.Spec)
			}
			if got := checked(c, controllertest.Create(c, validatingPolicies, test.policy).Name, 1); !slices.Equal(got, test.want) {
				t.Errorf("got\n%+v\nwant\n%+v", got, test.want)
			}
		})
	}
}

// checked waits for the type checking of a generation of a policy and returns its warnings.
func checked(c *controllertest.Cluster, name string, generation int64) []admissionv1.ExpressionWarning {
	c.Helper()
	var p *admissionv1.ValidatingAdmissionPolicy
	c.Until("the types of "+name+" are checked", func() bool {
		p, _ = controllertest.Get[*admissionv1.ValidatingAdmissionPolicy](c, validatingPolicies, "/"+name)
		return p.Status.ObservedGeneration == generation
	})
	applied := func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == "validatingadmissionpolicy-status" && f.Operation == metav1.ManagedFieldsOperationApply && f.Subresource == "status"
	}
	if !slices.ContainsFunc(p.ManagedFields, applied) {
		c.Errorf("managed fields %+v", p.ManagedFields)
	}
	if p.Status.TypeChecking == nil { // no warnings
		return nil
	}
	return p.Status.TypeChecking.ExpressionWarnings
}

// TestPolicyTypesAgain: a changed policy is type-checked again. The controllers run over HTTP and the type is a custom
// one.
func TestPolicyTypesAgain(t *testing.T) {
	c := controllertest.StartRemote(t)
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	controllertest.Create(c, controller.CustomResourceDefinitions, &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "wheels.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "wheels", Kind: "Wheel"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
					"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"size": text}},
				}},
			}}},
		},
	})
	controllertest.Create(c, validatingPolicies, policyOn("wheels", "object.spec.size > 1", "example.com/v1/wheels"))
	got := checked(c, "wheels", 1)
	const overload = "example.com/v1, Kind=Wheel: ERROR: <input>:1:18: found no matching overload for '_>_' applied to '(string, int)'\n" +
		" | object.spec.size > 1\n | .................^\n"
	if len(got) != 1 || got[0].Warning != overload {
		t.Fatalf("got %+v", got)
	}
	c.Merge(client.Target{Resource: validatingPolicies, Name: "wheels"}, `{"spec":{"validations":[{"expression":"size(object.spec.size) > 1"}]}}`)
	if got := checked(c, "wheels", 2); len(got) > 0 {
		t.Errorf("after the change: %+v", got)
	}
}
