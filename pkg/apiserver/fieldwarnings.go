package apiserver

import (
	"context"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
)

// fieldWarnings tells whoever writes a pod, or a template of one, what the nodes will not do of it. It stands before the
// mutators, which add to pods what nobody asked for.
type fieldWarnings struct {
	of func(*corev1.PodSpec) []string
}

// Name implements stage.Mutator.
func (fieldWarnings) Name() string { return "FieldWarnings" }

// Mutate implements stage.Mutator. It changes nothing.
func (w fieldWarnings) Mutate(_ context.Context, a *stage.Attributes) error {
	if a.Subresource != "" || a.Operation != stage.Create {
		return nil
	}
	switch obj := a.Object.(type) {
	case *corev1.Pod:
		w.warn(a, &obj.Spec, "")
	case *appsv1.Deployment:
		w.warn(a, &obj.Spec.Template.Spec, "spec.template.")
	case *appsv1.ReplicaSet:
		w.warn(a, &obj.Spec.Template.Spec, "spec.template.")
	}
	return nil
}

func (w fieldWarnings) warn(a *stage.Attributes, spec *corev1.PodSpec, prefix string) {
	for _, text := range w.of(spec) {
		a.Warn(prefix + strings.TrimPrefix(text, prefix))
	}
}
