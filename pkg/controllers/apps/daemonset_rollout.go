package apps

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// planUpdate takes the next step of a rolling update.
func (s *daemonSync) planUpdate() (daemonPlan, error) {
	desired := s.desired()
	unavailable, err := s.maxUnavailable(desired)
	if err != nil {
		return daemonPlan{}, fmt.Errorf("maxUnavailable: %w", err)
	}
	surge, err := s.maxSurge(desired)
	if err != nil {
		return daemonPlan{}, fmt.Errorf("maxSurge: %w", err)
	}
	if surge > 0 {
		return s.planSurge(surge, desired), nil
	}
	if desired > 0 {
		unavailable = max(unavailable, 1) // as by default: without surge and unavailable pods no pod could be updated
	}
	return s.planReplace(unavailable), nil
}

func (s *daemonSync) maxUnavailable(desired int) (int, error) {
	u := s.set.Spec.UpdateStrategy.RollingUpdate
	if u == nil || s.set.Spec.UpdateStrategy.Type != appsv1.RollingUpdateDaemonSetStrategyType || u.MaxUnavailable == nil {
		return 0, nil
	}
	return intstr.GetScaledValueFromIntOrPercent(u.MaxUnavailable, desired, true)
}

func (s *daemonSync) maxSurge(desired int) (int, error) {
	u := s.set.Spec.UpdateStrategy.RollingUpdate
	if u == nil || s.set.Spec.UpdateStrategy.Type != appsv1.RollingUpdateDaemonSetStrategyType || u.MaxSurge == nil {
		return 0, nil
	}
	return intstr.GetScaledValueFromIntOrPercent(u.MaxSurge, desired, true)
}

// allowsSurge reports whether a node may have two pods during an update.
func (s *daemonSync) allowsSurge() bool {
	n, err := s.maxSurge(1)
	return err == nil && n > 0
}

// oldAndNew returns the live pod of an old template and that of the current one, nil for none. ok is false for a node with more pods:
// they are deleted first.
func (s *daemonSync) oldAndNew(n daemonNode) (oldPod, newPod *corev1.Pod, ok bool) {
	for _, p := range n.live {
		slot := &oldPod
		if s.isUpdated(p) {
			slot = &newPod
		}
		if *slot != nil {
			return nil, nil, false
		}
		*slot = p
	}
	return oldPod, newPod, true
}

// planReplace deletes old pods, so that the next syncs create new ones: those that are not available, and as many available ones as
// leave at most maxUnavailable nodes without an available pod.
func (s *daemonSync) planReplace(maxUnavailable int) daemonPlan {
	var broken, candidates []*corev1.Pod
	unavailable := 0
	for _, n := range s.nodes {
		if len(n.pods) == 0 && !n.run {
			continue
		}
		oldPod, newPod, ok := s.oldAndNew(n)
		switch {
		case !ok || (oldPod == nil) == (newPod == nil): // planNodes creates or deletes pods here
			unavailable++
		case newPod != nil:
			if !s.isAvailable(newPod) {
				unavailable++
			}
		case !s.isAvailable(oldPod):
			broken = append(broken, oldPod)
			unavailable++
		default:
			candidates = append(candidates, oldPod)
		}
	}
	more := min(max(maxUnavailable-unavailable, 0), len(candidates))
	return daemonPlan{remove: append(broken, candidates[:more]...)}
}

// planSurge creates new pods beside old ones: on nodes whose old pod is not available, and on up to maxSurge others. Old pods are deleted
// when the new one is available. A pod on a node that should have none any more is deleted once enough others are available.
func (s *daemonSync) planSurge(maxSurge, desired int) daemonPlan {
	var plan daemonPlan
	var misplaced []*corev1.Pod
	var candidates []string
	surge, available := 0, 0
	for _, n := range s.nodes {
		oldPod, newPod, ok := s.oldAndNew(n)
		if !ok {
			surge++ // planNodes deletes the surplus
			continue
		}
		oldAvailable := oldPod != nil && s.isAvailable(oldPod)
		newAvailable := newPod != nil && s.isAvailable(newPod)
		if oldAvailable || oldPod == nil && newAvailable {
			available++
		}
		switch {
		case oldPod == nil || n.deleted:
		case newAvailable:
			plan.remove = append(plan.remove, oldPod)
		case newPod != nil:
			surge++
		case !n.run && oldAvailable:
			misplaced = append(misplaced, oldPod)
		case !n.run:
			plan.remove = append(plan.remove, oldPod)
		case !oldAvailable:
			plan.create = append(plan.create, n.name)
		default:
			candidates = append(candidates, n.name)
		}
	}
	spare := min(max(available-desired, 0), len(misplaced))
	plan.remove = append(plan.remove, misplaced[:spare]...)
	plan.create = append(plan.create, candidates[:min(max(maxSurge-surge, 0), len(candidates))]...)
	return plan
}
