package admission

import (
	"context"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

// derived caches a value that a plugin computes from all objects of a resource. The value is computed on first use and again on
// first use after a change, so a resource without objects costs next to nothing. The value is shared and must not be changed.
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

// get returns the current value; ok is false if there are no objects, in which case the cached value is dropped.
func (d *derived[T]) get(ctx context.Context) (value T, ok bool, err error) {
	counters, err := d.reader.Counters(ctx, d.resource)
	last := d.last.Load()
	if err != nil || counters.Count == 0 && last == nil {
		return value, false, err
	}
	if last != nil && last.changes == counters.Changes {
		return last.value, counters.Count > 0, nil
	}
	d.making.Lock()
	defer d.making.Unlock()
	if counters, err = d.reader.Counters(ctx, d.resource); err != nil { // read before the list, so that a change made meanwhile is seen the next time
		return value, false, err
	}
	if last := d.last.Load(); last != nil && last.changes == counters.Changes {
		return last.value, counters.Count > 0, nil
	}
	all, err := d.reader.List(ctx, d.resource, "")
	if err != nil {
		return value, false, err
	}
	last = &madeOf[T]{counters.Changes, d.make(all)}
	d.last.Store(last)
	return last.value, len(all) > 0, nil
}

// byNamespace groups objects by namespace.
func byNamespace[T objects.Object](all []objects.Object) map[string][]T {
	out := map[string][]T{}
	for _, obj := range all {
		if t, ok := obj.(T); ok {
			out[t.GetNamespace()] = append(out[t.GetNamespace()], t)
		}
	}
	return out
}
