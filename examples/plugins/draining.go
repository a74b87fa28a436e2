package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-scheduler/framework"
)

// Draining is the name of a plugin that prefers nodes which will soon have more room: those with the most pods that are terminating, less the
// pods that are nominated to them.
const Draining = "Draining"

type draining struct{ handle framework.Handle }

var (
	_ framework.ScorePlugin     = (*draining)(nil)
	_ framework.ScoreExtensions = (*draining)(nil)
)

func newDraining(_ context.Context, _ runtime.Object, h framework.Handle) (framework.Plugin, error) {
	return &draining{h}, nil
}

func (*draining) Name() string { return Draining }

func (d *draining) Score(_ context.Context, _ framework.CycleState, _ *corev1.Pod, node framework.NodeInfo) (int64, *framework.Status) {
	score := -int64(len(d.handle.NominatedPodsForNode(node.Node().Name)))
	for _, p := range node.GetPods() {
		if p.GetPod().DeletionTimestamp != nil {
			score++
		}
	}
	return score, nil
}

func (d *draining) ScoreExtensions() framework.ScoreExtensions { return d }

// NormalizeScore converts the least score to 0 and the greatest to 100.
func (d *draining) NormalizeScore(_ context.Context, _ framework.CycleState, _ *corev1.Pod, scores framework.NodeScoreList) *framework.Status {
	least, most := scores[0].Score, scores[0].Score
	for _, s := range scores {
		least, most = min(least, s.Score), max(most, s.Score)
	}
	for i := range scores {
		if most > least {
			scores[i].Score = (scores[i].Score - least) * framework.MaxScore / (most - least)
		} else {
			scores[i].Score = 0
		}
	}
	return nil
}
