package virtual_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/internal/virtual"
	"github.com/minikctl/minikctl/pkg/objects"
)

var (
	controllers = corev1.SchemeGroupVersion.WithResource("replicationcontrollers")
	jobs        = batchv1.SchemeGroupVersion.WithResource("jobs")
)

// change is a change of an object, in the order of its revision.
type change struct {
	revision uint64
	at       time.Time
	old, obj objects.Object // nil: it did not exist, it no longer exists
}

// either returns the object after the change, or before its deletion.
func (c change) either() objects.Object {
	if c.obj == nil {
		return c.old
	}
	return c.obj
}

// String describes a change in a line.
func (c change) String() string {
	obj, what := c.either(), "changed"
	switch {
	case c.obj == nil:
		what = "deleted"
	case c.old == nil:
		what = "created"
	}
	line := fmt.Sprintf("%d %s %T %s %s: ", c.revision, c.at.Sub(virtual.Began), obj, obj.GetName(), what)
	if p, ok := obj.(*corev1.Pod); ok {
		return line + describePod(p, c.at)
	}
	return line + describe(obj) + progress(obj)
}

func describePod(p *corev1.Pod, now time.Time) string {
	var owners []string
	for _, ref := range p.OwnerReferences {
		owners = append(owners, ref.Kind+" "+ref.Name)
	}
	return fmt.Sprintf("node %q, %s, available %t, deleted %v, labels %v, owners %v", p.Spec.NodeName, p.Status.Phase, available(p, 0, now),
		p.DeletionTimestamp, p.Labels, owners)
}

// world is what the changes have shown: the objects, and for each owner what it specified since it was last complete.
type world struct {
	mu  sync.Mutex
	log []change

	pods   map[types.UID]*corev1.Pod
	owners map[types.UID]objects.Object // of all kinds
	nodes  map[string]*corev1.Node
	gone   map[types.UID]bool   // owners that did not exist any more at the last settle
	ending map[types.UID]bool   // pods that were being deleted at the last settle
	moved  map[types.UID]bool   // pods whose labels have changed since the last settle
	adopt  map[types.UID]bool   // pods that were created without their owner
	bounds map[types.UID]*bound // by owner
	broken []string             // rules that a change has broken
	recent []change             // the last ones, for reports
}

// desiredReplicas is the annotation of a Deployment's set with the size of the Deployment when the set was last resized.
const desiredReplicas = "deployment.kubernetes.io/desired-replicas"

// bound is what an owner has specified since it was last complete, and what happened to its pods without its doing.
type bound struct {
	generation  int64 // of the owner
	least, most int   // pods that must be available, pods that may exist
	before      int   // least before the last change of the specification
	rolling     bool  // it was always a rolling update
	recreate    bool  // it was always Recreate, and not paused
	partition   int   // pods of a StatefulSet below it have the current revision
	updates     int   // how often the template has changed
	disrupted   int   // pods that became unavailable, but not through the controller
	inFlight    map[string]bool
	ended       bool // a Job had finished at the last settle
}

func newWorld() *world {
	return &world{pods: map[types.UID]*corev1.Pod{}, owners: map[types.UID]objects.Object{}, nodes: map[string]*corev1.Node{},
		gone: map[types.UID]bool{}, ending: map[types.UID]bool{}, moved: map[types.UID]bool{}, adopt: map[types.UID]bool{}, bounds: map[types.UID]*bound{}}
}

// follow records all changes from now on. Caches count as busy until they have called their subscribers, so after an Advance none is missing.
func (w *world) follow(c *virtual.Cluster) {
	caches := client.NewCaches(c.Client, c.Clock)
	observe[*corev1.Pod](w, c, caches, client.Pods)
	observe[*corev1.Node](w, c, caches, client.Nodes)
	observe[*appsv1.Deployment](w, c, caches, client.Deployments)
	observe[*appsv1.ReplicaSet](w, c, caches, client.ReplicaSets)
	observe[*appsv1.StatefulSet](w, c, caches, client.StatefulSets)
	observe[*appsv1.DaemonSet](w, c, caches, client.DaemonSets)
	observe[*corev1.ReplicationController](w, c, caches, controllers)
	observe[*batchv1.Job](w, c, caches, jobs)
	in := clock.Starting(c.Clock, "the test's caches")
	ended := make(chan error, 1)
	go func() { ended <- caches.Run(in(c.Context())) }()
	c.Cleanup(func() { <-ended })
}

func observe[T objects.Object](w *world, c *virtual.Cluster, caches *client.Caches, resource schema.GroupVersionResource) {
	client.CacheOf[T](caches, resource).Subscribe(func(ch client.Change[T]) {
		next := change{revision: ch.Revision, at: c.Clock.Now()}
		if !ch.Added() {
			next.old = ch.Old
		}
		if !ch.Deleted() {
			next.obj = ch.New
		}
		w.mu.Lock()
		w.log = append(w.log, next)
		w.mu.Unlock()
	})
}

// check applies the changes since the last call in the order in which they were made, and returns the rules that they broke.
func (w *world) check(f *faults) []string {
	w.mu.Lock()
	log := w.log
	w.log = nil
	w.mu.Unlock()
	slices.SortStableFunc(log, func(a, b change) int { return cmp.Compare(a.revision, b.revision) })
	f.mu.Lock()
	defer f.mu.Unlock()
	w.broken = nil
	report := "" // about the first rule that is broken
	for _, c := range log {
		if *follow != "" && strings.HasPrefix(c.either().GetName(), *follow) {
			fmt.Println(c)
		}
		w.recent = remember(w.recent, c)
		if w.apply(c, f); len(w.broken) > 0 && report == "" {
			report = w.report(c, f)
		}
	}
	if report != "" {
		w.broken = append(w.broken, report)
	}
	return w.broken
}

func (w *world) breaks(c change, format string, args ...any) {
	obj := c.either()
	w.broken = append(w.broken, fmt.Sprintf("%s at revision %d, %s: ", obj.GetName(), c.revision, c.at.Sub(virtual.Began))+fmt.Sprintf(format, args...))
}

func (w *world) apply(c change, f *faults) {
	obj := c.either()
	switch o := obj.(type) {
	case *corev1.Pod:
		old, _ := c.old.(*corev1.Pod)
		pod, _ := c.obj.(*corev1.Pod)
		if old != nil && pod != nil && old.UID != pod.UID { // deleted and created again
			w.pod(change{revision: c.revision, at: c.at, old: old}, old, nil, f)
			w.pod(change{revision: c.revision, at: c.at, obj: pod}, nil, pod, f)
			return
		}
		w.pod(c, old, pod, f)
	case *corev1.Node:
		if c.obj == nil {
			delete(w.nodes, o.Name)
		} else {
			w.nodes[o.Name] = o
		}
		w.forgetFlights()
	default:
		if c.old != nil && (c.obj == nil || c.obj.GetUID() != c.old.GetUID()) {
			delete(w.owners, c.old.GetUID())
		}
		if c.obj != nil {
			w.owners[obj.GetUID()] = obj
			w.specified(obj)
			if set, ok := c.obj.(*appsv1.ReplicaSet); ok {
				old, _ := c.old.(*appsv1.ReplicaSet)
				if d := w.controllerOf(set); d != nil && old != nil && w.controllerOf(old) == nil { // adopted
					w.bounds[d.GetUID()].disrupted += w.bounds[set.UID].disrupted
				}
				w.resized(c, old, set)
			}
			if t, old := templateOf(obj), c.old; t != nil && old != nil && !equality.Semantic.DeepEqual(t, templateOf(old)) {
				w.bounds[obj.GetUID()].updates++
			}
		}
	}
}

// forgetFlights forgets the deleted pods of DaemonSets on nodes that are no longer theirs.
func (w *world) forgetFlights() {
	for uid, owner := range w.owners {
		if set, ok := owner.(*appsv1.DaemonSet); ok {
			for node := range w.bounds[uid].inFlight {
				if !w.eligible(set, node) {
					delete(w.bounds[uid].inFlight, node)
				}
			}
		}
	}
}

// specified widens the bound of an owner by what it specifies now.
func (w *world) specified(obj objects.Object) {
	b := w.bounds[obj.GetUID()]
	if b == nil {
		w.bounds[obj.GetUID()] = newBound(obj)
		return
	}
	if b.generation != obj.GetGeneration() {
		b.before, b.generation = b.least, obj.GetGeneration()
	}
	b.partition = min(b.partition, partitionOf(obj))
	least, most, rolling, recreate := limits(obj)
	b.least, b.most = min(b.least, least), max(b.most, most)
	b.rolling, b.recreate = b.rolling && rolling, b.recreate && recreate
}

func newBound(obj objects.Object) *bound {
	least, most, rolling, recreate := limits(obj)
	return &bound{generation: obj.GetGeneration(), least: least, before: least, most: most, rolling: rolling, recreate: recreate, partition: partitionOf(obj), inFlight: map[string]bool{}}
}

// partitionOf returns the partition of a StatefulSet, 0 if it has none.
func partitionOf(obj objects.Object) int {
	s, ok := obj.(*appsv1.StatefulSet)
	if !ok || s.Spec.UpdateStrategy.RollingUpdate == nil || s.Spec.UpdateStrategy.RollingUpdate.Partition == nil {
		return 0
	}
	return int(*s.Spec.UpdateStrategy.RollingUpdate.Partition)
}

// limits returns how many pods of an owner must be available and how many may exist.
func limits(obj objects.Object) (least, most int, rolling, recreate bool) {
	switch o := obj.(type) {
	case *appsv1.Deployment:
		n := int(*o.Spec.Replicas)
		if o.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
			// A paused Deployment without active sets gives all replicas to its newest one and does not wait for old pods, as in Kubernetes.
			return 0, n, false, !o.Spec.Paused
		}
		surge, _ := intstr.GetScaledValueFromIntOrPercent(o.Spec.Strategy.RollingUpdate.MaxSurge, n, true)
		off, _ := intstr.GetScaledValueFromIntOrPercent(o.Spec.Strategy.RollingUpdate.MaxUnavailable, n, false)
		if surge == 0 && off == 0 {
			off = 1
		}
		return n - off, n + surge, true, false
	case *appsv1.ReplicaSet:
		return 0, int(*o.Spec.Replicas), false, false
	case *corev1.ReplicationController:
		return 0, int(*o.Spec.Replicas), false, false
	case *appsv1.StatefulSet:
		return int(*o.Spec.Replicas), int(*o.Spec.Replicas), o.Spec.PodManagementPolicy != appsv1.ParallelPodManagement, false
	case *appsv1.DaemonSet:
		if o.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
			return 0, 0, false, false
		}
		return -o.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable.IntValue(), o.Spec.UpdateStrategy.RollingUpdate.MaxSurge.IntValue(), true, false
	case *batchv1.Job:
		n := int(*o.Spec.Parallelism)
		if o.Spec.Completions != nil {
			n = min(n, int(*o.Spec.Completions))
		}
		return 0, n, false, false
	}
	return 0, 0, false, false
}

// controllerOf returns the owner that controls an object, nil if there is none or it does not exist.
func (w *world) controllerOf(obj objects.Object) objects.Object {
	if ref := metav1.GetControllerOfNoCopy(obj); ref != nil {
		return w.owners[ref.UID]
	}
	return nil
}

// podsOf returns the pods that match.
func (w *world) podsOf(match func(*corev1.Pod) bool) []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range w.pods {
		if match(p) {
			out = append(out, p)
		}
	}
	return out
}

func active(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

// available reports whether a pod counts as available for a time.
func available(p *corev1.Pod, minReady int32, now time.Time) bool {
	if p == nil || !active(p) {
		return false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue && (minReady == 0 || !c.LastTransitionTime.Add(time.Duration(minReady)*time.Second).After(now))
		}
	}
	return false
}

func minReadyOf(owner objects.Object) int32 {
	switch o := owner.(type) {
	case *appsv1.Deployment:
		return o.Spec.MinReadySeconds
	case *appsv1.ReplicaSet:
		return o.Spec.MinReadySeconds
	case *corev1.ReplicationController:
		return o.Spec.MinReadySeconds
	case *appsv1.StatefulSet:
		return o.Spec.MinReadySeconds
	case *appsv1.DaemonSet:
		return o.Spec.MinReadySeconds
	}
	return 0
}

// selects reports whether an owner's selector matches an object.
func selects(owner, obj objects.Object) bool {
	var s *metav1.LabelSelector
	switch o := owner.(type) {
	case *appsv1.Deployment:
		s = o.Spec.Selector
	case *appsv1.ReplicaSet:
		s = o.Spec.Selector
	case *corev1.ReplicationController:
		return labels.SelectorFromSet(o.Spec.Selector).Matches(labels.Set(obj.GetLabels()))
	case *appsv1.StatefulSet:
		s = o.Spec.Selector
		if prefix, n := ordinal(obj.GetName()); prefix != o.Name || n < 0 {
			return false
		}
	case *appsv1.DaemonSet:
		s = o.Spec.Selector
	case *batchv1.Job:
		s = o.Spec.Selector
	default:
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(obj.GetLabels()))
}

// ordinal splits the name of a StatefulSet's pod.
func ordinal(pod string) (set string, n int) {
	i := strings.LastIndexByte(pod, '-')
	if i < 0 {
		return pod, -1
	}
	n, err := strconv.Atoi(pod[i+1:])
	if err != nil {
		return pod, -1
	}
	return pod[:i], n
}

// nodeOfDaemon returns the node that a DaemonSet has made a pod for.
func nodeOfDaemon(p *corev1.Pod) string {
	if p.Spec.Affinity != nil && p.Spec.Affinity.NodeAffinity != nil {
		for _, t := range p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, f := range t.MatchFields {
				if f.Key == metav1.ObjectNameField {
					return f.Values[0]
				}
			}
		}
	}
	return p.Spec.NodeName
}
