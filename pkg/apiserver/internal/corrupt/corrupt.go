// Package corrupt serves CorruptObjects: the list of stored values that the API server cannot decode, and therefore does
// not serve.
package corrupt

import (
	"context"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

// backend is the verbs.Backend of CorruptObjects. The function returns the current ones.
type backend func() []*cache.Corrupt

// New returns the backend of CorruptObjects. current returns those that the server has found, in key order.
func New(current func() []*cache.Corrupt) verbs.Backend { return backend(current) }

// Get returns one corrupt object.
func (b backend) Get(_ context.Context, req *verbs.Request, _ *metav1.GetOptions) (*cache.Item, error) {
	for _, c := range b() {
		if nameOf(c) == req.Name {
			return item(c), nil
		}
	}
	return nil, apierrors.NewNotFound(minikctl.CorruptObjects.GroupResource(), req.Name)
}

// List returns the corrupt objects that the selectors match.
func (b backend) List(_ context.Context, _ *verbs.Request, opts *metav1.ListOptions) (verbs.Listing, error) {
	selectors, err := verbs.ParseSelectors(opts)
	if err != nil {
		return verbs.Listing{}, err
	}
	out := verbs.Listing{Items: []*cache.Item{}}
	for _, c := range b() {
		if selectors.Match("", nameOf(c), nil) {
			out.Items = append(out.Items, item(c))
		}
	}
	return out, nil
}

// nameOf returns the name of a CorruptObject.
func nameOf(c *cache.Corrupt) string {
	return strings.ReplaceAll(strings.TrimPrefix(c.StoreKey, cache.Root), "/", ":")
}

func item(c *cache.Corrupt) *cache.Item {
	gr := cache.ResourceOf(c.StoreKey)
	obj := &minikctl.CorruptObject{
		Resource: gr.String(), Namespace: c.Key.Namespace, Object: c.Key.Name, Key: c.StoreKey, Revision: uint64(c.Revision), Message: c.Err.Error(),
	}
	obj.Name = nameOf(c)
	return cache.NewItem(objects.Key{Name: obj.Name}, 0, obj)
}

// Row returns the row of CorruptObjects.
func Row() objects.Resource {
	return objects.Row(objects.Def[*minikctl.CorruptObject]{
		Names: objects.Names{
			Group: minikctl.GroupVersion.Group, Version: minikctl.GroupVersion.Version, Kind: "CorruptObject", Plural: "corruptobjects", Cluster: true,
		},
		New:     func() *minikctl.CorruptObject { return new(minikctl.CorruptObject) },
		NewList: func() runtime.Object { return new(minikctl.CorruptObjectList) },
		Verbs:   []string{"get", "list"},
		Columns: []objects.Column[*minikctl.CorruptObject]{
			objects.NameColumn[*minikctl.CorruptObject](),
			{Name: "Resource", Description: "The resource of the object.",
				Cell: func(c *minikctl.CorruptObject, _ time.Time) any { return c.Resource }},
			{Name: "Object", Description: "The namespace and the name of the object.",
				Cell: func(c *minikctl.CorruptObject, _ time.Time) any {
					return strings.TrimPrefix(c.Namespace+"/"+c.Object, "/")
				}},
			{Name: "Revision", Type: "integer", Description: "The revision of the write that set the value.",
				Cell: func(c *minikctl.CorruptObject, _ time.Time) any { return int64(c.Revision) }},
			{Name: "Message", Description: "Why the value cannot be decoded.",
				Cell: func(c *minikctl.CorruptObject, _ time.Time) any { return c.Message }},
		},
	})
}
