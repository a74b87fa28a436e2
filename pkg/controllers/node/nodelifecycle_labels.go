package node

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// betaLabels are well-known labels with their deprecated ones, which have the same value on a node.
var betaLabels = [...]struct{ label, beta string }{
	{corev1.LabelOSStable, "beta.kubernetes.io/os"}, {corev1.LabelArchStable, "beta.kubernetes.io/arch"},
}

// copyLabels copies the values of well-known labels to the deprecated ones.
func (r *nodeLifecycle) copyLabels(ctx context.Context, node *corev1.Node) error {
	next := withBetaLabels(node)
	if next == nil {
		return nil
	}
	return r.update(ctx, next)
}

// withBetaLabels returns a copy of the node with the deprecated labels, nil if the node has them.
func withBetaLabels(node *corev1.Node) *corev1.Node {
	var next *corev1.Node
	for _, l := range betaLabels {
		value, ok := node.Labels[l.label]
		if old, has := node.Labels[l.beta]; !ok || has && old == value {
			continue
		}
		if next == nil {
			next = node.DeepCopy()
		}
		next.Labels[l.beta] = value
	}
	return next
}
