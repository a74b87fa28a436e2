package scheduler

import (
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/podref"
)

// podGroups holds the pods of each scheduling group: those without a node, those that are assumed on one, and those that are bound. The
// scheduling loop changes it. It is a framework.PodGroupManager and a framework.PodGroupStateLister, and safe for concurrent use.
type podGroups struct {
	mu     sync.RWMutex
	groups map[objects.Key]*podGroup
}

// podGroup is the state of one group. Its fields are guarded by the mutex of podGroups.
type podGroup struct {
	mu       *sync.RWMutex
	all      map[types.UID]*corev1.Pod
	assumed  map[types.UID]*corev1.Pod // copies with their node
	assigned sets.Set[types.UID]
	outcome  groupOutcome
}

var (
	_ framework.PodGroupManager     = (*podGroups)(nil)
	_ framework.PodGroupStateLister = (*podGroups)(nil)
	_ framework.PodGroupState       = (*podGroup)(nil)
)

func newPodGroups() *podGroups { return &podGroups{groups: map[objects.Key]*podGroup{}} }

// set adds a pod to its group, or replaces it by a newer version.
func (g *podGroups) set(pod *corev1.Pod) {
	key, ok := podref.PodGroup(pod)
	if !ok {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	of := g.groups[key]
	if of == nil {
		of = &podGroup{mu: &g.mu, all: map[types.UID]*corev1.Pod{}, assumed: map[types.UID]*corev1.Pod{}, assigned: sets.New[types.UID]()}
		g.groups[key] = of
	}
	of.all[pod.UID] = pod
	if pod.Spec.NodeName != "" {
		of.assigned.Insert(pod.UID)
		delete(of.assumed, pod.UID)
	}
}

// remove removes a pod from its group.
func (g *podGroups) remove(pod *corev1.Pod) {
	g.change(pod, func(of *podGroup) {
		delete(of.all, pod.UID)
		delete(of.assumed, pod.UID)
		of.assigned.Delete(pod.UID)
	})
}

// assume marks a pod as assumed. pod is the copy with its node.
func (g *podGroups) assume(pod *corev1.Pod) {
	g.change(pod, func(of *podGroup) {
		if _, known := of.all[pod.UID]; known && !of.assigned.Has(pod.UID) {
			of.assumed[pod.UID] = pod
		}
	})
}

// forget ends the assumption of a pod.
func (g *podGroups) forget(pod *corev1.Pod) {
	g.change(pod, func(of *podGroup) { delete(of.assumed, pod.UID) })
}

// change applies f to the pod's group if there is one, and drops the group once it is empty.
func (g *podGroups) change(pod *corev1.Pod, f func(*podGroup)) {
	key, ok := podref.PodGroup(pod)
	if !ok {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	of := g.groups[key]
	if of == nil {
		return
	}
	f(of)
	if len(of.all) == 0 {
		delete(g.groups, key)
	}
}

// PodGroupStates implements framework.PodGroupManager.
func (g *podGroups) PodGroupStates() framework.PodGroupStateLister { return g }

// Get implements framework.PodGroupStateLister.
func (g *podGroups) Get(namespace, name string) (framework.PodGroupState, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if of := g.groups[objects.Key{Namespace: namespace, Name: name}]; of != nil {
		return of, nil
	}
	return nil, fmt.Errorf("pod group %s/%s: %w", namespace, name, framework.ErrNotFound)
}

// AllPods and the methods below implement framework.PodGroupState.
func (of *podGroup) AllPods() sets.Set[types.UID] {
	return read(of, func() sets.Set[types.UID] { return sets.KeySet(of.all) })
}
func (of *podGroup) AllPodsCount() int { return read(of, func() int { return len(of.all) }) }
func (of *podGroup) AssumedPods() sets.Set[types.UID] {
	return read(of, func() sets.Set[types.UID] { return sets.KeySet(of.assumed) })
}
func (of *podGroup) AssignedPods() sets.Set[types.UID] {
	return read(of, func() sets.Set[types.UID] { return of.assigned.Clone() })
}
func (of *podGroup) ScheduledPodsCount() int {
	return read(of, func() int { return len(of.assumed) + len(of.assigned) })
}

// UnscheduledPods returns the pods without a node by name.
func (of *podGroup) UnscheduledPods() map[string]*corev1.Pod {
	return read(of, func() map[string]*corev1.Pod {
		out := map[string]*corev1.Pod{}
		for uid, pod := range of.all {
			if of.assumed[uid] == nil && !of.assigned.Has(uid) {
				out[pod.Name] = pod
			}
		}
		return out
	})
}

// ScheduledPods returns the pods that are assumed or bound.
func (of *podGroup) ScheduledPods() []*corev1.Pod {
	return read(of, func() []*corev1.Pod {
		out := make([]*corev1.Pod, 0, len(of.assigned)+len(of.assumed))
		for uid := range of.assigned {
			out = append(out, of.all[uid])
		}
		for pod := range maps.Values(of.assumed) {
			out = append(out, pod)
		}
		return out
	})
}

// read calls f under the lock of the group.
func read[T any](of *podGroup, f func() T) T {
	of.mu.RLock()
	defer of.mu.RUnlock()
	return f()
}
