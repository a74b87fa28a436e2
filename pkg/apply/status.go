package apply

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// status is the progress of an object towards its desired state. The rules are those of kstatus (sigs.k8s.io/cli-utils):
// an object is current when its controller has observed it and the cluster matches its spec.
type status struct {
	progress string // what is missing, or what was reached; "" for objects without progress
	current  bool
	final    bool // current, and nothing can change that: a completed Job
	hold     bool // current only while its pods stay up
}

// errTerminating ends a wait for an object that is being deleted.
var errTerminating = errors.New("it is being deleted")

// statusOf returns the status of obj. The error explains why obj can't become current.
func statusOf(obj *unstructured.Unstructured) (status, error) {
	if obj.GetDeletionTimestamp() != nil {
		return status{}, errTerminating
	}
	rule, ok := rules[obj.GroupVersionKind().GroupKind()]
	if ok {
		return rule(obj)
	}
	return generic(obj)
}

// rules are the rules of the kinds with special status fields. Other kinds follow the conventions (see generic).
var rules = map[schema.GroupKind]func(*unstructured.Unstructured) (status, error){
	{Kind: "Pod"}:                                  decoded(podStatus),
	{Kind: "ReplicationController"}:                decoded(replicationControllerStatus),
	{Kind: "PersistentVolumeClaim"}:                decoded(claimStatus),
	{Kind: "Service"}:                              decoded(serviceStatus),
	{Group: "apps", Kind: "Deployment"}:            decoded(deploymentStatus),
	{Group: "apps", Kind: "ReplicaSet"}:            decoded(replicaSetStatus),
	{Group: "apps", Kind: "StatefulSet"}:           decoded(statefulSetStatus),
	{Group: "apps", Kind: "DaemonSet"}:             decoded(daemonSetStatus),
	{Group: "batch", Kind: "Job"}:                  decoded(jobStatus),
	{Group: "batch", Kind: "CronJob"}:              func(*unstructured.Unstructured) (status, error) { return status{current: true}, nil },
	{Group: "apiextensions.k8s.io", Kind: crdKind}: definitionStatus,
}

const crdKind = "CustomResourceDefinition"

// decoded adapts a rule for a Go type to unstructured objects.
func decoded[T any](rule func(*T) (status, error)) func(*unstructured.Unstructured) (status, error) {
	return func(u *unstructured.Unstructured) (status, error) {
		obj := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj); err != nil {
			return status{}, err
		}
		return rule(obj)
	}
}

func podStatus(pod *corev1.Pod) (status, error) {
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		return status{current: true, final: true}, nil
	case corev1.PodFailed:
		return status{}, fmt.Errorf("pod failed: %s", cmp.Or(joined(pod.Status.Reason, pod.Status.Message), exits(pod)))
	}
	return status{current: podReady(pod), hold: true}, nil
}

// exits returns how the containers of a failed pod ended.
func exits(pod *corev1.Pod) string {
	var out []string
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
			out = append(out, fmt.Sprintf("container %s exited with code %d", c.Name, t.ExitCode))
		}
	}
	return strings.Join(out, ", ")
}

func joined(words ...string) string {
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), ": ")
}

func deploymentStatus(d *appsv1.Deployment) (status, error) {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Reason == "ProgressDeadlineExceeded" {
			return status{}, fmt.Errorf("deployment %q exceeded its progress deadline", d.Name)
		}
	}
	want, s := replicasOf(d.Spec.Replicas), d.Status
	name := fmt.Sprintf("deployment %q", d.Name)
	switch {
	case s.ObservedGeneration < d.Generation:
		return waiting("Waiting for deployment spec update to be observed...")
	case s.UpdatedReplicas < want:
		return waiting("Waiting for %s rollout to finish: %d out of %d new replicas have been updated...", name, s.UpdatedReplicas, want)
	case s.Replicas > s.UpdatedReplicas:
		return waiting("Waiting for %s rollout to finish: %d old replicas are pending termination...", name, s.Replicas-s.UpdatedReplicas)
	case s.AvailableReplicas < want:
		return waiting("Waiting for %s rollout to finish: %d of %d updated replicas are available...", name, s.AvailableReplicas, want)
	}
	return reached("%s successfully rolled out", name)
}

func replicaSetStatus(r *appsv1.ReplicaSet) (status, error) {
	for _, c := range r.Status.Conditions {
		if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
			return waiting("%s", joined(c.Reason, c.Message))
		}
	}
	return replicas(r.Generation, r.Status.ObservedGeneration, replicasOf(r.Spec.Replicas), r.Status.Replicas, r.Status.AvailableReplicas)
}

func replicationControllerStatus(r *corev1.ReplicationController) (status, error) {
	return replicas(r.Generation, r.Status.ObservedGeneration, replicasOf(r.Spec.Replicas), r.Status.Replicas, r.Status.AvailableReplicas)
}

func replicas(generation, observed int64, want, have, available int32) (status, error) {
	if observed < generation || available < want || have > want {
		return waiting("%d of %d replicas are available", available, want)
	}
	return reached("%d of %d replicas are available", available, want)
}

func statefulSetStatus(set *appsv1.StatefulSet) (status, error) {
	want, s := replicasOf(set.Spec.Replicas), set.Status
	if set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType { // the user replaces the pods
		return replicas(set.Generation, s.ObservedGeneration, want, want, s.AvailableReplicas)
	}
	updated := want
	if u := set.Spec.UpdateStrategy.RollingUpdate; u != nil && u.Partition != nil {
		updated = max(0, want-*u.Partition)
	}
	switch {
	case s.ObservedGeneration < set.Generation:
		return waiting("Waiting for statefulset spec update to be observed...")
	case s.AvailableReplicas < want:
		return waiting("Waiting for %d pods to be ready...", want-s.AvailableReplicas)
	case s.Replicas > want:
		return waiting("Waiting for %d pods to end...", s.Replicas-want)
	case s.UpdatedReplicas < updated:
		return waiting("waiting for statefulset rolling update to complete %d pods at revision %s...", s.UpdatedReplicas, s.UpdateRevision)
	}
	return reached("statefulset rolling update complete %d pods at revision %s...", s.AvailableReplicas, s.UpdateRevision)
}

func daemonSetStatus(set *appsv1.DaemonSet) (status, error) {
	s, name := set.Status, fmt.Sprintf("daemon set %q", set.Name)
	switch {
	case s.ObservedGeneration < set.Generation:
		return waiting("Waiting for daemon set spec update to be observed...")
	case s.CurrentNumberScheduled < s.DesiredNumberScheduled:
		return waiting("Waiting for %s: %d out of %d pods are created...", name, s.CurrentNumberScheduled, s.DesiredNumberScheduled)
	case s.UpdatedNumberScheduled < s.DesiredNumberScheduled && set.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType:
		return waiting("Waiting for %s rollout to finish: %d out of %d new pods have been updated...", name, s.UpdatedNumberScheduled, s.DesiredNumberScheduled)
	case s.NumberAvailable < s.DesiredNumberScheduled:
		return waiting("Waiting for %s rollout to finish: %d of %d updated pods are available...", name, s.NumberAvailable, s.DesiredNumberScheduled)
	}
	return reached("%s successfully rolled out", name)
}

// jobStatus differs from kstatus in one rule: a Job that has started is current only while all its active pods are ready,
// not at once.
func jobStatus(j *batchv1.Job) (status, error) {
	want := cmp.Or(replicasOf(j.Spec.Completions), 1)
	for _, c := range j.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == batchv1.JobFailed:
			return status{}, fmt.Errorf("job failed: %s", joined(c.Reason, c.Message))
		case c.Type == batchv1.JobComplete:
			return status{progress: fmt.Sprintf("%d of %d completed", j.Status.Succeeded, want), current: true, final: true}, nil
		case c.Type == batchv1.JobSuspended:
			return status{progress: "suspended", current: true, final: true}, nil
		}
	}
	s := j.Status
	ready := int32(0)
	if s.Ready != nil {
		ready = *s.Ready
	}
	if s.StartTime == nil || s.Active == 0 || ready < s.Active {
		return waiting("%d of %d completed, %d of %d active pods are ready", s.Succeeded, want, ready, s.Active)
	}
	return reached("running: %d of %d completed, %d active pods are ready", s.Succeeded, want, ready)
}

func claimStatus(c *corev1.PersistentVolumeClaim) (status, error) {
	if c.Status.Phase != corev1.ClaimBound {
		return status{progress: "not bound yet"}, nil
	}
	return status{progress: "bound to " + c.Spec.VolumeName, current: true}, nil
}

func serviceStatus(s *corev1.Service) (status, error) {
	return status{current: s.Spec.Type != corev1.ServiceTypeLoadBalancer || s.Spec.ClusterIP != ""}, nil
}

// definitionStatus returns the status of a CustomResourceDefinition, which is current once the API server serves its
// kind.
func definitionStatus(obj *unstructured.Unstructured) (status, error) {
	established := conditionOf(obj, "Established")
	if accepted := conditionOf(obj, "NamesAccepted"); accepted.Status == metav1.ConditionFalse {
		return status{}, fmt.Errorf("its names are not accepted: %s", accepted.Message)
	}
	return status{current: established.Status == metav1.ConditionTrue}, nil
}

// generic is the rule for all other kinds: the controller has observed the spec, and no condition reports that the object is
// not ready. Objects without conditions are current at once.
func generic(obj *unstructured.Unstructured) (status, error) {
	if observed, ok, err := unstructured.NestedInt64(obj.Object, "status", "observedGeneration"); err == nil && ok && observed < obj.GetGeneration() {
		return waiting("its controller has not observed the change yet")
	}
	if c := conditionOf(obj, "Stalled"); c.Status == metav1.ConditionTrue {
		return status{}, fmt.Errorf("stalled: %s", joined(c.Reason, c.Message))
	}
	if c := conditionOf(obj, "Reconciling"); c.Status == metav1.ConditionTrue {
		return status{progress: joined("reconciling", c.Reason, c.Message)}, nil
	}
	if c := conditionOf(obj, "Ready"); c.Status == metav1.ConditionFalse || c.Status == metav1.ConditionUnknown {
		return status{progress: joined("not ready", c.Reason, c.Message)}, nil
	}
	return status{current: true}, nil
}

// conditionOf returns the condition of this type, or an empty one.
func conditionOf(obj *unstructured.Unstructured, kind string) metav1.Condition {
	list, _, err := unstructured.NestedSlice(obj.Object, "status", "conditions")
	if err != nil {
		return metav1.Condition{} // not the conventional form
	}
	for _, item := range list {
		m, ok := item.(map[string]any)
		if !ok || m["type"] != kind {
			continue
		}
		text := func(key string) string { s, _ := m[key].(string); return s }
		return metav1.Condition{Type: kind, Status: metav1.ConditionStatus(text("status")), Reason: text("reason"), Message: text("message")}
	}
	return metav1.Condition{}
}

func replicasOf(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

func waiting(format string, args ...any) (status, error) {
	return status{progress: fmt.Sprintf(format, args...), hold: true}, nil
}

func reached(format string, args ...any) (status, error) {
	return status{progress: fmt.Sprintf(format, args...), current: true, hold: true}, nil
}
