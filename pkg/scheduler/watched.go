package scheduler

import (
	"sync"

	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// watchedObjects finds the objects of the resources for whose events plugins registered, besides pods and nodes. It is safe for concurrent
// use.
type watchedObjects struct {
	mu   sync.RWMutex
	find map[framework.EventResource]func(objects.Key) (objects.Object, bool)

	// The fields below are those of a simulation.

	given    map[framework.EventResource]map[objects.Key]objects.Object
	follow   map[framework.EventResource]func(client.Change[objects.Object])
	announce func(framework.EventResource, client.Change[objects.Object]) // of the changes that plugins make; nil: nothing waits for them
	changes  int
	marks    int    // that have not ended
	undos    []undo // of the changes since the first of these
}

// watchedOf returns the objects of a simulation.
func watchedOf(given map[framework.EventResource][]objects.Object) *watchedObjects {
	w := &watchedObjects{given: map[framework.EventResource]map[objects.Key]objects.Object{}}
	for of, list := range given {
		for _, obj := range list {
			w.put(of, obj)
		}
	}
	return w
}

// put adds or replaces an object of a simulation, and returns the old one.
func (w *watchedObjects) put(of framework.EventResource, obj objects.Object) (old objects.Object) {
	return w.swap(of, objects.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}, obj)
}

// set sets the function that finds the objects of a resource.
func (w *watchedObjects) set(of framework.EventResource, find func(objects.Key) (objects.Object, bool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.setLocked(of, find)
}

// setLocked is set for callers that hold mu.
func (w *watchedObjects) setLocked(of framework.EventResource, find func(objects.Key) (objects.Object, bool)) {
	if w.find == nil {
		w.find = map[framework.EventResource]func(objects.Key) (objects.Object, bool){}
	}
	w.find[of] = find
}

// remove ends the lookup of a resource that is no longer watched.
func (w *watchedObjects) remove(of framework.EventResource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.find, of)
}

// get returns an object; false if there is none, or if its resource is not watched yet.
func (w *watchedObjects) get(of framework.EventResource, key objects.Key) (objects.Object, bool) {
	w.mu.RLock()
	find := w.find[of]
	w.mu.RUnlock()
	if find == nil {
		return nil, false
	}
	return find(key)
}

// podGroup returns a PodGroup of Kubernetes' API.
func (w *watchedObjects) podGroup(key objects.Key) (*schedulingv1alpha2.PodGroup, bool) {
	obj, ok := w.get(framework.PodGroup, key)
	if !ok {
		return nil, false
	}
	group, ok := obj.(*schedulingv1alpha2.PodGroup)
	return group, ok
}
