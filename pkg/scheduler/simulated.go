package scheduler

import (
	"context"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// SimulatedObjects are the objects of a simulation, besides pods and nodes, which plugins read in the place of the API's. It is safe for concurrent use.
type SimulatedObjects struct{ of *watchedObjects }

// Get returns an object, which must not be changed.
func (s SimulatedObjects) Get(of framework.EventResource, key objects.Key) (objects.Object, bool) {
	return s.of.get(of, key)
}

// All yields the objects of a resource in no particular order. They must not be changed, and until the last of them no object may be put or deleted.
func (s SimulatedObjects) All(of framework.EventResource) iter.Seq[objects.Object] {
	return func(yield func(objects.Object) bool) {
		s.of.mu.RLock()
		defer s.of.mu.RUnlock()
		for _, obj := range s.of.given[of] {
			if !yield(obj) {
				return
			}
		}
	}
}

// List returns the objects of a resource as All yields them.
func (s SimulatedObjects) List(of framework.EventResource) []objects.Object {
	return slices.Collect(s.All(of))
}

// Put adds or replaces an object. Pods of the scheduling queue for which that is an event are requeued before the next one is tried.
func (s SimulatedObjects) Put(of framework.EventResource, obj objects.Object) {
	s.announce(of, s.of.put(of, obj), obj)
}

// Delete deletes an object, if it is there. Pods of the scheduling queue are requeued as by Put.
func (s SimulatedObjects) Delete(of framework.EventResource, key objects.Key) {
	if old := s.of.swap(of, key, nil); old != nil {
		s.announce(of, old, nil)
	}
}

func (s SimulatedObjects) announce(of framework.EventResource, old, now objects.Object) {
	if s.of.announce != nil {
		s.of.announce(of, client.Change[objects.Object]{Old: old, New: now})
	}
}

// BindsSimulated is an optional interface of PreBind plugins that write other objects than the pod. In a simulation BindSimulated is called in the
// place of PreBind, and puts what would be written into the SimulatedObjects. Pods that come later find it there. It may be called twice with the same
// state, the second time after what it has put is gone again.
type BindsSimulated interface {
	framework.PreBindPlugin
	BindSimulated(ctx context.Context, state framework.CycleState, pod *corev1.Pod, node string)
}

// undo is how an object of a simulation was before a change. old is nil if it was not there.
type undo struct {
	of  framework.EventResource
	key objects.Key
	old objects.Object
}

// swap adds, replaces or deletes (nil) an object of a simulation, and returns the old one.
func (w *watchedObjects) swap(of framework.EventResource, key objects.Key, obj objects.Object) (old objects.Object) {
	old = w.exchange(of, key, obj)
	if old == nil && obj == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changes++
	if w.marks > 0 {
		w.undos = append(w.undos, undo{of, key, old})
	}
	return old
}

// changed returns the number of changes of objects of a simulation so far.
func (w *watchedObjects) changed() int {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.changes
}

// exchange is swap without a record of the change.
func (w *watchedObjects) exchange(of framework.EventResource, key objects.Key, obj objects.Object) (old objects.Object) {
	w.mu.Lock()
	byKey := w.given[of]
	if byKey == nil {
		byKey = map[objects.Key]objects.Object{}
		w.given[of] = byKey
		w.setLocked(of, func(key objects.Key) (objects.Object, bool) {
			w.mu.RLock()
			defer w.mu.RUnlock()
			obj, ok := byKey[key]
			return obj, ok
		})
	}
	old = byKey[key]
	if obj == nil {
		delete(byKey, key)
	} else {
		byKey[key] = obj
	}
	follow := w.follow[of]
	w.mu.Unlock()
	if follow != nil && (old != nil || obj != nil) {
		follow(client.Change[objects.Object]{Old: old, New: obj})
	}
	return old
}

// mark returns a function that ends the mark, and with restore brings back the objects of the simulation as they are now. It takes time for each change
// since, however many objects there are. Of several marks, the last one ends first.
func (w *watchedObjects) mark() (end func(restore bool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.marks++
	at := len(w.undos)
	return func(restore bool) {
		for _, u := range w.endMark(at, restore) {
			w.exchange(u.of, u.key, u.old)
		}
	}
}

// endMark ends a mark at a number of changes, and returns what has to be undone, the last change first.
func (w *watchedObjects) endMark(at int, restore bool) (undoing []undo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.marks--
	if restore {
		undoing = slices.Clone(w.undos[at:])
		slices.Reverse(undoing)
		w.undos = w.undos[:at]
	}
	if w.marks == 0 {
		w.undos = nil
	}
	return undoing
}

// followed calls f for the objects of a resource of a simulation, and then for each change.
func followed[T objects.Object](w *watchedObjects, of framework.EventResource, f func(client.Change[T])) {
	each := func(ch client.Change[objects.Object]) {
		var typed client.Change[T]
		if ch.Old != nil {
			typed.Old = ch.Old.(T)
		}
		if ch.New != nil {
			typed.New = ch.New.(T)
		}
		f(typed)
	}
	for _, obj := range (SimulatedObjects{w}).List(of) {
		each(client.Change[objects.Object]{New: obj})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.follow == nil {
		w.follow = map[framework.EventResource]func(client.Change[objects.Object]){}
	}
	w.follow[of] = each
}
