package audit

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/objects"
)

// Trim returns the recorded form of the item: without managedFields if the policy omits them.
func (e *Entry) Trim(it *cache.Item) *cache.Item {
	if !e.trims {
		return it
	}
	obj, err := it.Object()
	if err != nil {
		return it // encoding it fails in the same way
	}
	out, ok := e.TrimObject(obj).(objects.Object)
	if !ok {
		return it
	}
	return cache.NewItem(it.Key, it.Revision, out)
}

// TrimAll trims each item.
func (e *Entry) TrimAll(items []*cache.Item) []*cache.Item {
	if !e.trims {
		return items
	}
	out := make([]*cache.Item, len(items))
	for i, it := range items {
		out[i] = e.Trim(it)
	}
	return out
}

// TrimObject is Trim for an object.
func (e *Entry) TrimObject(obj runtime.Object) runtime.Object {
	if !e.trims {
		return obj
	}
	if m, err := meta.Accessor(obj); err != nil || len(m.GetManagedFields()) == 0 {
		return obj
	}
	out := obj.DeepCopyObject()
	if m, err := meta.Accessor(out); err == nil {
		m.SetManagedFields(nil)
	}
	return out
}
