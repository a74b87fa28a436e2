package client

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Index is a handle on an index of a Cache: it holds the function that returns the values under which the index lists
// an object. Two Indexes are never the same one, so components that share a Cache can't take each other's by name.
// Declare an Index once, in a package variable, and use it with every Cache of its type.
type Index[T objects.Object] struct{ *indexer }

// indexer identifies an index by its address.
type indexer struct {
	values func(objects.Object) []string
}

// NewIndex returns an index by the values that a function returns for an object. The function must return the same
// values for the same object each time, and is called with locks held: it must not use a Cache.
func NewIndex[T objects.Object](values func(T) []string) Index[T] {
	return Index[T]{&indexer{func(obj objects.Object) []string { return values(obj.(T)) }}}
}

// byController lists objects by the UID of their controlling owner.
var byController = &indexer{func(obj objects.Object) []string {
	if ref := metav1.GetControllerOfNoCopy(obj); ref != nil {
		return []string{string(ref.UID)}
	}
	return nil
}}

// index is what one cache holds for an indexer.
type index struct {
	values func(objects.Object) []string
	items  map[string]map[objects.Key]objects.Object
}

// by returns the objects under value. The first call for an indexer builds its index.
func (i *informer) by(x *indexer, value string) []objects.Object {
	i.mu.RLock()
	ix, ok := i.indexes[x]
	if !ok {
		i.mu.RUnlock()
		i.addIndex(x)
		i.mu.RLock()
		ix = i.indexes[x]
	}
	defer i.mu.RUnlock()
	out := make([]objects.Object, 0, len(ix.items[value]))
	for _, obj := range ix.items[value] {
		out = append(out, obj)
	}
	i.sort(out)
	return out
}

func (i *informer) addIndex(x *indexer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, ok := i.indexes[x]; ok {
		return
	}
	ix := &index{values: x.values, items: map[string]map[objects.Key]objects.Object{}}
	for key, obj := range i.items {
		for _, v := range x.values(obj) {
			put(ix.items, v, key, obj)
		}
	}
	i.indexes[x] = ix
}
