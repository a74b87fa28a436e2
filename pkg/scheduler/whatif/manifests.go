// Package whatif answers what a scheduler would do: where the pods of manifests would go in a cluster, how many more fit, and how configurations
// compare on the same workload. Everything happens in a scheduler.Sandbox; no cluster is changed.
package whatif

import (
	"cmp"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	Selecting  []objects.Object // Services, and the controllers of pods, by whose selectors pods without constraints are spread

	Storage
	Devices

	GroupDefinition *apiextensionsv1.CustomResourceDefinition // of the PodGroups of scheduling.x-k8s.io; nil: the cluster has none
}

// Manifest is an object of a file.
type Manifest struct {
	*unstructured.Unstructured
	File string // for errors; "": none
}

// Workload is the pods of a manifest, which are equal except for their names.
type Workload struct {
	Name string // Pod/NAME, Deployment/NAME, …
	Pods []*corev1.Pod

	create func(i int) (*corev1.Pod, []*corev1.PersistentVolumeClaim) // returns a pod and its claims; nil: further pods are copies
}

// more returns a further pod like those of the workload, of which it is the one at i, and its claims.
func (w *Workload) more(i int) (*corev1.Pod, []*corev1.PersistentVolumeClaim) {
	first := w.Pods[0]
	if w.create != nil {
		pod, claims := w.create(i)
		pod.Spec.Priority, pod.Spec.PreemptionPolicy = first.Spec.Priority, first.Spec.PreemptionPolicy
		return pod, claims
	}
	pod := first.DeepCopy()
	pod.Name, pod.UID, pod.Spec.NodeName = fmt.Sprintf("%s-%d", pod.Name, i), "", ""
	return pod, ephemeralClaims(pod)
}

// Manifests are the objects of files.
type Manifests struct {
	Cluster
	Workloads []Workload

	podRow   objects.Resource
	made     []*corev1.PersistentVolumeClaim // of the workloads, where the cluster does not have them
	labelled []Manifest                      // the PodGroups of scheduling.x-k8s.io, which are validated once their definition is known
}

// Read sorts the objects of manifests: nodes, namespaces, budgets, priority classes and pods that have a node are the state of a cluster, other pods and
// what has a template of pods are workloads. Objects of other kinds are left out if they have no pods: skipped lists their kinds.
func Read(list []Manifest, namespace string) (m *Manifests, skipped []string, err error) {
	m = &Manifests{podRow: objects.Row(core.Pods)}
	for _, u := range list {
		known, err := m.add(u, namespace)
		if err != nil {
			return nil, nil, u.wrap(err)
		}
		if !known && !slices.Contains(skipped, u.GetKind()) {
			skipped = append(skipped, u.GetKind())
		}
	}
	return m, skipped, nil
}

// wrap adds the file and the object to an error. Those of validation name the object.
func (u Manifest) wrap(err error) error {
	if !apierrors.IsInvalid(err) {
		err = fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
	}
	if u.File == "" {
		return err
	}
	return fmt.Errorf("%s: %w", u.File, err)
}

// Append adds the objects of other manifests that are the state of a cluster.
func (m *Manifests) Append(other *Manifests) {
	m.Nodes, m.Pods = append(m.Nodes, other.Nodes...), append(m.Pods, other.Pods...)
	m.Namespaces, m.Budgets = append(m.Namespaces, other.Namespaces...), append(m.Budgets, other.Budgets...)
	m.Priorities, m.PodGroups = append(m.Priorities, other.Priorities...), append(m.PodGroups, other.PodGroups...)
	m.Selecting = append(m.Selecting, other.Selecting...)
	m.Claims, m.Volumes, m.Classes = append(m.Claims, other.Claims...), append(m.Volumes, other.Volumes...), append(m.Classes, other.Classes...)
	m.Drivers, m.Attachments = append(m.Drivers, other.Drivers...), append(m.Attachments, other.Attachments...)
	m.Devices.append(&other.Devices)
	m.GroupDefinition, m.labelled = cmp.Or(m.GroupDefinition, other.GroupDefinition), append(m.labelled, other.labelled...)
}

// Complete sets the pods' priorities by the cluster's classes, and validates PodGroups by the cluster's definition. It comes before a simulation, when
// all of these are known.
func (m *Manifests) Complete() error {
	if err := m.validateLabelled(); err != nil {
		return err
	}
	m.addClaims(m.made)
	for _, w := range m.Workloads {
		for _, pod := range w.Pods {
			if err := m.setPriority(pod); err != nil {
				return fmt.Errorf("%s: %w", w.Name, err)
			}
		}
	}
	return nil
}

func (m *Manifests) add(u Manifest, namespace string) (known bool, err error) {
	kind := u.GroupVersionKind().GroupKind().String()
	if u.GetNamespace() != "" {
		namespace = u.GetNamespace()
	}
	template := func(t corev1.PodTemplateSpec, count int, owners ...metav1.OwnerReference) {
		m.addWorkload(u.GetKind()+"/"+u.GetName(), count, func(i int) (*corev1.Pod, []*corev1.PersistentVolumeClaim) {
			pod := m.fromTemplate(t, namespace, fmt.Sprintf("%s-%d", u.GetName(), i), owners...)
			return pod, ephemeralClaims(pod)
		})
	}
	switch kind {
	case "Node":
		if err := into(u.Unstructured, &m.Nodes); err != nil {
			return true, err
		}
		if n := m.Nodes[len(m.Nodes)-1]; n.Status.Allocatable == nil { // it has no kubelet
			n.Status.Allocatable = n.Status.Capacity
		}
		return true, nil
	case "Namespace":
		return true, into(u.Unstructured, &m.Namespaces)
	case "PodDisruptionBudget.policy":
		return true, into(u.Unstructured, &m.Budgets)
	case "PriorityClass.scheduling.k8s.io":
		return true, into(u.Unstructured, &m.Priorities)
	case "Pod":
		return true, m.addPod(u, namespace)
	case "Deployment.apps":
		d, err := converted[appsv1.Deployment](u.Unstructured)
		if err == nil {
			set := &appsv1.ReplicaSet{ObjectMeta: d.ObjectMeta, Spec: appsv1.ReplicaSetSpec{Selector: d.Spec.Selector}}
			template(d.Spec.Template, replicas(d.Spec.Replicas), m.owner(set, namespace, replicaSet))
		}
		return true, err
	case "ReplicaSet.apps":
		d, err := converted[appsv1.ReplicaSet](u.Unstructured)
		if err == nil {
			template(d.Spec.Template, replicas(d.Spec.Replicas), m.owner(d, namespace, replicaSet))
		}
		return true, err
	case "StatefulSet.apps":
		d, err := converted[appsv1.StatefulSet](u.Unstructured)
		if err == nil {
			m.addStatefulSet(d, namespace)
		}
		return true, err
	case "PersistentVolumeClaim":
		if err := into(u.Unstructured, &m.Claims); err != nil {
			return true, err
		}
		m.Claims[len(m.Claims)-1].Namespace = namespace
		return true, nil
	case "PersistentVolume":
		return true, into(u.Unstructured, &m.Volumes)
	case "StorageClass.storage.k8s.io":
		return true, into(u.Unstructured, &m.Classes)
	case "CSINode.storage.k8s.io":
		return true, into(u.Unstructured, &m.Drivers)
	case "VolumeAttachment.storage.k8s.io":
		return true, into(u.Unstructured, &m.Attachments)
	case "Service":
		var services []*corev1.Service
		if err := into(u.Unstructured, &services); err != nil {
			return true, err
		}
		services[0].Namespace = namespace
		m.Selecting = append(m.Selecting, services[0])
		return true, nil
	case "Job.batch":
		d, err := converted[batchv1.Job](u.Unstructured)
		if err == nil {
			template(d.Spec.Template, replicas(d.Spec.Parallelism))
		}
		return true, err
	case "DaemonSet.apps", "CronJob.batch", "ReplicationController":
		return true, fmt.Errorf("this kind cannot be simulated; Pods, Deployments, ReplicaSets, StatefulSets and Jobs can")
	}
	if u.GroupVersionKind().Group == resourcev1.GroupName {
		return m.addOfDevices(u.Unstructured, namespace)
	}
	return m.addOfGroups(kind, u, namespace)
}

// addWorkload adds a workload of count pods.
func (m *Manifests) addWorkload(name string, count int, create func(i int) (*corev1.Pod, []*corev1.PersistentVolumeClaim)) {
	w := Workload{Name: name, create: create}
	for i := range count {
		pod, claims := create(i)
		w.Pods, m.made = append(w.Pods, pod), append(m.made, claims...)
	}
	m.Workloads = append(m.Workloads, w)
}

// fromTemplate returns a pod of a controller.
func (m *Manifests) fromTemplate(t corev1.PodTemplateSpec, namespace, name string, owners ...metav1.OwnerReference) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: *t.ObjectMeta.DeepCopy(), Spec: *t.Spec.DeepCopy()}
	pod.Name, pod.Namespace, pod.OwnerReferences = name, namespace, owners
	m.podRow.Default(pod)
	return pod
}

// addStatefulSet adds the pods of a StatefulSet with their claims.
func (m *Manifests) addStatefulSet(set *appsv1.StatefulSet, namespace string) {
	owner, first := m.owner(set, namespace, statefulSet), 0
	if set.Spec.Ordinals != nil {
		first = int(set.Spec.Ordinals.Start)
	}
	m.addWorkload("StatefulSet/"+set.Name, replicas(set.Spec.Replicas), func(i int) (*corev1.Pod, []*corev1.PersistentVolumeClaim) {
		pod := m.fromTemplate(set.Spec.Template, namespace, fmt.Sprintf("%s-%d", set.Name, first+i), owner)
		claims := templateClaims(pod, set.Spec.VolumeClaimTemplates)
		return pod, append(claims, ephemeralClaims(pod)...)
	})
}

// addPod adds a pod: to the cluster's, or as a workload if it has no node.
func (m *Manifests) addPod(u Manifest, namespace string) error {
	var pods []*corev1.Pod
	if err := into(u.Unstructured, &pods); err != nil {
		return err
	}
	pod := pods[0]
	if phase := pod.Status.Phase; phase == corev1.PodSucceeded || phase == corev1.PodFailed {
		return nil // it takes up nothing
	}
	m.podRow.Default(pod)
	if pod.Namespace == "" {
		pod.Namespace = namespace
	}
	if pod.Spec.NodeName == "" {
		m.made = append(m.made, ephemeralClaims(pod)...)
		m.Workloads = append(m.Workloads, Workload{Name: "Pod/" + pod.Name, Pods: pods})
		return nil
	}
	if pod.UID == "" {
		pod.UID = types.UID(pod.Namespace + "/" + pod.Name)
	}
	m.Pods = append(m.Pods, pod)
	return nil
}

// addOfGroups adds a PodGroup, or the definition of those of scheduling.x-k8s.io.
func (m *Manifests) addOfGroups(kind string, u Manifest, namespace string) (known bool, err error) {
	switch kind {
	case "PodGroup.scheduling.k8s.io":
		group, err := podGroup(u.Unstructured, namespace)
		if err == nil {
			m.PodGroups = append(m.PodGroups, group)
		}
		return true, err
	case "PodGroup.scheduling.x-k8s.io":
		group := u.DeepCopy()
		group.SetNamespace(namespace)
		m.PodGroups, m.labelled = append(m.PodGroups, group), append(m.labelled, Manifest{group, u.File})
		return true, nil
	case "Workload.scheduling.k8s.io": // a template of PodGroups, which have a copy of it
		return true, nil
	case "CustomResourceDefinition.apiextensions.k8s.io":
		if u.GetName() == GroupDefinitionName {
			m.GroupDefinition, err = converted[apiextensionsv1.CustomResourceDefinition](u.Unstructured)
			return true, err
		}
	}
	return false, nil
}

var (
	replicaSet  = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
	statefulSet = appsv1.SchemeGroupVersion.WithKind("StatefulSet")
)

// owner adds the controller of pods, and returns the reference to it.
func (m *Manifests) owner(controller objects.Object, namespace string, kind schema.GroupVersionKind) metav1.OwnerReference {
	controller.SetNamespace(namespace)
	m.Selecting = append(m.Selecting, controller)
	return *metav1.NewControllerRef(controller, kind)
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
