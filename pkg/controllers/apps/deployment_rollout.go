package apps

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

// rollout is a deployment with its sets in one sync. Its methods plan the next steps and have no side effects.
type rollout struct {
	deployment *appsv1.Deployment   // a copy that the sync may change
	current    *appsv1.ReplicaSet   // of the current template; nil if it does not exist yet
	old        []*appsv1.ReplicaSet // of earlier templates, oldest first
	now        time.Time
}

func newRollout(d *appsv1.Deployment, sets []*appsv1.ReplicaSet, now time.Time) *rollout {
	ro := &rollout{deployment: d, now: now}
	for _, s := range slices.SortedFunc(slices.Values(sets), oldestFirst) {
		if ro.current == nil && sameTemplate(&s.Spec.Template, &d.Spec.Template) {
			ro.current = s
		} else {
			ro.old = append(ro.old, s)
		}
	}
	return ro
}

func oldestFirst(a, b *appsv1.ReplicaSet) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// sets returns all sets, the current one last.
func (ro *rollout) sets() []*appsv1.ReplicaSet {
	out := slices.Clone(ro.old)
	if ro.current != nil {
		out = append(out, ro.current)
	}
	return out
}

// activeSets returns the sets with spec.replicas above 0.
func activeSets(sets []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	return slices.DeleteFunc(slices.Clone(sets), func(s *appsv1.ReplicaSet) bool { return s == nil || *s.Spec.Replicas == 0 })
}

// specReplicas returns the sum of spec.replicas.
func specReplicas(sets []*appsv1.ReplicaSet) int32 {
	return sum(sets, func(s *appsv1.ReplicaSet) int32 { return *s.Spec.Replicas })
}

func sum(sets []*appsv1.ReplicaSet, count func(*appsv1.ReplicaSet) int32) int32 {
	var n int32
	for _, s := range sets {
		n += count(s)
	}
	return n
}

func (ro *rollout) replicas() int32 { return *ro.deployment.Spec.Replicas }

func (ro *rollout) rolling() bool {
	return ro.deployment.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType
}

// maxSurge returns the maximum number of pods above spec.replicas.
func (ro *rollout) maxSurge() int32 {
	surge, _ := ro.limits()
	return surge
}

// maxUnavailable returns how many of spec.replicas may be unavailable.
func (ro *rollout) maxUnavailable() int32 {
	_, unavailable := ro.limits()
	return min(unavailable, ro.replicas())
}

// limits resolves percentages, surge rounded up and unavailable rounded down. If both are 0, unavailable is 1: otherwise no
// step would be possible.
func (ro *rollout) limits() (surge, unavailable int32) {
	if !ro.rolling() {
		return 0, 0
	}
	var params appsv1.RollingUpdateDeployment
	if p := ro.deployment.Spec.Strategy.RollingUpdate; p != nil {
		params = *p
	}
	surge = scaleOf(params.MaxSurge, ro.replicas(), true)
	unavailable = scaleOf(params.MaxUnavailable, ro.replicas(), false)
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, unavailable
}

func scaleOf(v *intstr.IntOrString, of int32, up bool) int32 {
	if v == nil {
		return 0
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, int(of), up)
	if err != nil || n > math.MaxInt32 {
		return 0 // validation rejects such values
	}
	return int32(n)
}

// resize is a step of a rollout: a set and its new spec.replicas.
type resize struct {
	set *appsv1.ReplicaSet
	to  int32
}

// newSize returns the spec.replicas to which the current set may scale now. present is its current one.
func (ro *rollout) newSize(present int32) int32 {
	if !ro.rolling() {
		return ro.replicas()
	}
	room := ro.replicas() + ro.maxSurge() - specReplicas(ro.old) - present
	if room <= 0 {
		return present
	}
	return present + min(room, ro.replicas()-present)
}

// planNew returns the step of the current set, false if its size is correct.
func (ro *rollout) planNew() (resize, bool) {
	size := *ro.current.Spec.Replicas
	to := ro.replicas()
	if size < to {
		to = ro.newSize(size)
	}
	return resize{ro.current, to}, to != size
}

// planOld returns the steps that scale old sets down: first by their unavailable pods, then by as many pods as
// maxUnavailable allows. A set may have two steps.
func (ro *rollout) planOld() []resize {
	old := activeSets(ro.old)
	if specReplicas(old) == 0 {
		return nil
	}
	least := ro.replicas() - ro.maxUnavailable()
	unavailable := *ro.current.Spec.Replicas - ro.current.Status.AvailableReplicas
	most := specReplicas(ro.sets()) - least - unavailable
	if most <= 0 {
		return nil
	}
	size := map[string]int32{}
	for _, s := range old {
		size[s.Name] = *s.Spec.Replicas
	}
	var steps []resize
	shrink := func(s *appsv1.ReplicaSet, by int32) int32 {
		size[s.Name] -= by
		steps = append(steps, resize{s, size[s.Name]})
		return by
	}
	left := most
	for _, s := range old {
		if unhealthy := size[s.Name] - s.Status.AvailableReplicas; left > 0 && unhealthy > 0 {
			left -= shrink(s, min(left, unhealthy))
		}
	}
	// A set that was just made smaller may still count the pods that it is about to delete. Kubernetes counts them too, and so may
	// delete all old pods if a Deployment is scaled down and updated at once.
	spare := sum(append(old, ro.current), func(s *appsv1.ReplicaSet) int32 { return min(s.Status.AvailableReplicas, *s.Spec.Replicas) }) - least
	for _, s := range old {
		if spare > 0 && size[s.Name] > 0 {
			spare -= shrink(s, min(spare, size[s.Name]))
		}
	}
	return steps
}

// planRecreate returns the steps that scale the old sets down. If the current set is active too, its annotations get the deployment's size
// first, so that a changed size waits until the old pods have ended.
func (ro *rollout) planRecreate() []resize {
	old := activeSets(ro.old)
	var steps []resize
	if len(old) > 0 && ro.current != nil && *ro.current.Spec.Replicas > 0 {
		steps = append(steps, resize{ro.current, *ro.current.Spec.Replicas})
	}
	for _, s := range old {
		steps = append(steps, resize{s, 0})
	}
	return steps
}

// roll takes the next step of a rolling update.
func (r *deployment) roll(ctx context.Context, ro *rollout) error {
	if changed, err := r.syncRevision(ctx, ro, true); changed || err != nil {
		return err
	}
	if step, ok := ro.planNew(); ok {
		return r.resizeAll(ctx, ro, []resize{step})
	}
	if steps := ro.planOld(); len(steps) > 0 {
		return r.resizeAll(ctx, ro, steps)
	}
	return r.finish(ctx, ro)
}

// recreate deletes all old pods, and then creates the new ones.
func (r *deployment) recreate(ctx context.Context, ro *rollout) error {
	if steps := ro.planRecreate(); len(steps) > 0 {
		return r.resizeAll(ctx, ro, steps)
	}
	if r.oldPodsLeft(ro) {
		ro.setProgress()
		return nil
	}
	if changed, err := r.syncRevision(ctx, ro, true); changed || err != nil {
		return err
	}
	if step, ok := ro.planNew(); ok {
		return r.resizeAll(ctx, ro, []resize{step})
	}
	return r.finish(ctx, ro)
}

// oldPodsLeft reports whether an old set has a pod that may still run.
func (r *deployment) oldPodsLeft(ro *rollout) bool {
	if sum(ro.old, func(s *appsv1.ReplicaSet) int32 { return s.Status.Replicas }) > 0 {
		return true
	}
	for _, s := range ro.old {
		if slices.ContainsFunc(r.pods.OwnedBy(s.UID), func(p *corev1.Pod) bool { return !controller.IsPodTerminal(p) }) {
			return true
		}
	}
	return false
}

// finish ends a sync in which no step is possible. A complete rollout is cleaned up.
func (r *deployment) finish(ctx context.Context, ro *rollout) error {
	if ro.complete(&ro.deployment.Status) {
		if err := r.cleanUp(ctx, ro); err != nil {
			return err
		}
	}
	ro.setProgress()
	return nil
}

func (r *deployment) resizeAll(ctx context.Context, ro *rollout, steps []resize) error {
	for _, s := range steps {
		if err := r.resize(ctx, ro, s); err != nil {
			return err
		}
	}
	ro.setProgress()
	return nil
}
