package apps

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// Annotations of a set with its deployment's size when the set was last resized. They distinguish scaling from rolling out.
const (
	desiredAnnotation = "deployment.kubernetes.io/desired-replicas"
	maxAnnotation     = "deployment.kubernetes.io/max-replicas"
)

// scaled reports whether the deployment's spec.replicas has changed since its sets were last resized.
func (ro *rollout) scaled() bool {
	return slices.ContainsFunc(activeSets(ro.sets()), func(s *appsv1.ReplicaSet) bool {
		desired, ok := annotatedSize(s, desiredAnnotation)
		return ok && desired != ro.replicas()
	})
}

func annotatedSize(s *appsv1.ReplicaSet, annotation string) (int32, bool) {
	n, err := strconv.ParseInt(s.Annotations[annotation], 10, 32)
	return int32(n), err == nil
}

// mixed reports whether several sets of a deployment with the strategy Recreate are active: the strategy was another one before, or the
// deployment has adopted sets. There is no way to distribute a changed size among them, and Kubernetes does nothing any more then. Here
// the rollout ends first.
func (ro *rollout) mixed() bool {
	return !ro.rolling() && len(activeSets(ro.sets())) > 1
}

// scale distributes a changed size among the sets. It does not move pods from old sets to the new one.
func (r *deployment) scale(ctx context.Context, ro *rollout) error {
	if ro.deployment.Spec.Paused {
		if changed, err := r.syncRevision(ctx, ro, false); changed || err != nil {
			return err
		}
	}
	for _, s := range ro.planScale() {
		if err := r.resize(ctx, ro, s); err != nil {
			return err
		}
	}
	if ro.deployment.Spec.Paused {
		if err := r.cleanUp(ctx, ro); err != nil {
			return err
		}
	}
	ro.setStatus()
	return nil
}

// planScale returns the new size of each set. A set that keeps its size has a step if its annotations may be out of date.
func (ro *rollout) planScale() []resize {
	if one := ro.onlyActive(); one != nil {
		if *one.Spec.Replicas == ro.replicas() {
			return nil
		}
		return []resize{{one, ro.replicas()}}
	}
	if ro.saturated() {
		var steps []resize
		for _, s := range activeSets(ro.old) {
			steps = append(steps, resize{s, 0})
		}
		return steps
	}
	if ro.rolling() {
		return ro.planProportional()
	}
	return nil
}

// onlyActive returns the set that gets the whole size: the only active one, or the newest if no set is active. It returns
// nil if several sets are active.
func (ro *rollout) onlyActive() *appsv1.ReplicaSet {
	switch act := activeSets(ro.sets()); {
	case len(act) == 1:
		return act[0]
	case len(act) > 1:
		return nil
	case ro.current != nil:
		return ro.current
	case len(ro.old) > 0:
		return ro.old[len(ro.old)-1]
	}
	return nil
}

// saturated reports whether the current set has all pods of the deployment and they are available.
func (ro *rollout) saturated() bool {
	if ro.current == nil {
		return false
	}
	desired, ok := annotatedSize(ro.current, desiredAnnotation)
	return ok && desired == ro.replicas() && *ro.current.Spec.Replicas == ro.replicas() &&
		ro.current.Status.AvailableReplicas == ro.replicas()
}

// planProportional distributes the pods to add or to remove among the active sets in proportion to their sizes, larger sets
// first. The largest set gets what rounding leaves.
func (ro *rollout) planProportional() []resize {
	sets := activeSets(ro.sets())
	var allowed int32
	if ro.replicas() > 0 {
		allowed = ro.replicas() + ro.maxSurge()
	}
	add := allowed - specReplicas(sets)
	slices.SortStableFunc(sets, func(a, b *appsv1.ReplicaSet) int {
		age := oldestFirst(a, b)
		if add > 0 {
			age = oldestFirst(b, a)
		}
		return cmp.Or(cmp.Compare(*b.Spec.Replicas, *a.Spec.Replicas), age)
	})
	steps := make([]resize, len(sets))
	var added int32
	for i, s := range sets {
		part := ro.proportion(s, add, added)
		steps[i] = resize{s, *s.Spec.Replicas + part}
		added += part
	}
	if len(steps) > 0 {
		steps[0].to = max(0, steps[0].to+add-added)
	}
	return steps
}

// proportion returns a set's share of add, of which added is distributed already.
func (ro *rollout) proportion(s *appsv1.ReplicaSet, add, added int32) int32 {
	if *s.Spec.Replicas == 0 || add == added {
		return 0
	}
	part := ro.fraction(s)
	if add > 0 {
		return min(part, add-added)
	}
	return max(part, add-added)
}

// fraction returns the change of a set's size that keeps its share of the deployment.
func (ro *rollout) fraction(s *appsv1.ReplicaSet) int32 {
	size := *s.Spec.Replicas
	if ro.replicas() == 0 {
		return -size
	}
	before, ok := annotatedSize(s, maxAnnotation)
	if !ok || before == 0 {
		if before = ro.deployment.Status.Replicas; before == 0 {
			return 0
		}
	}
	most := ro.replicas() + ro.maxSurge()
	return int32(math.Round(float64(size*most)/float64(before))) - size
}

// resize carries out one step. It does not change the set in ro.
func (r *deployment) resize(ctx context.Context, ro *rollout, step resize) error {
	key := objects.Key{Namespace: step.set.Namespace, Name: step.set.Name}
	latest := step.set
	if s, ok := r.sets.Get(key); ok && s.UID == step.set.UID {
		latest = s // an earlier step of this sync may have changed the set
	}
	next := latest.DeepCopy()
	from := *next.Spec.Replicas
	noted := setSizeAnnotations(next, ro.replicas(), ro.replicas()+ro.maxSurge())
	if from == step.to && !noted {
		return nil
	}
	next.Spec.Replicas = &step.to
	out, err := r.client.Update(ctx, client.In(client.ReplicaSets, key), next, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	r.sets.Put(out.(*appsv1.ReplicaSet))
	if from != step.to {
		r.recordScaling(ctx, ro.deployment, step.set.Name, from, step.to)
	}
	return nil
}

func (r *deployment) recordScaling(ctx context.Context, d *appsv1.Deployment, set string, from, to int32) {
	direction := "up"
	if to < from {
		direction = "down"
	}
	r.events.Event(ctx, d, corev1.EventTypeNormal, "ScalingReplicaSet",
		fmt.Sprintf("Scaled %s replica set %s from %d to %d", direction, set, from, to))
}

// setSizeAnnotations writes the deployment's size into a set's annotations and reports whether that changed them.
func setSizeAnnotations(s *appsv1.ReplicaSet, desired, most int32) bool {
	annotations := maps.Clone(s.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[desiredAnnotation] = strconv.Itoa(int(desired))
	annotations[maxAnnotation] = strconv.Itoa(int(most))
	changed := !maps.Equal(annotations, s.Annotations)
	s.Annotations = annotations
	return changed
}
