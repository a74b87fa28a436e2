// Package cache owns the API server's view of the store: per resource the current objects, decoded once and immutable,
// and the recent changes, from which all watches are served. One feed reads the store's changes and hands them on.
package cache

import (
	"sync"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/store"
)

// Item is one version of one object. Its encodings are made at most once and shared by all who ask.
type Item struct {
	Key      objects.Key
	Revision store.Revision

	object objects.Object                 // nil: kept encoded, see decode
	decode func() (objects.Object, error) // for resources that are not kept decoded

	mu      sync.Mutex
	encoded [encodings][]byte
}

// Encoding is a form of the stored version of an object that is worth keeping.
type Encoding uint8

// The encodings.
const (
	JSON     Encoding = iota // with apiVersion and kind, without a newline
	Protobuf                 // with the "k8s\0" envelope
	encodings
)

// NewItem returns the item of a decoded object, which has its resourceVersion set and is shared from now on.
func NewItem(key objects.Key, rev store.Revision, obj objects.Object) *Item {
	return &Item{Key: key, Revision: rev, object: obj}
}

// Object returns the item's object, of the stored version. It is shared and must not be changed.
func (i *Item) Object() (objects.Object, error) {
	if i.object != nil {
		return i.object, nil
	}
	return i.decode()
}

// Encoded returns the item's object in encoding e, made by encode when it is asked for first. The bytes are shared.
func (i *Item) Encoded(e Encoding, encode func(objects.Object) ([]byte, error)) ([]byte, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.encoded[e] != nil {
		return i.encoded[e], nil
	}
	obj, err := i.Object()
	if err != nil {
		return nil, err
	}
	b, err := encode(obj)
	if err != nil {
		return nil, err
	}
	i.encoded[e] = b
	return b, nil
}
