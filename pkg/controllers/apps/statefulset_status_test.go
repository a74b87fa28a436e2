package apps

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
)

func TestStatefulSetStatus(t *testing.T) {
	set := stateful(4, minReady(30))
	pods := setPods(set, "0/old 1/old:terminating 2:fresh 3:pending")
	m := newStatefulPods(set, set, set, "old", "new", pods, setNow)
	s := m.status(2, m.replicas)
	two := int32(2)
	want := appsv1.StatefulSetStatus{
		ObservedGeneration: 4, Replicas: 4, ReadyReplicas: 3, AvailableReplicas: 2, CurrentReplicas: 1, UpdatedReplicas: 2,
		CurrentRevision: "old", UpdateRevision: "new", CollisionCount: &two,
	}
	if statusChanged(want, s) || *s.CollisionCount != 2 || s.ObservedGeneration != 4 {
		t.Errorf("got %+v, want %+v", s, want)
	}
	if again := nextAvailable(set, s, pods, setNow.Add(10*time.Second)); again != 20*time.Second {
		t.Errorf("next check after %v, want 20s", again)
	}
	s.AvailableReplicas = 3
	if !statusChanged(want, s) {
		t.Error("a change of availableReplicas is not written")
	}
	if again := nextAvailable(set, s, pods, setNow); again != 0 {
		t.Errorf("next check after %v, want none", again)
	}

	missing := newStatefulPods(set, set, set, "old", "new", nil, setNow)
	if s := missing.status(0, missing.replicas); s.Replicas != 0 || s.UpdatedReplicas != 0 {
		t.Errorf("pods to create are counted: %+v", s)
	}
}

func TestCompleteRollout(t *testing.T) {
	for _, c := range []struct {
		name                     string
		updated, ready, replicas int32
		strategy                 appsv1.StatefulSetUpdateStrategyType
		want                     string
	}{
		{"complete", 2, 2, 2, appsv1.RollingUpdateStatefulSetStrategyType, "new"},
		{"not all updated", 1, 2, 2, appsv1.RollingUpdateStatefulSetStrategyType, "old"},
		{"not all ready", 2, 1, 2, appsv1.RollingUpdateStatefulSetStrategyType, "old"},
		{"too many", 2, 2, 3, appsv1.RollingUpdateStatefulSetStrategyType, "old"},
		{"OnDelete", 2, 2, 2, appsv1.OnDeleteStatefulSetStrategyType, "old"},
	} {
		set := stateful(2)
		set.Spec.UpdateStrategy.Type = c.strategy
		s := appsv1.StatefulSetStatus{UpdatedReplicas: c.updated, ReadyReplicas: c.ready, Replicas: c.replicas, CurrentRevision: "old", UpdateRevision: "new"}
		completeRollout(set, &s)
		if s.CurrentRevision != c.want || c.want == "new" && s.CurrentReplicas != 2 {
			t.Errorf("%s: got %+v", c.name, s)
		}
	}
}
