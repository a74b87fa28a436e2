package virtual_test

import (
	"fmt"
	"math/rand/v2"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/kubelet/sim"
	"github.com/minikctl/minikctl/pkg/objects"
)

// dedicated is the key of the taint that keeps pods away from a node.
const dedicated = "dedicated"

// app is the label that workloads select their pods by.
const app = "app"

// workload is a workload that steps may create, change and delete.
type workload struct {
	kind     string
	name     string
	resource schema.GroupVersionResource
	spec     func(name string, rng *rand.Rand) objects.Object
}

func (w workload) target() client.Target {
	return client.Target{Resource: w.resource, Namespace: "default", Name: w.name}
}

var workloads = func() []workload {
	var out []workload
	add := func(kind, prefix string, n int, resource schema.GroupVersionResource, spec func(string, *rand.Rand) objects.Object) {
		for i := range n {
			out = append(out, workload{kind, fmt.Sprintf("%s%d", prefix, i), resource, spec})
		}
	}
	add("Deployment", "deployment", 3, client.Deployments, newDeployment)
	add("ReplicaSet", "set", 2, client.ReplicaSets, newReplicaSet)
	add("ReplicationController", "rc", 1, controllers, newController)
	add("StatefulSet", "stateful", 3, client.StatefulSets, newStatefulSet)
	add("DaemonSet", "daemon", 2, client.DaemonSets, newDaemonSet)
	add("Job", "job", 3, jobs, newJob)
	return out
}()

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: "default"}
}

func selector(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{app: name}}
}

// template returns one of four good templates of a workload, or with a chance of one in eight a bad one: its pods fit on no node, or fail.
func template(name string, rng *rand.Rand) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{app: name}}}
	t.Spec.Containers = []corev1.Container{{Name: "main", Image: fmt.Sprintf("image:%d", rng.IntN(4))}}
	t.Spec.TerminationGracePeriodSeconds = new(int64(rng.IntN(2) * 30))
	switch rng.IntN(16) {
	case 0:
		t.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("9999")}
	case 1:
		t.Annotations = map[string]string{sim.ExitAfter: "3s", sim.ExitCode: "1"}
	}
	return t
}

// good returns a template without the faults of others.
func good(t *corev1.PodTemplateSpec) {
	t.Annotations = nil
	t.Spec.Containers[0].Resources.Requests = nil
}

func replicas(rng *rand.Rand) *int32 { return new(int32(rng.IntN(7))) }

func minReady(rng *rand.Rand) int32 { return int32(max(0, rng.IntN(4)-2) * 5) }

func newDeployment(name string, rng *rand.Rand) objects.Object {
	d := &appsv1.Deployment{ObjectMeta: meta(name), Spec: appsv1.DeploymentSpec{
		Replicas: replicas(rng), Selector: selector(name), Template: template(name, rng), MinReadySeconds: minReady(rng),
		RevisionHistoryLimit: new(int32(rng.IntN(3))), ProgressDeadlineSeconds: new(int32(60 + rng.IntN(600))),
	}}
	d.Spec.Strategy = strategy(rng)
	return d
}

func strategy(rng *rand.Rand) appsv1.DeploymentStrategy {
	if rng.IntN(4) == 0 {
		return appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}
	surge, off := intstr.FromInt32(int32(rng.IntN(4))), intstr.FromInt32(int32(rng.IntN(4)))
	if rng.IntN(3) == 0 {
		surge, off = intstr.FromString("25%"), intstr.FromString("34%")
	}
	if surge.IntValue() == 0 && off.IntValue() == 0 && surge.Type == intstr.Int {
		surge = intstr.FromInt32(1)
	}
	return appsv1.DeploymentStrategy{
		Type:          appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &off},
	}
}

func newReplicaSet(name string, rng *rand.Rand) objects.Object {
	return &appsv1.ReplicaSet{ObjectMeta: meta(name), Spec: appsv1.ReplicaSetSpec{
		Replicas: replicas(rng), Selector: selector(name), Template: template(name, rng), MinReadySeconds: minReady(rng)}}
}

func newController(name string, rng *rand.Rand) objects.Object {
	t := template(name, rng)
	return &corev1.ReplicationController{ObjectMeta: meta(name), Spec: corev1.ReplicationControllerSpec{
		Replicas: replicas(rng), Selector: map[string]string{app: name}, Template: &t, MinReadySeconds: minReady(rng)}}
}

func newStatefulSet(name string, rng *rand.Rand) objects.Object {
	s := &appsv1.StatefulSet{ObjectMeta: meta(name), Spec: appsv1.StatefulSetSpec{
		Replicas: replicas(rng), Selector: selector(name), Template: template(name, rng), MinReadySeconds: minReady(rng), ServiceName: name,
		RevisionHistoryLimit: new(int32(rng.IntN(3))), PodManagementPolicy: appsv1.OrderedReadyPodManagement,
	}}
	if rng.IntN(3) == 0 {
		s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	}
	s.Spec.UpdateStrategy = statefulStrategy(rng)
	return s
}

func statefulStrategy(rng *rand.Rand) appsv1.StatefulSetUpdateStrategy {
	switch rng.IntN(5) {
	case 0:
		return appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
	case 1, 2:
		return appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(rng.IntN(4)))}}
	}
	return appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType}
}

func newDaemonSet(name string, rng *rand.Rand) objects.Object {
	s := &appsv1.DaemonSet{ObjectMeta: meta(name), Spec: appsv1.DaemonSetSpec{
		Selector: selector(name), Template: template(name, rng), MinReadySeconds: minReady(rng), RevisionHistoryLimit: new(int32(rng.IntN(3)))}}
	if rng.IntN(2) == 0 {
		s.Spec.Template.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	}
	s.Spec.UpdateStrategy = daemonStrategy(rng)
	return s
}

func daemonStrategy(rng *rand.Rand) appsv1.DaemonSetUpdateStrategy {
	surge, off := intstr.FromInt32(0), intstr.FromInt32(int32(1+rng.IntN(2)))
	switch rng.IntN(4) {
	case 0:
		return appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
	case 1:
		surge, off = off, surge
	}
	return appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxSurge: &surge, MaxUnavailable: &off}}
}

func newJob(name string, rng *rand.Rand) objects.Object {
	j := &batchv1.Job{ObjectMeta: meta(name), Spec: batchv1.JobSpec{
		Parallelism: new(int32(1 + rng.IntN(4))), BackoffLimit: new(int32(rng.IntN(4))), Template: template(name, rng),
	}}
	if rng.IntN(4) > 0 {
		j.Spec.Completions = new(int32(1 + rng.IntN(6)))
		if rng.IntN(2) == 0 {
			j.Spec.CompletionMode = new(batchv1.IndexedCompletion)
		}
	}
	j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	if rng.IntN(4) == 0 {
		j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	}
	if j.Spec.Template.Annotations == nil {
		j.Spec.Template.Annotations = map[string]string{sim.ExitAfter: fmt.Sprintf("%ds", rng.IntN(40))}
	}
	if rng.IntN(4) == 0 {
		j.Spec.TTLSecondsAfterFinished = new(int32(rng.IntN(100)))
	}
	return j
}
