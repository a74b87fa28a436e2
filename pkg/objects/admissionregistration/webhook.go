// Package admissionregistration holds the rows of the group admissionregistration.k8s.io: webhooks and policies with their
// CEL expressions. CEL is initialised with the first expression.
package admissionregistration

import (
	"fmt"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
)

const group = "admissionregistration.k8s.io"

func names(kind, plural string) objects.Names {
	return objects.Names{Group: group, Version: "v1", Kind: kind, Plural: plural, Categories: []string{"api-extensions"}, Cluster: true}
}

// mutatingNames returns the names of a kind that Kubernetes still stores as v1beta1.
func mutatingNames(kind, plural string) objects.Names {
	n := names(kind, plural)
	n.Hashed = "v1beta1"
	return n
}

// ValidatingWebhookConfigurations is the row of ValidatingWebhookConfiguration.
var ValidatingWebhookConfigurations = objects.Def[*admissionv1.ValidatingWebhookConfiguration]{
	Names: names("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
	New: func() *admissionv1.ValidatingWebhookConfiguration {
		return &admissionv1.ValidatingWebhookConfiguration{}
	},
	NewList: func() runtime.Object { return &admissionv1.ValidatingWebhookConfigurationList{} },
	Default: func(c *admissionv1.ValidatingWebhookConfiguration) {
		for i := range c.Webhooks {
			w := &c.Webhooks[i]
			defaultWebhook(hook{config: &w.ClientConfig, rules: w.Rules, failure: &w.FailurePolicy, match: &w.MatchPolicy,
				namespaces: &w.NamespaceSelector, objects: &w.ObjectSelector, timeout: &w.TimeoutSeconds})
		}
	},
	Prepare: func(c, old *admissionv1.ValidatingWebhookConfiguration) {
		if old == nil {
			c.Generation = 1
			return
		}
		check.Generation(c, old, func() bool { return !equality.Semantic.DeepEqual(c.Webhooks, old.Webhooks) })
	},
	Validate:     validateValidating,
	Warnings:     nameWarnings[*admissionv1.ValidatingWebhookConfiguration],
	NeedsVersion: true,
	Columns: []objects.Column[*admissionv1.ValidatingWebhookConfiguration]{
		objects.NameColumn[*admissionv1.ValidatingWebhookConfiguration](),
		{Name: "Webhooks", Type: "integer", Description: webhooksDoc,
			Cell: func(c *admissionv1.ValidatingWebhookConfiguration, _ time.Time) any { return int64(len(c.Webhooks)) }},
		objects.AgeColumn[*admissionv1.ValidatingWebhookConfiguration](),
	},
}

// MutatingWebhookConfigurations is the row of MutatingWebhookConfiguration.
var MutatingWebhookConfigurations = objects.Def[*admissionv1.MutatingWebhookConfiguration]{
	Names:   names("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
	New:     func() *admissionv1.MutatingWebhookConfiguration { return &admissionv1.MutatingWebhookConfiguration{} },
	NewList: func() runtime.Object { return &admissionv1.MutatingWebhookConfigurationList{} },
	Default: func(c *admissionv1.MutatingWebhookConfiguration) {
		for i := range c.Webhooks {
			w := &c.Webhooks[i]
			defaultWebhook(hook{config: &w.ClientConfig, rules: w.Rules, failure: &w.FailurePolicy, match: &w.MatchPolicy,
				namespaces: &w.NamespaceSelector, objects: &w.ObjectSelector, timeout: &w.TimeoutSeconds})
			orDefault(&w.ReinvocationPolicy, admissionv1.NeverReinvocationPolicy)
		}
	},
	Prepare: func(c, old *admissionv1.MutatingWebhookConfiguration) {
		if old == nil {
			c.Generation = 1
			return
		}
		check.Generation(c, old, func() bool { return !equality.Semantic.DeepEqual(c.Webhooks, old.Webhooks) })
	},
	Validate:     validateMutating,
	Warnings:     nameWarnings[*admissionv1.MutatingWebhookConfiguration],
	NeedsVersion: true,
	Columns: []objects.Column[*admissionv1.MutatingWebhookConfiguration]{
		objects.NameColumn[*admissionv1.MutatingWebhookConfiguration](),
		{Name: "Webhooks", Type: "integer", Description: webhooksDoc,
			Cell: func(c *admissionv1.MutatingWebhookConfiguration, _ time.Time) any { return int64(len(c.Webhooks)) }},
		objects.AgeColumn[*admissionv1.MutatingWebhookConfiguration](),
	},
}

const webhooksDoc = "Webhooks indicates the number of webhooks registered in this configuration"

// hook has the fields that both kinds of webhooks share.
type hook struct {
	config     *admissionv1.WebhookClientConfig
	rules      []admissionv1.RuleWithOperations
	failure    **admissionv1.FailurePolicyType
	match      **admissionv1.MatchPolicyType
	namespaces **metav1.LabelSelector
	objects    **metav1.LabelSelector
	timeout    **int32
}

// orDefault sets an unset pointer to a default.
func orDefault[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}

func defaultWebhook(h hook) {
	orDefault(h.failure, admissionv1.Fail)
	orDefault(h.match, admissionv1.Equivalent)
	orDefault(h.namespaces, metav1.LabelSelector{})
	orDefault(h.objects, metav1.LabelSelector{})
	orDefault(h.timeout, 10)
	if h.config.Service != nil {
		orDefault(&h.config.Service.Port, 443)
	}
	for i := range h.rules {
		orDefault(&h.rules[i].Scope, admissionv1.AllScopes)
	}
}

// nameWarnings warns about names that are reserved for configurations in files.
func nameWarnings[T objects.Object](obj, _ T) []string {
	const suffix = ".static.k8s.io"
	if !strings.HasSuffix(obj.GetName(), suffix) {
		return nil
	}
	return []string{fmt.Sprintf("metadata.name: names ending with %q are reserved for static manifest-based configurations and cannot be managed via the API", suffix)}
}
