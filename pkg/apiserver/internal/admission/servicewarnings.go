package admission

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
)

// ServiceWarnings warns about what the cluster does not serve of a Service.
type ServiceWarnings struct {
	Of func(*corev1.ServiceSpec) []string // returns the warnings of a Service
}

// Name implements stage.Mutator.
func (ServiceWarnings) Name() string { return "ServiceWarnings" }

// Mutate implements stage.Mutator. It changes nothing. An update warns about what it adds only.
func (w ServiceWarnings) Mutate(_ context.Context, a *stage.Admission) error {
	svc, ok := a.Object.(*corev1.Service)
	if !ok || a.Subresource != "" {
		return nil
	}
	var before []string
	if old, ok := a.Old.(*corev1.Service); ok && old != nil {
		before = w.Of(&old.Spec)
	}
	for _, text := range w.Of(&svc.Spec) {
		if !slices.Contains(before, text) {
			a.Warn(text)
		}
	}
	return nil
}
