package virtual_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/internal/virtual"
	"github.com/minikctl/minikctl/pkg/objects"
)

// describe returns what matters of an object's specification.
func describe(obj objects.Object) string {
	out := obj.GetName()
	say := func(what string, value any) {
		b, _ := json.Marshal(value) // only for messages
		if s := string(b); s != "null" && s != "{}" && s != "0" {
			out += " " + what + " " + s
		}
	}
	var t *corev1.PodTemplateSpec
	if t = templateOf(obj); t == nil {
		t = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: make([]corev1.Container, 1)}}
	}
	switch o := obj.(type) {
	case *appsv1.Deployment:
		say("replicas", o.Spec.Replicas)
		say("strategy", o.Spec.Strategy)
		say("paused", o.Spec.Paused)
	case *appsv1.ReplicaSet:
		say("replicas", o.Spec.Replicas)
	case *corev1.ReplicationController:
		say("replicas", o.Spec.Replicas)
	case *appsv1.StatefulSet:
		say("replicas", o.Spec.Replicas)
		say(string(o.Spec.PodManagementPolicy), o.Spec.UpdateStrategy)
	case *appsv1.DaemonSet:
		say("strategy", o.Spec.UpdateStrategy)
		say("nodes", t.Spec.NodeSelector)
	case *batchv1.Job:
		t = &o.Spec.Template
		j := o.Spec.DeepCopy()
		j.Template, j.Selector = corev1.PodTemplateSpec{}, nil
		say("job", j)
		say("restart", t.Spec.RestartPolicy)
	}
	say("minReady", minReadyOf(obj))
	say("image", t.Spec.Containers[0].Image)
	say("grace", t.Spec.TerminationGracePeriodSeconds)
	say("requests", t.Spec.Containers[0].Resources.Requests)
	say("rules", t.Annotations)
	return out
}

// repair ends the faults: nodes, templates, paused workloads, refused requests.
func (r *run) repair() {
	r.note("repair")
	r.faults.set(0)
	for _, n := range nodeNames {
		r.StartNode(n)
	}
	r.settle(0)
	for _, n := range nodeNames {
		r.changeNodeTo(n, func(n *corev1.Node) {
			n.Spec.Unschedulable = false
			undedicate(n)
		})
	}
	for _, p := range r.pods() { // some have the names of a StatefulSet's pods
		if metav1.GetControllerOfNoCopy(p) == nil || !strings.HasPrefix(p.Name, p.Labels[app]+"-") {
			r.deletePod(p)
		}
	}
	for _, w := range slices.Concat(workloads, r.orphanSets()) {
		r.change(w, "repair", func(obj objects.Object) bool {
			switch o := obj.(type) {
			case *batchv1.Job:
				o.Spec.Suspend, o.Spec.Parallelism = nil, new(max(*o.Spec.Parallelism, 1))
				return true
			case *appsv1.Deployment:
				o.Spec.Paused = false
			case *appsv1.StatefulSet: // pods below a partition, and without one those that were current, may have a bad template
				if o.Spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
					o.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(0))}
				}
			}
			good(templateOf(obj))
			return true
		})
	}
	r.settle(10 * time.Minute)
	for _, w := range r.orphanSets() { // else ever more of them accumulate
		if r.rng.IntN(2) == 0 {
			_, err := r.Delete(r.Context(), w.target(), metav1.DeleteOptions{PropagationPolicy: &policies[r.rng.IntN(2)]})
			r.tolerate("delete "+w.name, err)
		}
	}
	// A StatefulSet does not replace a pod that never becomes ready, and other owners don't replace pods with an earlier template.
	for _, p := range r.pods() {
		ref := metav1.GetControllerOfNoCopy(p)
		if ref != nil && ref.Kind != "Job" && !available(p, 0, r.Clock.Now()) {
			r.deletePod(p)
		}
	}
	// Pods with a bad template of an owner that never replaces pods have their old containers until they are deleted.
	r.settle(10 * time.Minute)
	for _, p := range r.pods() {
		ref := metav1.GetControllerOfNoCopy(p)
		if ref != nil && ref.Kind != "Job" && (p.Annotations != nil || p.Spec.Containers[0].Resources.Requests != nil) {
			r.deletePod(p)
		}
	}
	r.settle(40 * time.Minute)
	r.faults.mu.Lock()
	r.faults.lost = 0
	r.faults.mu.Unlock()
}

// orphanSets returns the ReplicaSets of Deployments that were deleted without them.
func (r *run) orphanSets() []workload {
	var out []workload
	for _, owner := range r.world.owners {
		if s, ok := owner.(*appsv1.ReplicaSet); ok && metav1.GetControllerOfNoCopy(s) == nil && !strings.HasPrefix(s.Name, "set") {
			out = append(out, workload{kind: "ReplicaSet", name: s.Name, resource: client.ReplicaSets})
		}
	}
	slices.SortFunc(out, func(a, b workload) int { return cmp.Compare(a.name, b.name) })
	return out
}

func (r *run) deletePod(p *corev1.Pod) {
	r.faults.deletedBy("a user", p.UID)
	_, err := r.Delete(r.Context(), client.In(client.Pods, objects.Key{Namespace: p.Namespace, Name: p.Name}), metav1.DeleteOptions{})
	r.tolerate("delete pod", err)
}

// converged fails the test unless the cluster is as it is specified.
func (r *run) converged() {
	var wrong []string
	say := func(obj objects.Object, format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("%T %s: ", obj, obj.GetName())+fmt.Sprintf(format, args...))
	}
	for _, owner := range r.world.owners {
		if at := owner.GetDeletionTimestamp(); at != nil {
			say(owner, "still being deleted since %s, finalizers %v", at.Sub(virtual.Began), owner.GetFinalizers())
			continue
		}
		pods := r.world.podsOf(func(p *corev1.Pod) bool { return r.world.controllerOf(p) == owner })
		r.checkOwner(owner, pods, say)
	}
	for _, p := range r.world.pods {
		ref := metav1.GetControllerOfNoCopy(p)
		switch {
		case p.DeletionTimestamp != nil:
			say(p, "still being deleted since %s on %s, finalizers %v", p.DeletionTimestamp.Sub(virtual.Began), p.Spec.NodeName, p.Finalizers)
		case ref != nil && r.world.owners[ref.UID] == nil:
			say(p, "it is left of %s %s", ref.Kind, ref.Name)
		case ref == nil && slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer):
			say(p, "it has the finalizer of a Job and no Job")
		}
	}
	if len(wrong) > 0 {
		slices.Sort(wrong)
		r.fail("not as specified:\n%s", strings.Join(wrong, "\n"))
	}
}

type sayer func(obj objects.Object, format string, args ...any)

func (r *run) checkOwner(owner objects.Object, pods []*corev1.Pod, say sayer) {
	now, up := r.Clock.Now(), 0
	for _, p := range pods {
		if available(p, minReadyOf(owner), now) {
			up++
		}
	}
	count := func(what string, got, want int32) {
		if got != want {
			say(owner, "%s is %d, want %d", what, got, want)
		}
	}
	switch o := owner.(type) {
	case *appsv1.Deployment:
		r.checkDeployment(o, count, say)
	case *appsv1.ReplicaSet:
		count("pods", int32(len(pods)), *o.Spec.Replicas)
		count("available pods", int32(up), *o.Spec.Replicas)
		count("status.replicas", o.Status.Replicas, *o.Spec.Replicas)
		count("status.availableReplicas", o.Status.AvailableReplicas, *o.Spec.Replicas)
		count("status.observedGeneration", int32(o.Status.ObservedGeneration), int32(o.Generation))
	case *corev1.ReplicationController:
		count("pods", int32(len(pods)), *o.Spec.Replicas)
		count("available pods", int32(up), *o.Spec.Replicas)
		count("status.availableReplicas", o.Status.AvailableReplicas, *o.Spec.Replicas)
	case *appsv1.StatefulSet:
		checkStatefulSet(o, pods, up, count, say)
	case *appsv1.DaemonSet:
		r.checkDaemonSet(o, pods, count, say)
	case *batchv1.Job:
		checkJob(o, pods, count, say)
	}
}

func (r *run) checkDeployment(d *appsv1.Deployment, count func(string, int32, int32), say sayer) {
	count("status.observedGeneration", int32(d.Status.ObservedGeneration), int32(d.Generation))
	for what, got := range map[string]int32{"replicas": d.Status.Replicas, "updatedReplicas": d.Status.UpdatedReplicas,
		"availableReplicas": d.Status.AvailableReplicas, "readyReplicas": d.Status.ReadyReplicas} {
		count("status."+what, got, *d.Spec.Replicas)
	}
	old := 0
	for _, owner := range r.world.owners {
		set, ok := owner.(*appsv1.ReplicaSet)
		if !ok || r.world.controllerOf(set) != objects.Object(d) {
			continue
		}
		current := set.Spec.Template.Spec.Containers[0].Image == d.Spec.Template.Spec.Containers[0].Image &&
			*set.Spec.Template.Spec.TerminationGracePeriodSeconds == *d.Spec.Template.Spec.TerminationGracePeriodSeconds &&
			len(set.Spec.Template.Annotations) == 0 && set.Spec.Template.Spec.Containers[0].Resources.Requests == nil
		if current {
			count("replicas of "+set.Name, *set.Spec.Replicas, *d.Spec.Replicas)
			continue
		}
		old++
		count("replicas of "+set.Name, *set.Spec.Replicas, 0)
	}
	if old > int(*d.Spec.RevisionHistoryLimit) {
		say(d, "%d old sets, the limit is %d", old, *d.Spec.RevisionHistoryLimit)
	}
	for _, c := range d.Status.Conditions {
		if c.Status != corev1.ConditionTrue && c.Type != appsv1.DeploymentReplicaFailure {
			say(d, "condition %s is %s: %s", c.Type, c.Status, c.Message)
		}
	}
}

func checkStatefulSet(s *appsv1.StatefulSet, pods []*corev1.Pod, up int, count func(string, int32, int32), say sayer) {
	count("pods", int32(len(pods)), *s.Spec.Replicas)
	count("available pods", int32(up), *s.Spec.Replicas)
	count("status.replicas", s.Status.Replicas, *s.Spec.Replicas)
	count("status.availableReplicas", s.Status.AvailableReplicas, *s.Spec.Replicas)
	count("status.observedGeneration", int32(s.Status.ObservedGeneration), int32(s.Generation))
	lowest := 0
	if u := s.Spec.UpdateStrategy; u.Type == appsv1.OnDeleteStatefulSetStrategyType {
		lowest = 1000
	} else if u.RollingUpdate != nil && u.RollingUpdate.Partition != nil {
		lowest = int(*u.RollingUpdate.Partition)
	}
	for _, p := range pods {
		_, n := ordinal(p.Name)
		if n >= int(*s.Spec.Replicas) {
			say(s, "pod %s is too many", p.Name)
		}
		if n >= lowest && p.Labels[appsv1.StatefulSetRevisionLabel] != s.Status.UpdateRevision {
			say(s, "pod %s has revision %s, want %s", p.Name, p.Labels[appsv1.StatefulSetRevisionLabel], s.Status.UpdateRevision)
		}
	}
	if lowest == 0 && s.Status.CurrentRevision != s.Status.UpdateRevision {
		say(s, "the rollout from %s to %s has not ended", s.Status.CurrentRevision, s.Status.UpdateRevision)
	}
}

// updatedDaemon reports whether a DaemonSet's pod counts as updated: the template is the same, or, as in Kubernetes, the number of the
// template, which an earlier DaemonSet of the name may have used for another one.
func updatedDaemon(s *appsv1.DaemonSet, p *corev1.Pod) bool {
	return p.Spec.Containers[0].Image == s.Spec.Template.Spec.Containers[0].Image ||
		p.Labels["pod-template-generation"] == s.Annotations[appsv1.DeprecatedTemplateGeneration]
}

func (r *run) checkDaemonSet(s *appsv1.DaemonSet, pods []*corev1.Pod, count func(string, int32, int32), say sayer) {
	on := map[string]int{}
	for _, p := range pods {
		on[p.Spec.NodeName]++
		if !available(p, s.Spec.MinReadySeconds, r.Clock.Now()) {
			say(s, "pod %s is not available", p.Name)
		}
		if s.Spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType && !updatedDaemon(s, p) {
			say(s, "pod %s is not updated", p.Name)
		}
	}
	want := 0
	for _, n := range nodeNames {
		switch {
		case r.world.eligible(s, n):
			want++
			if on[n] != 1 {
				say(s, "%d pods on node %s", on[n], n)
			}
		case on[n] > 0:
			say(s, "%d pods on node %s, which it does not select", on[n], n)
		}
	}
	count("status.desiredNumberScheduled", s.Status.DesiredNumberScheduled, int32(want))
	count("status.currentNumberScheduled", s.Status.CurrentNumberScheduled, int32(want))
	count("status.numberAvailable", s.Status.NumberAvailable, int32(want))
	count("status.numberMisscheduled", s.Status.NumberMisscheduled, 0)
	count("status.observedGeneration", int32(s.Status.ObservedGeneration), int32(s.Generation))
}

func checkJob(j *batchv1.Job, pods []*corev1.Pod, count func(string, int32, int32), say sayer) {
	end := ""
	for _, c := range j.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			end += string(c.Type)
		}
	}
	for _, p := range pods {
		if active(p) && end != "" {
			say(j, "pod %s runs", p.Name)
		}
		if slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer) && !active(p) {
			say(j, "pod %s is not accounted for", p.Name)
		}
	}
	count("status.active", j.Status.Active, int32(len(slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool { return !active(p) }))))
	switch end {
	case string(batchv1.JobComplete):
		if j.Spec.Completions != nil {
			count("status.succeeded", j.Status.Succeeded, *j.Spec.Completions)
		} else if j.Status.Succeeded == 0 {
			say(j, "it is complete and no pod has succeeded")
		}
	case string(batchv1.JobFailed):
	default:
		if !unschedulable(pods) {
			say(j, "it has not ended: %d active, %d succeeded, %d failed, conditions %v", j.Status.Active, j.Status.Succeeded, j.Status.Failed, j.Status.Conditions)
		}
	}
}

// unschedulable reports whether a pod waits for a node with more resources than there are.
func unschedulable(pods []*corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return active(p) && p.Spec.Containers[0].Resources.Requests != nil })
}
