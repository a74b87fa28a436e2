// Package stagetest holds what the tests of stages share: a reader over objects in memory.
package stagetest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

// Reader is a stage.Reader over a map. It is safe for concurrent use.
type Reader struct {
	mu      sync.Mutex
	objects map[schema.GroupResource]map[objects.Key]objects.Object
	reads   int
	changes uint64
}

// NewReader returns a reader without objects.
func NewReader() *Reader {
	return &Reader{objects: map[schema.GroupResource]map[objects.Key]objects.Object{}}
}

// Put adds or replaces objects of a resource, "pods" or "leases.coordination.k8s.io".
func (r *Reader) Put(resource string, list ...objects.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes++
	gr := schema.ParseGroupResource(resource)
	if r.objects[gr] == nil {
		r.objects[gr] = map[objects.Key]objects.Object{}
	}
	for _, obj := range list {
		r.objects[gr][objects.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}] = obj
	}
}

// Delete removes an object.
func (r *Reader) Delete(resource, namespace, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes++
	delete(r.objects[schema.ParseGroupResource(resource)], objects.Key{Namespace: namespace, Name: name})
}

// Lists returns the number of calls of List.
func (r *Reader) Lists() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reads
}

// Get returns an object, or NotFound.
func (r *Reader) Get(_ context.Context, gr schema.GroupResource, key objects.Key) (objects.Object, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if obj, ok := r.objects[gr][key]; ok {
		return obj, nil
	}
	return nil, apierrors.NewNotFound(gr, key.Name)
}

// List returns the objects of a namespace, "" for all, in the order of their names.
func (r *Reader) List(_ context.Context, gr schema.GroupResource, namespace string) ([]objects.Object, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	keys := slices.SortedFunc(maps.Keys(r.objects[gr]), func(a, b objects.Key) int { return strings.Compare(a.String(), b.String()) })
	var list []objects.Object
	for _, key := range keys {
		if namespace == "" || key.Namespace == namespace {
			list = append(list, r.objects[gr][key])
		}
	}
	return list, nil
}

// Counters returns the number of objects of a resource. Changes counts the changes of all resources.
func (r *Reader) Counters(_ context.Context, gr schema.GroupResource) (stage.Counters, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return stage.Counters{Changes: r.changes, Count: len(r.objects[gr])}, nil
}
