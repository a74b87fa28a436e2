package virtual_test

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/objects"
)

// accounts are the service accounts of the controllers of each kind.
var accounts = map[string]string{
	"ReplicaSet": "replicaset-controller", "ReplicationController": "replication-controller", "StatefulSet": "statefulset-controller",
	"DaemonSet": "daemon-set-controller", "Job": "job-controller",
}

// pod checks the rules for a change of a pod. old is nil for a new pod, pod for one that is gone.
func (w *world) pod(c change, old, pod *corev1.Pod, f *faults) {
	if pod == nil {
		w.lostPod(c, old, nil, f)
		delete(w.pods, old.UID)
		return
	}
	w.ownership(c, old, pod) // an owner may still see the labels from before a change
	if old == nil {
		w.pods[pod.UID] = pod
		if ref := metav1.GetControllerOfNoCopy(pod); ref == nil {
			w.adopt[pod.UID] = true
		} else if owner := w.owners[ref.UID]; owner != nil {
			w.created(c, pod, owner, f)
		}
		return
	}
	if !maps.Equal(old.Labels, pod.Labels) {
		w.moved[pod.UID] = true
	}
	w.lostPod(c, old, pod, f)
	w.pods[pod.UID] = pod
}

// flight names the place of a pod that its replacement takes.
func flight(owner objects.Object, p *corev1.Pod) string {
	if _, ok := owner.(*appsv1.DaemonSet); ok {
		return nodeOfDaemon(p)
	}
	return p.Name
}

// ownership checks the controller of each pod: an owner adopts only pods that it selects and that have no controller, and gives up only those that it
// does not select.
func (w *world) ownership(c change, old, pod *corev1.Pod) {
	ref := metav1.GetControllerOfNoCopy(pod)
	var before *metav1.OwnerReference
	if old != nil {
		before = metav1.GetControllerOfNoCopy(old)
	}
	if ref != nil && (before == nil || before.UID != ref.UID) {
		owner := w.owners[ref.UID]
		switch {
		case before != nil:
			w.breaks(c, "its controller changed from %s %s to %s %s", before.Kind, before.Name, ref.Kind, ref.Name)
		case w.gone[ref.UID]:
			w.breaks(c, "%s %s controls it, which no longer exists", ref.Kind, ref.Name)
		case owner != nil && !selects(owner, pod) && !w.moved[pod.UID]:
			w.breaks(c, "%s %s controls it, but does not select it: labels %v", ref.Kind, ref.Name, pod.Labels)
		case owner != nil && owner.GetNamespace() != pod.Namespace:
			w.breaks(c, "%s %s controls it from another namespace", ref.Kind, ref.Name)
		case old != nil && w.ending[old.UID]:
			w.breaks(c, "%s %s adopted it while it was being deleted", ref.Kind, ref.Name)
		}
	}
	if before != nil && ref == nil {
		if owner := w.owners[before.UID]; owner != nil && owner.GetDeletionTimestamp() == nil && selects(owner, pod) {
			w.breaks(c, "%s %s released it, but selects it", before.Kind, before.Name)
		}
	}
}

// created checks the creation of a pod by its owner's controller.
func (w *world) created(c change, pod *corev1.Pod, owner objects.Object, f *faults) {
	b := w.bounds[owner.GetUID()]
	mine := w.podsOf(func(p *corev1.Pod) bool { return active(p) && !w.adopt[p.UID] && w.controllerOf(p) == owner })
	switch o := owner.(type) {
	case *appsv1.ReplicaSet, *corev1.ReplicationController:
		if n := len(mine); n > b.most+f.lost {
			w.breaks(c, "it is pod %d of %s, which has asked for %d", n, owner.GetName(), b.most)
		}
	case *appsv1.StatefulSet:
		w.createdInOrder(c, pod, o, b)
	case *appsv1.DaemonSet:
		same := slices.DeleteFunc(mine, func(p *corev1.Pod) bool { return nodeOfDaemon(p) != nodeOfDaemon(pod) })
		if n := len(same); n > 1+min(b.most, 1)+f.lost {
			w.breaks(c, "it is pod %d of DaemonSet %s for node %s", n, o.Name, nodeOfDaemon(pod))
		}
	case *batchv1.Job:
		w.createdForJob(c, pod, o, b, mine, f)
	}
}

// resized checks the size that a Deployment's controller gives a set: the sum of all sizes is within maxSurge. As in Kubernetes, pods of
// a set that has become smaller may still exist when those of another are created.
func (w *world) resized(c change, old, set *appsv1.ReplicaSet) {
	d, ok := w.controllerOf(set).(*appsv1.Deployment)
	if !ok || *set.Spec.Replicas == 0 || old != nil && *old.Spec.Replicas >= *set.Spec.Replicas {
		if ok && old != nil && w.controllerOf(old) == objects.Object(d) {
			w.shrunk(c, d, old, set)
		}
		return
	}
	if old == nil || *old.Spec.Replicas == 0 {
		w.begunForDeployment(c, d, set)
	}
	sum := w.sizeOf(d)
	if b := w.bounds[d.UID]; sum > b.most {
		w.breaks(c, "the sets of Deployment %s have %d replicas, and may have %d", d.Name, sum, b.most)
	}
}

// sizeOf returns the sum of the sizes of a Deployment's sets.
func (w *world) sizeOf(d *appsv1.Deployment) (sum int) {
	for _, owner := range w.owners {
		if s, ok := owner.(*appsv1.ReplicaSet); ok && w.controllerOf(s) == objects.Object(d) {
			sum += int(*s.Spec.Replicas)
		}
	}
	return sum
}

// shrunk checks that a rolling update leaves enough replicas when it makes a set smaller. If the Deployment itself has become smaller, this lowers
// its bound: as in Kubernetes, each of several sets loses a part, whether its pods are available or not, and with them the pods that maxUnavailable
// has kept.
func (w *world) shrunk(c change, d *appsv1.Deployment, old, set *appsv1.ReplicaSet) {
	b, lost, sum := w.bounds[d.UID], int(*old.Spec.Replicas-*set.Spec.Replicas), w.sizeOf(d)
	switch {
	case lost <= 0:
	case old.Annotations[desiredReplicas] != set.Annotations[desiredReplicas]:
		if sum > int(*set.Spec.Replicas) {
			b.before -= lost
			b.least = min(b.least, b.before)
		}
	case b.rolling && sum < b.least:
		w.breaks(c, "the sets of Deployment %s have %d replicas left, and must have %d", d.Name, sum, b.least)
	}
}

// begunForDeployment checks that a Deployment with the strategy Recreate has no pods of another set when a set gets its first pods. As in
// Kubernetes, a set that has pods may get more of them while pods of an earlier one, from before the strategy was Recreate, are being deleted.
func (w *world) begunForDeployment(c change, d *appsv1.Deployment, set *appsv1.ReplicaSet) {
	if !w.bounds[d.UID].recreate {
		return
	}
	running := func(p *corev1.Pod) bool { // also while it is being deleted
		return p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed && !w.adopt[p.UID]
	}
	for _, p := range w.podsOf(running) {
		if owner := w.controllerOf(p); owner != nil && owner.GetUID() != set.UID && w.controllerOf(owner) == objects.Object(d) {
			w.breaks(c, "it begins, Deployment %s is recreated, and pod %s of an earlier set is left", d.Name, p.Name)
		}
	}
}

// createdInOrder checks that the pods before a new pod of a StatefulSet are ready.
func (w *world) createdInOrder(c change, pod *corev1.Pod, set *appsv1.StatefulSet, b *bound) {
	_, n := ordinal(pod.Name)
	if n >= b.most {
		w.breaks(c, "StatefulSet %s has asked for %d pods", set.Name, b.most)
	}
	if r := pod.Labels[appsv1.StatefulSetRevisionLabel]; n < b.partition && set.Status.CurrentRevision != "" && r != set.Status.CurrentRevision {
		w.breaks(c, "it has revision %s, and pods of StatefulSet %s below %d have %s", r, set.Name, b.partition, set.Status.CurrentRevision)
	}
	if !b.rolling || b.disrupted > 0 {
		return
	}
	ready := map[int]bool{}
	for _, p := range w.podsOf(func(p *corev1.Pod) bool { return w.controllerOf(p) == objects.Object(set) }) {
		_, i := ordinal(p.Name)
		ready[i] = available(p, set.Spec.MinReadySeconds, c.at)
	}
	for i := range n {
		if !ready[i] {
			w.breaks(c, "pod %d of StatefulSet %s is not available yet", i, set.Name)
		}
	}
}

func (w *world) createdForJob(c change, pod *corev1.Pod, job *batchv1.Job, b *bound, mine []*corev1.Pod, f *faults) {
	if len(mine) > b.most+f.lost {
		w.breaks(c, "it is active pod %d of Job %s, which has asked for %d", len(mine), job.Name, b.most)
	}
	if b.ended {
		w.breaks(c, "Job %s has finished", job.Name)
	}
	index, ok := pod.Annotations[batchv1.JobCompletionIndexAnnotation]
	if !ok {
		return
	}
	for _, p := range w.podsOf(func(p *corev1.Pod) bool { return p != pod && w.controllerOf(p) == objects.Object(job) }) {
		if p.Annotations[batchv1.JobCompletionIndexAnnotation] == index && (active(p) || p.Status.Phase == corev1.PodSucceeded) && f.lost == 0 {
			w.breaks(c, "pod %s has index %s of Job %s already: %s", p.Name, index, job.Name, p.Status.Phase)
		}
	}
}

// lostPod checks a change that makes an available pod unavailable. now is nil if it is gone.
func (w *world) lostPod(c change, old, now *corev1.Pod, f *faults) {
	owner := w.controllerOf(old)
	if owner == nil || !available(old, minReadyOf(owner), c.at) {
		return
	}
	if now != nil && w.controllerOf(now) != owner { // released
		w.disrupt(owner)
		return
	}
	if available(now, minReadyOf(owner), c.at) {
		return
	}
	ref := metav1.GetControllerOfNoCopy(old)
	deleted := now == nil || now.DeletionTimestamp != nil
	if !deleted || f.deleter[old.UID] != accounts[ref.Kind] {
		w.disrupt(owner)
		return
	}
	b := w.bounds[owner.GetUID()]
	switch o := owner.(type) {
	case *appsv1.ReplicaSet:
		// The controller may have seen a pod before it became ready in this second, and have chosen it since it was not: as in Kubernetes, a delete
		// does not depend on what has happened meanwhile. What happened before the last step of the clock it has seen.
		if d, ok := w.controllerOf(o).(*appsv1.Deployment); ok && d.DeletionTimestamp == nil && available(old, 1, c.at) {
			w.deletedForDeployment(c, d, old)
		}
	case *appsv1.StatefulSet:
		// With the policy Parallel, a second update begins again at the highest ordinal, also while a pod is not available.
		if _, n := ordinal(old.Name); n < b.least && (b.rolling || b.updates <= 1 && b.disrupted == 0) {
			w.inFlight(c, o, old, b, 1)
		}
	case *appsv1.DaemonSet:
		w.deletedForDaemon(c, o, old, b)
	}
}

func (w *world) disrupt(owner objects.Object) {
	w.bounds[owner.GetUID()].disrupted++
	if parent := w.controllerOf(owner); parent != nil {
		w.bounds[parent.GetUID()].disrupted++
	}
}

func (w *world) deletedForDeployment(c change, d *appsv1.Deployment, gone *corev1.Pod) {
	b := w.bounds[d.UID]
	left := 0
	for _, p := range w.podsOf(func(p *corev1.Pod) bool { return p.UID != gone.UID }) {
		// Which ready pods a set deletes does not depend on its minReadySeconds, as in Kubernetes.
		owner := w.controllerOf(p)
		if owner != nil && w.controllerOf(owner) == objects.Object(d) && available(p, 0, c.at) {
			left++
		}
	}
	// The sets of a Deployment that is new have as many pods as before until it makes them larger, and may have one too many: an adopted one.
	least := min(b.least, w.sizeOf(d))
	if b.rolling && left < least-b.disrupted {
		w.breaks(c, "%d available pods are left of Deployment %s, which must have %d (%d were lost otherwise)", left, d.Name, least, b.disrupted)
	}
}

func (w *world) deletedForDaemon(c change, set *appsv1.DaemonSet, gone *corev1.Pod, b *bound) {
	node := nodeOfDaemon(gone)
	replaced := slices.ContainsFunc(w.podsOf(func(p *corev1.Pod) bool { return p.UID != gone.UID && w.controllerOf(p) == objects.Object(set) }), func(p *corev1.Pod) bool {
		return nodeOfDaemon(p) == node && available(p, set.Spec.MinReadySeconds, c.at)
	})
	if !replaced && b.rolling && w.eligible(set, node) {
		w.inFlight(c, set, gone, b, max(-b.least, 0))
	}
}

// inFlight checks how many places of an owner's pods wait for a new pod after its controller has deleted an available one.
func (w *world) inFlight(c change, owner objects.Object, gone *corev1.Pod, b *bound, most int) {
	for _, p := range w.podsOf(func(p *corev1.Pod) bool { return w.controllerOf(p) == owner && available(p, minReadyOf(owner), c.at) }) {
		delete(b.inFlight, flight(owner, p))
	}
	maps.DeleteFunc(b.inFlight, func(place string, _ bool) bool {
		_, n := ordinal(place)
		_, stateful := owner.(*appsv1.StatefulSet)
		return stateful && n >= b.least // scaled down since
	})
	b.inFlight[flight(owner, gone)] = true
	if len(b.inFlight) > most {
		w.breaks(c, "%T %s has deleted available pods of %v, and may replace %d at a time", owner, owner.GetName(), slices.Sorted(maps.Keys(b.inFlight)), most)
	}
}

// eligible reports whether a DaemonSet must have a pod on a node.
func (w *world) eligible(set *appsv1.DaemonSet, node string) bool {
	n := w.nodes[node]
	if n == nil {
		return false
	}
	for k, v := range set.Spec.Template.Spec.NodeSelector {
		if n.Labels[k] != v {
			return false
		}
	}
	return !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		lost := t.Key == corev1.TaintNodeUnreachable || t.Key == corev1.TaintNodeNotReady
		return t.Key == dedicated || lost && t.Effect == corev1.TaintEffectNoSchedule
	})
}

// settled checks the rules for a cluster in which nothing happens, and narrows the bounds of owners that are complete. Without faults
// the garbage collector has no work left.
func (w *world) settled(collected bool) (broken []string) {
	for uid := range w.bounds {
		if w.owners[uid] == nil {
			w.gone[uid] = true
		}
	}
	clear(w.ending)
	clear(w.moved)
	for _, p := range w.pods {
		if p.DeletionTimestamp != nil {
			w.ending[p.UID] = true
		}
		if !collected || p.DeletionTimestamp != nil {
			continue
		}
		if ref := metav1.GetControllerOfNoCopy(p); ref == nil {
			broken = append(broken, w.forgotten(p)...)
		} else if owner := w.owners[ref.UID]; owner == nil {
			broken = append(broken, fmt.Sprintf("pod %s is left of %s %s, which no longer exists", p.Name, ref.Kind, ref.Name))
		} else if active(p) && owner.GetDeletionTimestamp() == nil && !selects(owner, p) {
			broken = append(broken, fmt.Sprintf("%s %s controls pod %s and does not select it", ref.Kind, ref.Name, p.Name))
		}
	}
	for uid, owner := range w.owners {
		w.narrow(w.bounds[uid], owner)
	}
	return broken
}

// forgotten returns the owners that should have adopted an orphan.
func (w *world) forgotten(p *corev1.Pod) (broken []string) {
	for _, owner := range w.owners {
		switch owner.(type) {
		case *appsv1.Deployment, *batchv1.Job:
			continue
		}
		if active(p) && owner.GetDeletionTimestamp() == nil && owner.GetNamespace() == p.Namespace && selects(owner, p) {
			broken = append(broken, fmt.Sprintf("%T %s selects pod %s and has not adopted it", owner, owner.GetName(), p.Name))
		}
	}
	return broken
}

// narrow has the bound of an owner begin again if the owner is complete.
func (w *world) narrow(b *bound, owner objects.Object) {
	complete := true
	switch o := owner.(type) {
	case *appsv1.Deployment:
		s := o.Status
		complete = s.ObservedGeneration == o.Generation && s.Replicas == *o.Spec.Replicas && s.AvailableReplicas == s.Replicas && s.UpdatedReplicas == s.Replicas
	case *appsv1.StatefulSet:
		s := o.Status
		complete = s.ObservedGeneration == o.Generation && s.Replicas == *o.Spec.Replicas && s.AvailableReplicas == s.Replicas && s.UpdatedReplicas == s.Replicas
	case *appsv1.DaemonSet:
		s := o.Status
		complete = s.ObservedGeneration == o.Generation && s.NumberAvailable == s.DesiredNumberScheduled && s.UpdatedNumberScheduled == s.DesiredNumberScheduled
	case *batchv1.Job:
		b.ended = b.ended || slices.ContainsFunc(o.Status.Conditions, func(c batchv1.JobCondition) bool {
			return c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed)
		})
	}
	if complete {
		ended := b.ended
		*b = *newBound(owner)
		b.ended = ended
	}
}
