package controllers

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// rollout is a deployment with its sets, as one sync sees them. Its methods decide and touch nothing outside.
type rollout struct {
	deployment *appsv1.Deployment   // a copy of the sync's own
	current    *appsv1.ReplicaSet   // of the present template; nil: not made yet
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

// activeSets returns those of sets that should have pods.
func activeSets(sets []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	return slices.DeleteFunc(slices.Clone(sets), func(s *appsv1.ReplicaSet) bool { return s == nil || *s.Spec.Replicas == 0 })
}

// wanted is how many pods sets should have together.
func wanted(sets []*appsv1.ReplicaSet) int32 {
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

// maxSurge is how many pods more than wanted there may be.
func (ro *rollout) maxSurge() int32 {
	surge, _ := ro.limits()
	return surge
}

// maxUnavailable is how many pods fewer than wanted may be available.
func (ro *rollout) maxUnavailable() int32 {
	_, unavailable := ro.limits()
	return min(unavailable, ro.replicas())
}

// limits resolves the percentages, surge rounded up and unavailable down. Both being zero would allow no step at all.
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
		return 0 // validation does not let that in
	}
	return int32(n)
}

// resize is a step: a set that shall have another number of pods.
type resize struct {
	set *appsv1.ReplicaSet
	to  int32
}

// newSize returns how many pods the current set may have now.
func (ro *rollout) newSize(present int32) int32 {
	if !ro.rolling() {
		return ro.replicas()
	}
	room := ro.replicas() + ro.maxSurge() - wanted(ro.old) - present
	if room <= 0 {
		return present
	}
	return present + min(room, ro.replicas()-present)
}

// planNew says what the current set's size shall be; false: what it is.
func (ro *rollout) planNew() (resize, bool) {
	size := *ro.current.Spec.Replicas
	to := ro.replicas()
	if size < to {
		to = ro.newSize(size)
	}
	return resize{ro.current, to}, to != size
}

// planOld says which old sets to make smaller: first by the pods that are not available anyway, then by as many as
// availability allows. One set may be named twice; its sizes are steps.
func (ro *rollout) planOld() []resize {
	old := activeSets(ro.old)
	if wanted(old) == 0 {
		return nil
	}
	least := ro.replicas() - ro.maxUnavailable()
	unavailable := *ro.current.Spec.Replicas - ro.current.Status.AvailableReplicas
	most := wanted(ro.sets()) - least - unavailable
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
	spare := sum(append(old, ro.current), func(s *appsv1.ReplicaSet) int32 { return s.Status.AvailableReplicas }) - least
	for _, s := range old {
		if spare > 0 && size[s.Name] > 0 {
			spare -= shrink(s, min(spare, size[s.Name]))
		}
	}
	return steps
}

// roll replaces old pods by new ones step by step.
func (r *deployment) roll(ctx context.Context, ro *rollout) error {
	if changed, err := r.syncRevision(ctx, ro, true); changed || err != nil {
		return err
	}
	if step, ok := ro.planNew(); ok {
		return r.resizeAndNote(ctx, ro, []resize{step})
	}
	if steps := ro.planOld(); len(steps) > 0 {
		return r.resizeAndNote(ctx, ro, steps)
	}
	return r.finish(ctx, ro)
}

// recreate takes all old pods away before it makes new ones.
func (r *deployment) recreate(ctx context.Context, ro *rollout) error {
	if old := activeSets(ro.old); len(old) > 0 {
		steps := make([]resize, len(old))
		for i, s := range old {
			steps[i] = resize{s, 0}
		}
		return r.resizeAndNote(ctx, ro, steps)
	}
	if r.oldPodsLeft(ro) {
		ro.noteProgress()
		return nil
	}
	if changed, err := r.syncRevision(ctx, ro, true); changed || err != nil {
		return err
	}
	if step, ok := ro.planNew(); ok {
		return r.resizeAndNote(ctx, ro, []resize{step})
	}
	return r.finish(ctx, ro)
}

// oldPodsLeft reports whether pods of old sets may still run.
func (r *deployment) oldPodsLeft(ro *rollout) bool {
	if sum(ro.old, func(s *appsv1.ReplicaSet) int32 { return s.Status.Replicas }) > 0 {
		return true
	}
	for _, s := range ro.old {
		if slices.ContainsFunc(r.pods.OwnedBy(s.UID), func(p *corev1.Pod) bool { return !finished(p) }) {
			return true
		}
	}
	return false
}

// finish cleans up behind a rollout that has nothing left to do.
func (r *deployment) finish(ctx context.Context, ro *rollout) error {
	if ro.complete(&ro.deployment.Status) {
		if err := r.cleanUp(ctx, ro); err != nil {
			return err
		}
	}
	ro.noteProgress()
	return nil
}

func (r *deployment) resizeAndNote(ctx context.Context, ro *rollout, steps []resize) error {
	for _, s := range steps {
		if err := r.resize(ctx, ro, s); err != nil {
			return err
		}
	}
	ro.noteProgress()
	return nil
}
