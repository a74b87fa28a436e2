package admission

import (
	"context"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

// derived is what a plugin makes of all objects of a resource. It is made again when one of them has changed, and only
// when somebody asks, so that a resource of which there is nothing costs next to nothing. It is shared and not changed.
type derived[T any] struct {
	reader   stage.Reader
	resource schema.GroupResource
	make     func(all []objects.Object) T

	making sync.Mutex
	last   atomic.Pointer[madeOf[T]]
}

type madeOf[T any] struct {
	changes uint64
	value   T
}

func derive[T any](r stage.Reader, resource schema.GroupResource, from func([]objects.Object) T) *derived[T] {
	return &derived[T]{reader: r, resource: resource, make: from}
}

// get returns the current value; ok is false when there are no objects. What was made of objects that have all gone is let go,
// too.
func (d *derived[T]) get(ctx context.Context) (value T, ok bool, err error) {
	state, err := d.reader.State(ctx, d.resource)
	last := d.last.Load()
	if err != nil || state.Count == 0 && last == nil {
		return value, false, err
	}
	if last != nil && last.changes == state.Changes {
		return last.value, state.Count > 0, nil
	}
	d.making.Lock()
	defer d.making.Unlock()
	if state, err = d.reader.State(ctx, d.resource); err != nil { // before the list: what changes meanwhile is seen next time
		return value, false, err
	}
	if last := d.last.Load(); last != nil && last.changes == state.Changes {
		return last.value, state.Count > 0, nil
	}
	all, err := d.reader.List(ctx, d.resource, "")
	if err != nil {
		return value, false, err
	}
	last = &madeOf[T]{state.Changes, d.make(all)}
	d.last.Store(last)
	return last.value, len(all) > 0, nil
}

// byNamespace sorts objects by their namespace.
func byNamespace[T objects.Object](all []objects.Object) map[string][]T {
	out := map[string][]T{}
	for _, obj := range all {
		if t, ok := obj.(T); ok {
			out[t.GetNamespace()] = append(out[t.GetNamespace()], t)
		}
	}
	return out
}
