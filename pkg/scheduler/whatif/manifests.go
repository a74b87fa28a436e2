// Package whatif answers what a scheduler would do: where the pods of manifests would go in a cluster, how many more fit, and how configurations
// compare on the same workload. Everything happens in a scheduler.Sandbox; no cluster is changed.
package whatif

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/core"
)

// Cluster is the state of a cluster that scheduling depends on.
type Cluster struct {
	Nodes      []*corev1.Node
	Pods       []*corev1.Pod // with and without a node
	Namespaces []*corev1.Namespace
	Budgets    []*policyv1.PodDisruptionBudget
	Priorities []*schedulingv1.PriorityClass
	PodGroups  []objects.Object // of scheduling.k8s.io, and unstructured ones of scheduling.x-k8s.io
}

// Workload is the pods of a manifest, which are equal except for their names.
type Workload struct {
	Name string // Pod/NAME, Deployment/NAME, …
	Pods []*corev1.Pod
}

// Manifests are the objects of files.
type Manifests struct {
	Cluster
	Workloads []Workload

	podRow objects.Resource
}

// Read sorts the objects of manifests: nodes, namespaces, budgets, priority classes and pods that have a node are the state of a cluster, other pods and
// what has a template of pods are workloads. Objects of other kinds are left out if they have no pods: skipped lists their kinds.
func Read(list []*unstructured.Unstructured, namespace string) (m *Manifests, skipped []string, err error) {
	m = &Manifests{podRow: objects.Row(core.Pods)}
	for _, u := range list {
		known, err := m.add(u, namespace)
		if err != nil {
			return nil, nil, fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
		}
		if !known && !slices.Contains(skipped, u.GetKind()) {
			skipped = append(skipped, u.GetKind())
		}
	}
	return m, skipped, nil
}

// Complete sets the pods' priorities by the cluster's classes. It comes before a simulation, when all classes are known.
func (m *Manifests) Complete() error {
	for _, w := range m.Workloads {
		for _, pod := range w.Pods {
			if err := m.setPriority(pod); err != nil {
				return fmt.Errorf("%s: %w", w.Name, err)
			}
		}
	}
	return nil
}

func (m *Manifests) add(u *unstructured.Unstructured, namespace string) (known bool, err error) {
	kind := u.GroupVersionKind().GroupKind().String()
	if u.GetNamespace() != "" {
		namespace = u.GetNamespace()
	}
	template := func(t corev1.PodTemplateSpec, count int) {
		w := Workload{Name: u.GetKind() + "/" + u.GetName()}
		for i := range count {
			pod := &corev1.Pod{ObjectMeta: *t.ObjectMeta.DeepCopy(), Spec: *t.Spec.DeepCopy()}
			pod.Name, pod.Namespace = fmt.Sprintf("%s-%d", u.GetName(), i), namespace
			m.podRow.Default(pod)
			w.Pods = append(w.Pods, pod)
		}
		m.Workloads = append(m.Workloads, w)
	}
	switch kind {
	case "Node":
		if err := into(u, &m.Nodes); err != nil {
			return true, err
		}
		if n := m.Nodes[len(m.Nodes)-1]; n.Status.Allocatable == nil { // it has no kubelet
			n.Status.Allocatable = n.Status.Capacity
		}
		return true, nil
	case "Namespace":
		return true, into(u, &m.Namespaces)
	case "PodDisruptionBudget.policy":
		return true, into(u, &m.Budgets)
	case "PriorityClass.scheduling.k8s.io":
		return true, into(u, &m.Priorities)
	case "PodGroup.scheduling.k8s.io":
		var groups []*schedulingv1alpha2.PodGroup
		if err := into(u, &groups); err != nil {
			return true, err
		}
		groups[0].Namespace = namespace
		m.PodGroups = append(m.PodGroups, groups[0])
		return true, nil
	case "PodGroup.scheduling.x-k8s.io":
		group := u.DeepCopy()
		group.SetNamespace(namespace)
		m.PodGroups = append(m.PodGroups, group)
		return true, nil
	case "Pod":
		var pods []*corev1.Pod
		if err := into(u, &pods); err != nil {
			return true, err
		}
		if phase := pods[0].Status.Phase; phase == corev1.PodSucceeded || phase == corev1.PodFailed {
			return true, nil // it takes up nothing
		}
		m.podRow.Default(pods[0])
		if pods[0].Namespace == "" {
			pods[0].Namespace = namespace
		}
		if pods[0].Spec.NodeName != "" {
			if pods[0].UID == "" {
				pods[0].UID = types.UID(pods[0].Namespace + "/" + pods[0].Name)
			}
			m.Pods = append(m.Pods, pods[0])
		} else {
			m.Workloads = append(m.Workloads, Workload{Name: "Pod/" + pods[0].Name, Pods: pods})
		}
		return true, nil
	case "Deployment.apps":
		d, err := converted[appsv1.Deployment](u)
		if err == nil {
			template(d.Spec.Template, replicas(d.Spec.Replicas))
		}
		return true, err
	case "ReplicaSet.apps":
		d, err := converted[appsv1.ReplicaSet](u)
		if err == nil {
			template(d.Spec.Template, replicas(d.Spec.Replicas))
		}
		return true, err
	case "StatefulSet.apps":
		d, err := converted[appsv1.StatefulSet](u)
		if err == nil {
			template(d.Spec.Template, replicas(d.Spec.Replicas))
		}
		return true, err
	case "Job.batch":
		d, err := converted[batchv1.Job](u)
		if err == nil {
			template(d.Spec.Template, replicas(d.Spec.Parallelism))
		}
		return true, err
	case "DaemonSet.apps", "CronJob.batch", "ReplicationController":
		return true, fmt.Errorf("this kind cannot be simulated; Pods, Deployments, ReplicaSets, StatefulSets and Jobs can")
	}
	return false, nil
}

func replicas(n *int32) int {
	if n == nil {
		return 1
	}
	return int(*n)
}

func converted[T any](u *unstructured.Unstructured) (*T, error) {
	out := new(T)
	return out, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, out, true)
}

// into appends an object to a list.
func into[T any](u *unstructured.Unstructured, list *[]*T) error {
	out, err := converted[T](u)
	if err != nil {
		return err
	}
	*list = append(*list, out)
	return nil
}

// setPriority sets the pod's priority by its class, or by the default class.
func (c *Cluster) setPriority(pod *corev1.Pod) error {
	if pod.Spec.Priority != nil {
		return nil
	}
	name := pod.Spec.PriorityClassName
	var found *schedulingv1.PriorityClass
	for _, p := range c.Priorities {
		if p.Name == name || name == "" && p.GlobalDefault {
			found = p
		}
	}
	switch {
	case found != nil:
		pod.Spec.Priority, pod.Spec.PreemptionPolicy = new(found.Value), found.PreemptionPolicy
	case name == "system-node-critical":
		pod.Spec.Priority = new(int32(2000001000))
	case name == "system-cluster-critical":
		pod.Spec.Priority = new(int32(2000000000))
	case name != "":
		return fmt.Errorf("no PriorityClass with name %s was found", name)
	default:
		pod.Spec.Priority = new(int32(0))
	}
	return nil
}

// Unsimulated returns the names of the volumes and resource claims of the workload's pods that are not simulated.
func (w Workload) Unsimulated() []string {
	if len(w.Pods) == 0 {
		return nil
	}
	var out []string
	spec := w.Pods[0].Spec
	for _, v := range spec.Volumes {
		if v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			out = append(out, "volume "+v.Name)
		}
	}
	for _, c := range spec.ResourceClaims {
		out = append(out, "resource claim "+c.Name)
	}
	return out
}
