// Package admission holds the controllers of admission policies.
package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/admission/internal/typecheck"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

var validatingPolicies = admissionv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies")

type policyStatus struct {
	client   client.Client
	describe func() (discovery.DiscoveryInterface, error)
	policies *client.Cache[*admissionv1.ValidatingAdmissionPolicy]
}

// PolicyStatus checks the expressions of ValidatingAdmissionPolicies against the types that the policies match, and writes
// the warnings to their status.
func PolicyStatus(env controller.Env) reconcile.Loop {
	p := policyStatus{env.Client, env.Discovery, client.CacheOf[*admissionv1.ValidatingAdmissionPolicy](env.Caches, validatingPolicies)}
	return reconcile.Loop{Name: "policystatus", Reconcile: p.reconcile, Sources: []reconcile.Source{reconcile.Watch(p.policies)}}
}

func (p policyStatus) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	policy, ok := p.policies.Get(key)
	if !ok || policy.Generation <= policy.Status.ObservedGeneration {
		return 0, nil
	}
	api, err := p.describe()
	if err != nil {
		return 0, err
	}
	warnings, err := typecheck.Check(policy, typecheck.Described(api))
	if err != nil {
		return 0, fmt.Errorf("check the types of %s: %w", policy.Name, err)
	}
	patch, err := json.Marshal(map[string]any{
		"apiVersion": admissionv1.SchemeGroupVersion.String(), "kind": "ValidatingAdmissionPolicy", "metadata": map[string]any{"name": policy.Name},
		"status": admissionv1.ValidatingAdmissionPolicyStatus{
			ObservedGeneration: policy.Generation, TypeChecking: &admissionv1.TypeChecking{ExpressionWarnings: warnings},
		},
	})
	if err != nil {
		return 0, fmt.Errorf("encode the status of %s: %w", policy.Name, err)
	}
	force := true
	_, err = p.client.Patch(ctx, client.In(validatingPolicies, key).Sub("status"), client.Patch{Type: types.ApplyPatchType, Data: patch},
		metav1.PatchOptions{FieldManager: "validatingadmissionpolicy-status", Force: &force})
	return 0, controller.IgnoreNotFound(err)
}
