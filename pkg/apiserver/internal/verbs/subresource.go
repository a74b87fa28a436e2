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

// subresource is what a subresource does that is not simply another way to write its resource (as status is). A nil
// func means that the verb is not allowed.
type subresource struct {
	// view returns the subresource's object of a resource's object.
	view func(t *table, obj objects.Object) (objects.Object, error)
	// edit returns the same as writes see it: with its managedFields.
	edit func(w *write, obj objects.Object) (objects.Object, error)
	// set makes the new resource's object from the subresource's, for updates and patches.
	set func(w *write, old, view objects.Object) (objects.Object, error)
	// create is what a POST does.
	create func(ctx context.Context, w *write, obj runtime.Object) (Result, error)
}

// subresources are what the engine can do, by resource ("*": every one that has it in its row) and name. A resource
// without a name after it is one that is never stored.
var subresources = map[string]subresource{
	"bindings":              {create: bindByName},
	"*/scale":               {view: viewScale, edit: writeScale, set: setScale},
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

// connect creates through a subresource.
func (w *write) connect(ctx context.Context, obj runtime.Object) (Result, error) {
	if s, ok := subresourceOf(w.r, w.req.Subresource); ok && s.create != nil {
		return s.create(ctx, w, obj)
	}
	return Result{}, apierrors.NewMethodNotSupported(w.gr(), "create")
}

// subresourceView returns what a GET of a subresource answers.
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

// setThrough makes a change of a resource out of one of its subresource's object, which c.build makes of the one there
// is.
func (w *write) setThrough(ctx context.Context, s subresource, c change) (Result, error) {
	if s.set == nil {
		return Result{}, apierrors.NewMethodNotSupported(w.gr(), w.req.Verb)
	}
	build := c.build
	c.build = func(ctx context.Context, old objects.Object) (objects.Object, error) {
		view, err := s.edit(w, old)
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

// edit changes the request's object beside the ways of an update: no admission of the resource itself, no preparation,
// no managedFields. f gets a copy; what it returns as an error ends the attempt.
func (w *write) edit(ctx context.Context, f func(obj objects.Object) error) error {
	for {
		item, err := w.current(ctx, w.table, w.req.key())
		if err != nil {
			return err
		}
		item, old, err := item.Opened()
		if err != nil {
			return err
		}
		obj := old.DeepCopyObject().(objects.Object)
		if err := f(obj); err != nil {
			return err
		}
		_, err = w.commit(ctx, obj, item)
		if errors.Is(again(err), errAgain) && ctx.Err() == nil {
			if err := w.Engine.cache.Fresh(ctx); err != nil {
				return w.status(err)
			}
			continue
		}
		return w.status(err)
	}
}

func wrongType(obj runtime.Object) error {
	return apierrors.NewBadRequest(fmt.Sprintf("unexpected object: %T", obj))
}
