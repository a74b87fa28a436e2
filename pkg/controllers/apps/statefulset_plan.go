package apps

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

// statefulPods are the pods of a StatefulSet in one sync.
type statefulPods struct {
	set             *appsv1.StatefulSet
	current, update string // the names of the revisions that the set rolls from and to
	now             time.Time

	replicas         []*corev1.Pod // by ordinal; pods to create are among them
	condemned        []*corev1.Pod // pods to scale down, with the highest ordinal first
	firstUnavailable *corev1.Pod   // of replicas, else of condemned, the lowest ordinal
}

// podStep is what to do with a pod. Both claims and update may be set.
type podStep struct {
	delete bool
	create bool
	claims bool // create its missing claims
	update bool // its identity, its volumes, or the owners of its claims
	wait   bool // with OrderedReady, nothing is done with later pods
}

// newStatefulPods sorts pods into replicas and condemned ones. from and to are the set with the templates of its current and its
// update revision.
func newStatefulPods(set, from, to *appsv1.StatefulSet, current, update string, pods []*corev1.Pod, now time.Time) *statefulPods {
	m := &statefulPods{set: set, current: current, update: update, now: now, replicas: make([]*corev1.Pod, *set.Spec.Replicas)}
	first := firstOrdinal(set)
	for _, p := range pods {
		if n := ordinalOf(p); inOrdinalRange(set, p) {
			m.replicas[n-first] = p
		} else if n >= 0 {
			m.condemned = append(m.condemned, p)
		}
	}
	slices.SortFunc(m.condemned, func(a, b *corev1.Pod) int { return cmp.Compare(ordinalOf(b), ordinalOf(a)) })
	for i, p := range m.replicas {
		switch {
		case p != nil:
		case createsCurrent(from, i):
			m.replicas[i] = newStatefulPod(from, current, first+i)
		default:
			m.replicas[i] = newStatefulPod(to, update, first+i)
		}
	}
	lowest := slices.Clone(m.condemned)
	slices.Reverse(lowest)
	for _, p := range slices.Concat(m.replicas, lowest) {
		if m.unavailable(p) {
			m.firstUnavailable = p
			break
		}
	}
	return m
}

// createsCurrent reports whether the replica of an index is created at the current revision instead of the update revision.
func createsCurrent(set *appsv1.StatefulSet, index int) bool {
	switch s := set.Spec.UpdateStrategy; {
	case s.RollingUpdate != nil && s.RollingUpdate.Partition != nil:
		return index < int(*s.RollingUpdate.Partition)
	case s.Type == appsv1.RollingUpdateStatefulSetStrategyType:
		return index < int(set.Status.CurrentReplicas)
	}
	return false
}

// isCreated reports whether the API server has a pod: it gives each one a phase.
func isCreated(p *corev1.Pod) bool { return p.Status.Phase != "" }

func isRunningAndReady(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodRunning && controller.IsPodReady(p)
}

func (m *statefulPods) ordered() bool {
	return m.set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
}

func (m *statefulPods) available(p *corev1.Pod) bool {
	ok, _ := controller.PodAvailable(p, time.Duration(m.set.Spec.MinReadySeconds)*time.Second, m.now)
	return ok
}

func (m *statefulPods) unavailable(p *corev1.Pod) bool {
	return !m.available(p) || p.DeletionTimestamp != nil
}

// healthy reports whether pods after p need not wait for it.
func (m *statefulPods) healthy(p *corev1.Pod) bool { return isRunningAndReady(p) && m.available(p) }

// claimReader returns the claim of a name in the set's namespace, nil if there is none.
type claimReader func(name string) *corev1.PersistentVolumeClaim

// replicaStep decides about a pod with an ordinal in the set's range.
func (m *statefulPods) replicaStep(p *corev1.Pod, claim claimReader) podStep {
	switch {
	case controller.IsPodTerminal(p): // a new pod replaces it, also one that has succeeded: an evicted pod may have any exit code
		return podStep{delete: p.DeletionTimestamp == nil, wait: true}
	case !isCreated(p):
		return podStep{create: !hasStaleClaim(m.set, p, claim), wait: true}
	}
	s := podStep{claims: p.Status.Phase == corev1.PodPending}
	if m.ordered() && (p.DeletionTimestamp != nil || !m.healthy(p)) {
		s.wait = true
		return s
	}
	s.update = !identityMatches(m.set, p) || !storageMatches(m.set, p) || !m.claimsMatch(p, claim)
	return s
}

// claimsMatch reports whether the existing claims of a pod have the owners that the retention policy requires.
func (m *statefulPods) claimsMatch(p *corev1.Pod, claim claimReader) bool {
	for _, t := range m.set.Spec.VolumeClaimTemplates {
		if c := claim(claimName(m.set, t.Name, ordinalOf(p))); c != nil && !retentionMatches(c, m.set, p) {
			return false
		}
	}
	return true
}

// condemnedStep decides about a pod that is scaled down. With OrderedReady, it is deleted once all pods before it are healthy,
// unless it is itself the unhealthy one.
func (m *statefulPods) condemnedStep(p *corev1.Pod) podStep {
	switch {
	case p.DeletionTimestamp != nil:
		return podStep{wait: true}
	case m.ordered() && !m.healthy(p) && p != m.firstUnavailable:
		return podStep{wait: true}
	}
	return podStep{delete: true, wait: true}
}

// outdated returns the pod to delete next for the rollout, nil if there is none: that with the highest ordinal that is not at
// the update revision, when all pods above it are updated and available. Pods below the partition are not updated.
func (m *statefulPods) outdated() *corev1.Pod {
	if m.set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return nil
	}
	lowest := 0
	if r := m.set.Spec.UpdateStrategy.RollingUpdate; r != nil && r.Partition != nil {
		lowest = int(*r.Partition)
	}
	for i := len(m.replicas) - 1; i >= lowest; i-- {
		p := m.replicas[i]
		if isCreated(p) && p.DeletionTimestamp == nil && p.Labels[appsv1.StatefulSetRevisionLabel] != m.update {
			return p
		}
		if m.unavailable(p) {
			return nil
		}
	}
	return nil
}
