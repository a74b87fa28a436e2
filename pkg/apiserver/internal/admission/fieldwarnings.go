package admission

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

// FieldWarnings warns about the fields of a pod, or of a pod template, that the nodes do not support. It stands before the
// other mutators, which add fields that the client has not set.
type FieldWarnings struct {
	Of func(context.Context, *corev1.PodSpec) []string // returns the warnings of a pod
}

// Name implements stage.Mutator.
func (FieldWarnings) Name() string { return "FieldWarnings" }

// Mutate implements stage.Mutator. It changes nothing. An update warns about new fields only.
func (w FieldWarnings) Mutate(ctx context.Context, a *stage.Admission) error {
	if !slices.Contains([]string{"", "ephemeralcontainers", "resize"}, a.Subresource) {
		return nil
	}
	spec, path, _ := podspec.Of(a.Object)
	if spec == nil {
		return nil
	}
	texts := w.Of(ctx, spec)
	before := map[string]bool{}
	if old, _, _ := podspec.Of(a.Old); old != nil && len(texts) > 0 {
		for _, text := range w.Of(ctx, old) {
			before[text] = true
		}
	}
	for _, text := range texts {
		if !before[text] {
			a.Warn(path + text)
		}
	}
	return nil
}
