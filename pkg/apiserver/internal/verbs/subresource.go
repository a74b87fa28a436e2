package verbs

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/objects"
)

// subresource describes a subresource with objects of its own kind; status and the parts of a row are no such
// subresources. The verb of a nil function is not supported.
type subresource struct {
	// view returns the subresource's object for a read.
	view func(t *table, obj objects.Object) (objects.Object, error)
	// writeView returns the subresource's object for a write: with managedFields.
	writeView func(w *write, obj objects.Object) (objects.Object, error)
	// set returns a copy of the resource's object old, changed by the subresource's object.
	set func(w *write, old, view objects.Object) (objects.Object, error)
	// create handles a POST.
	create func(ctx context.Context, w *write, obj runtime.Object) (Result, error)
}

// subresources lists the subresources by RESOURCE/NAME; with "*" as the resource the entry applies to every row with that
// subresource. An entry RESOURCE without NAME is for a resource whose objects are never stored.
var subresources = map[string]subresource{
	"bindings":              {create: bindByName},
	"*/scale":               {view: viewScale, writeView: writeScale, set: setScale},
	"pods/binding":          {create: bind},
	"pods/eviction":         {create: evict},
	"serviceaccounts/token": {create: createToken},
}

func subresourceOf(r *objects.Resource, name string) (subresource, bool) {
	if name == "" {
		s, ok := subresources[r.Names.GR().String()]
		return s, ok
	}
	if s, ok := subresources[r.Names.GR().String()+"/"+name]; ok {
		return s, true
	}
	if name == "scale" && r.Scale == nil {
		return subresource{}, false
	}
	s, ok := subresources["*/"+name]
	return s, ok
}

// createThrough creates through a subresource.
func (w *write) createThrough(ctx context.Context, obj runtime.Object) (Result, error) {
	if s, ok := subresourceOf(w.r, w.req.Subresource); ok && s.create != nil {
		return s.create(ctx, w, obj)
	}
	return Result{}, apierrors.NewMethodNotSupported(w.gr(), "create")
}

// subresourceView returns the subresource's object of an item.
func (t *table) subresourceView(name string, item *cache.Item) (*cache.Item, error) {
	s, ok := subresourceOf(t.r, name)
	if !ok || s.view == nil {
		return nil, apierrors.NewMethodNotSupported(t.r.Names.GR(), "get")
	}
	obj, err := item.Object()
	if err != nil {
		return nil, err
	}
	view, err := s.view(t, obj)
	if err != nil {
		return nil, err
	}
	return cache.NewItem(item.Key, item.Revision, view), nil
}

// modifyThrough modifies an object through a subresource: c.build changes the subresource's object.
func (w *write) modifyThrough(ctx context.Context, s subresource, c change) (Result, error) {
	if s.set == nil {
		return Result{}, apierrors.NewMethodNotSupported(w.gr(), w.req.Verb)
	}
	build := c.build
	c.build = func(ctx context.Context, old objects.Object) (objects.Object, error) {
		view, err := s.writeView(w, old)
		if err != nil {
			return nil, err
		}
		if view, err = build(ctx, view); err != nil {
			return nil, err
		}
		w.sub = view
		obj, err := s.set(w, old, view)
		if err != nil {
			return nil, err
		}
		obj.SetResourceVersion(view.GetResourceVersion())
		return obj, nil
	}
	res, err := w.modify(ctx, c)
	if err != nil {
		return Result{}, err
	}
	item, err := w.subresourceView(w.req.Subresource, res.Item)
	return Result{Item: item}, err
}

// editStored stores the request's object as f changes it, without the admission, the preparation and the managedFields of an
// update, and returns it as stored. f receives a copy; its error ends the edit.
func (w *write) editStored(ctx context.Context, f func(obj objects.Object) error) (*cache.Item, error) {
	return w.replaceStored(ctx, func(old objects.Object) (objects.Object, error) {
		obj := old.DeepCopyObject().(objects.Object)
		return obj, f(obj)
	})
}

// replaceStored is editStored for an f that returns what replaces the object. f must not change the object.
func (w *write) replaceStored(ctx context.Context, f func(old objects.Object) (objects.Object, error)) (*cache.Item, error) {
	for {
		item, err := w.current(ctx, w.table, w.req.key())
		if err != nil {
			return nil, err
		}
		item, old, err := item.Decoded()
		if err != nil {
			return nil, err
		}
		obj, err := f(old)
		if err != nil {
			return nil, err
		}
		kept, err := w.commit(ctx, obj, item)
		if errors.Is(retryOnConflict(err), errRetry) && ctx.Err() == nil {
			if err := w.Engine.cache.WaitUntilFresh(ctx); err != nil {
				return nil, w.status(err)
			}
			continue
		}
		return kept, w.status(err)
	}
}

func wrongType(obj runtime.Object) error {
	return apierrors.NewBadRequest(fmt.Sprintf("unexpected object: %T", obj))
}
