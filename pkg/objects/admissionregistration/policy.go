package admissionregistration

import (
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
)

// ValidatingAdmissionPolicies is the row of ValidatingAdmissionPolicy.
var ValidatingAdmissionPolicies = objects.Def[*admissionv1.ValidatingAdmissionPolicy]{
	Names:   names("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
	New:     func() *admissionv1.ValidatingAdmissionPolicy { return &admissionv1.ValidatingAdmissionPolicy{} },
	NewList: func() runtime.Object { return &admissionv1.ValidatingAdmissionPolicyList{} },
	Default: func(p *admissionv1.ValidatingAdmissionPolicy) {
		orDefault(&p.Spec.FailurePolicy, admissionv1.Fail)
		defaultMatch(p.Spec.MatchConstraints)
	},
	Prepare: func(p, old *admissionv1.ValidatingAdmissionPolicy) {
		if old == nil {
			p.Status, p.Generation = admissionv1.ValidatingAdmissionPolicyStatus{}, 1
			return
		}
		p.Status = old.Status
		check.Generation(p, old, func() bool { return !equality.Semantic.DeepEqual(p.Spec, old.Spec) })
	},
	Validate:     validateValidatingPolicy,
	Warnings:     nameWarnings[*admissionv1.ValidatingAdmissionPolicy],
	NeedsVersion: true,
	Columns: []objects.Column[*admissionv1.ValidatingAdmissionPolicy]{
		objects.NameColumn[*admissionv1.ValidatingAdmissionPolicy](),
		{Name: "Validations", Type: "integer", Description: "Validations indicates the number of validation rules defined in this configuration",
			Cell: func(p *admissionv1.ValidatingAdmissionPolicy, _ time.Time) any { return int64(len(p.Spec.Validations)) }},
		{Name: "ParamKind", Description: paramKindDoc,
			Cell: func(p *admissionv1.ValidatingAdmissionPolicy, _ time.Time) any { return shownKind(p.Spec.ParamKind) }},
		objects.AgeColumn[*admissionv1.ValidatingAdmissionPolicy](),
	},
	Reset: []string{"status"},
	Status: &objects.Status[*admissionv1.ValidatingAdmissionPolicy]{
		Prepare: func(p, old *admissionv1.ValidatingAdmissionPolicy) {
			p.Spec = old.Spec
			metav1.ResetObjectMetaForStatus(p, old)
		},
		Validate: validateValidatingStatus,
		Reset:    []string{"metadata", "spec"},
	},
}

// ValidatingAdmissionPolicyBindings is the row of ValidatingAdmissionPolicyBinding.
var ValidatingAdmissionPolicyBindings = objects.Def[*admissionv1.ValidatingAdmissionPolicyBinding]{
	Names: names("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
	New: func() *admissionv1.ValidatingAdmissionPolicyBinding {
		return &admissionv1.ValidatingAdmissionPolicyBinding{}
	},
	NewList: func() runtime.Object { return &admissionv1.ValidatingAdmissionPolicyBindingList{} },
	Default: func(b *admissionv1.ValidatingAdmissionPolicyBinding) {
		defaultMatch(b.Spec.MatchResources)
	},
	Prepare: func(b, old *admissionv1.ValidatingAdmissionPolicyBinding) {
		if old == nil {
			b.Generation = 1
			return
		}
		check.Generation(b, old, func() bool { return !equality.Semantic.DeepEqual(b.Spec, old.Spec) })
	},
	Validate:     validateValidatingBinding,
	Warnings:     nameWarnings[*admissionv1.ValidatingAdmissionPolicyBinding],
	NeedsVersion: true,
	Columns: []objects.Column[*admissionv1.ValidatingAdmissionPolicyBinding]{
		objects.NameColumn[*admissionv1.ValidatingAdmissionPolicyBinding](),
		{Name: "PolicyName", Description: "PolicyName indicates the policy definition which the policy binding binded to",
			Cell: func(b *admissionv1.ValidatingAdmissionPolicyBinding, _ time.Time) any { return b.Spec.PolicyName }},
		{Name: "ParamRef", Description: "ParamRef indicates the param resource which sets the configuration param",
			Cell: func(b *admissionv1.ValidatingAdmissionPolicyBinding, _ time.Time) any {
				return shownParam(b.Spec.ParamRef)
			}},
		objects.AgeColumn[*admissionv1.ValidatingAdmissionPolicyBinding](),
	},
}

// MutatingAdmissionPolicies is the row of MutatingAdmissionPolicy.
var MutatingAdmissionPolicies = objects.Def[*admissionv1.MutatingAdmissionPolicy]{
	Names:   mutatingNames("MutatingAdmissionPolicy", "mutatingadmissionpolicies"),
	New:     func() *admissionv1.MutatingAdmissionPolicy { return &admissionv1.MutatingAdmissionPolicy{} },
	NewList: func() runtime.Object { return &admissionv1.MutatingAdmissionPolicyList{} },
	Default: func(p *admissionv1.MutatingAdmissionPolicy) {
		orDefault(&p.Spec.FailurePolicy, admissionv1.Fail)
		defaultMatch(p.Spec.MatchConstraints)
	},
	Prepare: func(p, old *admissionv1.MutatingAdmissionPolicy) {
		if old == nil {
			p.Generation = 1
			return
		}
		check.Generation(p, old, func() bool { return !equality.Semantic.DeepEqual(p.Spec, old.Spec) })
	},
	Validate:     validateMutatingPolicy,
	Warnings:     nameWarnings[*admissionv1.MutatingAdmissionPolicy],
	NeedsVersion: true,
	Columns: []objects.Column[*admissionv1.MutatingAdmissionPolicy]{
		objects.NameColumn[*admissionv1.MutatingAdmissionPolicy](),
		{Name: "Mutations", Type: "integer", Description: "Mutation indicates the number of mutations rules defined in this configuration",
			Cell: func(p *admissionv1.MutatingAdmissionPolicy, _ time.Time) any { return int64(len(p.Spec.Mutations)) }},
		{Name: "ParamKind", Description: paramKindDoc,
			Cell: func(p *admissionv1.MutatingAdmissionPolicy, _ time.Time) any { return shownKind(p.Spec.ParamKind) }},
		objects.AgeColumn[*admissionv1.MutatingAdmissionPolicy](),
	},
}

// MutatingAdmissionPolicyBindings is the row of MutatingAdmissionPolicyBinding.
var MutatingAdmissionPolicyBindings = objects.Def[*admissionv1.MutatingAdmissionPolicyBinding]{
	Names: mutatingNames("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings"),
	New: func() *admissionv1.MutatingAdmissionPolicyBinding {
		return &admissionv1.MutatingAdmissionPolicyBinding{}
	},
	NewList: func() runtime.Object { return &admissionv1.MutatingAdmissionPolicyBindingList{} },
	Default: func(b *admissionv1.MutatingAdmissionPolicyBinding) {
		defaultMatch(b.Spec.MatchResources)
	},
	Prepare: func(b, old *admissionv1.MutatingAdmissionPolicyBinding) {
		if old == nil {
			b.Generation = 1
			return
		}
		check.Generation(b, old, func() bool { return !equality.Semantic.DeepEqual(b.Spec, old.Spec) })
	},
	Validate:     validateMutatingBinding,
	Warnings:     nameWarnings[*admissionv1.MutatingAdmissionPolicyBinding],
	NeedsVersion: true,
	Columns: []objects.Column[*admissionv1.MutatingAdmissionPolicyBinding]{
		objects.NameColumn[*admissionv1.MutatingAdmissionPolicyBinding](),
		{Name: "PolicyName", Description: "PolicyName indicates the policy definition which the policy binding binded to",
			Cell: func(b *admissionv1.MutatingAdmissionPolicyBinding, _ time.Time) any { return b.Spec.PolicyName }},
		{Name: "ParamRef", Description: "ParamRef indicates the param resource which sets the configuration param",
			Cell: func(b *admissionv1.MutatingAdmissionPolicyBinding, _ time.Time) any {
				return shownParam(b.Spec.ParamRef)
			}},
		objects.AgeColumn[*admissionv1.MutatingAdmissionPolicyBinding](),
	},
}

const paramKindDoc = "ParamKind specifies the kind of resources used to parameterize this policy"

func defaultMatch(m *admissionv1.MatchResources) {
	if m == nil {
		return
	}
	orDefault(&m.MatchPolicy, admissionv1.Equivalent)
	orDefault(&m.NamespaceSelector, metav1.LabelSelector{})
	orDefault(&m.ObjectSelector, metav1.LabelSelector{})
	for _, rules := range [][]admissionv1.NamedRuleWithOperations{m.ResourceRules, m.ExcludeResourceRules} {
		for i := range rules {
			orDefault(&rules[i].Scope, admissionv1.AllScopes)
		}
	}
}

func shownKind(k *admissionv1.ParamKind) string {
	if k == nil {
		return "<unset>"
	}
	return k.APIVersion + "/" + k.Kind
}

// shownParam formats the name or the selector of the parameters. Whether they are namespaced is not known here.
func shownParam(p *admissionv1.ParamRef) string {
	switch {
	case p == nil:
	case p.Name != "" && p.Namespace != "":
		return p.Namespace + "/" + p.Name
	case p.Name != "":
		return "*/" + p.Name
	case p.Selector != nil:
		return p.Selector.String()
	}
	return "<unset>"
}
