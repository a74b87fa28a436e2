// Package mutation detects code that changes objects which a cache shares among its readers.
//
// A cache records each object that it begins to share. The Detector keeps a deep copy and compares the two when the cache
// drops the object, some time after that, and when the cache ends. Caches have a Detector in builds with the race detector,
// and a nil Detector, whose methods do nothing, in all others.
package mutation

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
)

// maxDropped bounds the dropped objects that a Detector still holds: readers may change an object that they got before the
// cache dropped it.
const maxDropped = 1000

// Detector finds changes of shared objects. The methods of a nil Detector do nothing. It is safe for concurrent use.
type Detector struct {
	name string
	fail func(message string)

	mu      sync.Mutex
	shared  map[objects.Object]objects.Object // each object with its copy
	dropped []drop                            // oldest first
}

type drop struct{ object, before objects.Object }

// New returns a Detector in builds with the race detector, and nil in others. name names the cache in messages.
func New(name string) *Detector {
	if !Enabled {
		return nil
	}
	return NewDetector(name, func(message string) { panic(message) })
}

// NewDetector returns a Detector that calls fail with a message for each change that it finds.
func NewDetector(name string, fail func(message string)) *Detector {
	return &Detector{name: name, fail: fail, shared: map[objects.Object]objects.Object{}}
}

// Share records an object that is shared from now on, or that was recorded before.
func (d *Detector) Share(obj objects.Object) {
	if d == nil || obj == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shared[obj] == nil {
		d.shared[obj] = obj.DeepCopyObject().(objects.Object)
	}
}

// Drop checks an object that the cache no longer hands out. The object is checked once more after many other drops.
func (d *Detector) Drop(obj objects.Object) {
	if d == nil || obj == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.shared[obj]
	if before == nil {
		return
	}
	delete(d.shared, obj)
	d.check(obj, before)
	d.dropped = append(d.dropped, drop{obj, before})
	if len(d.dropped) > maxDropped {
		d.check(d.dropped[0].object, d.dropped[0].before)
		d.dropped = d.dropped[1:]
	}
}

// Check checks all recorded objects and those dropped lately.
func (d *Detector) Check() {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for obj, before := range d.shared {
		d.check(obj, before)
	}
	for _, r := range d.dropped {
		d.check(r.object, r.before)
	}
}

// Reset checks all recorded objects and drops them: the cache has dropped its content.
func (d *Detector) Reset() {
	if d == nil {
		return
	}
	d.Check()
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.shared)
	d.dropped = nil
}

func (d *Detector) check(obj, before objects.Object) {
	if reflect.DeepEqual(obj, before) {
		return
	}
	d.fail(fmt.Sprintf("%s: a reader changed the shared object %s/%s (resourceVersion %s): %s",
		d.name, before.GetNamespace(), before.GetName(), before.GetResourceVersion(), difference(before, obj)))
}

// difference lists the fields in which two objects differ.
func difference(before, after runtime.Object) string {
	a, errA := tree(before)
	b, errB := tree(after)
	if errA != nil || errB != nil {
		return fmt.Sprintf("%+v became %+v", before, after)
	}
	var out []string
	compare("", a, b, &out)
	if len(out) == 0 {
		return "fields that JSON does not show"
	}
	return strings.Join(out, "; ")
}

func tree(obj runtime.Object) (out any, err error) {
	data, err := json.Marshal(obj)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	return out, err
}

func compare(path string, a, b any, out *[]string) {
	if reflect.DeepEqual(a, b) {
		return
	}
	if x, y, ok := both[map[string]any](a, b); ok {
		keys := maps.Clone(x)
		maps.Copy(keys, y)
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			compare(path+"."+k, x[k], y[k], out)
		}
		return
	}
	if x, y, ok := both[[]any](a, b); ok && len(x) == len(y) {
		for i := range x {
			compare(path+"["+strconv.Itoa(i)+"]", x[i], y[i], out)
		}
		return
	}
	*out = append(*out, fmt.Sprintf("%s was %s and is %s", strings.TrimPrefix(path, "."), text(a), text(b)))
}

func both[T any](a, b any) (x, y T, ok bool) {
	x, okX := a.(T)
	y, okY := b.(T)
	return x, y, okX && okY
}

func text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}
