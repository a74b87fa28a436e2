package scheduler

import (
	"context"
	"maps"

	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects"
)

// SimulatedObjects are the objects of a simulation, besides pods and nodes, which plugins read in the place of the API's. It is safe for concurrent use.
type SimulatedObjects struct{ of *watchedObjects }

// Get returns an object, which must not be changed.
func (s SimulatedObjects) Get(of framework.EventResource, key objects.Key) (objects.Object, bool) {
	return s.of.get(of, key)
}

// List returns the objects of a resource in no particular order. They must not be changed.
func (s SimulatedObjects) List(of framework.EventResource) []objects.Object {
	s.of.mu.RLock()
	defer s.of.mu.RUnlock()
	out := make([]objects.Object, 0, len(s.of.given[of]))
	for _, obj := range s.of.given[of] {
		out = append(out, obj)
	}
	return out
}

// Put adds or replaces an object.
func (s SimulatedObjects) Put(of framework.EventResource, obj objects.Object) { s.of.put(of, obj) }

// BindsSimulated is an optional interface of PreBind plugins that write other objects than the pod. In a simulation BindSimulated is called in the
// place of PreBind, and puts what would be written into the SimulatedObjects. Pods that come later find it there.
type BindsSimulated interface {
	framework.PreBindPlugin
	BindSimulated(ctx context.Context, state framework.CycleState, node string)
}

// mark returns a function that brings back the objects of the simulation as they are now.
func (w *watchedObjects) mark() (restore func()) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	before := make(map[framework.EventResource]map[objects.Key]objects.Object, len(w.given))
	for of, byKey := range w.given {
		before[of] = maps.Clone(byKey)
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for of, byKey := range w.given { // the maps themselves stay: find has them
			clear(byKey)
			maps.Copy(byKey, before[of])
		}
	}
}
