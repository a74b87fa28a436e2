// Package direct owns the in-process client. It calls the verb engine, with the same authorization and admission as over HTTP,
// and returns the objects of the engine's cache without encoding them.
package direct

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/trace"
)

// Lookup returns the resource that is served as a name; nil if there is none. (*verbs.Engine).Lookup is one.
type Lookup func(schema.GroupVersionResource) *verbs.VersionedResource

type direct struct {
	api    verbs.API
	lookup Lookup
	user   user.Info
	agent  string
}

// New returns a client that acts as u. The first word of agent, its user agent, is the field manager of its writes.
func New(api verbs.API, lookup Lookup, u user.Info, agent string) client.Client {
	return &direct{api, lookup, u, agent}
}

// call is one request for a resource.
type call struct {
	*verbs.Request
	resource *verbs.VersionedResource
}

func (d *direct) call(ctx context.Context, verb string, t client.Target) (call, error) {
	s := d.lookup(t.Resource)
	if s == nil {
		return call{}, apierrors.NewGenericServerResponse(404, verb, t.Resource.GroupResource(), t.Name, "404 page not found", 0, true)
	}
	if t.Subresource == "" && !slices.Contains(s.Resource.Verbs, verb) {
		return call{}, apierrors.NewGenericServerResponse(405, verb, t.Resource.GroupResource(), t.Name, "", 0, false)
	}
	return call{resource: s, Request: &verbs.Request{
		Attributes: stage.Attributes{
			User: d.user, UserAgent: d.agent, Verb: verb, Resource: s.Resource, GVR: t.Resource,
			Subresource: t.Subresource, Namespace: t.Namespace, Name: t.Name, Warn: func(string) {},
		},
		Version: s.Version,
		Report:  trace.From(ctx),
	}}, nil
}

// out returns a stored object in the requested version.
func (c call) out(i *cache.Item) (objects.Object, error) {
	obj, err := i.Object()
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if c.resource.Stored || c.Subresource != "" && c.Subresource != "status" {
		return obj, nil
	}
	converted, err := c.resource.Version.From(obj)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	out, ok := converted.(objects.Object)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("%T has no metadata", converted))
	}
	return out, nil
}

// in returns an object of the requested version in the stored version, with defaults.
func (c call) in(obj runtime.Object) (runtime.Object, error) {
	if c.Subresource != "" && c.Subresource != "status" {
		return obj, nil
	}
	if c.resource.Resource.Names.Group == minikctl.GroupVersion.Group && meta.IsListType(obj) {
		return obj, nil // a list of Decisions
	}
	if !c.resource.Stored {
		c.resource.Version.Default(obj)
		converted, err := c.resource.Version.To(obj)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		obj = converted
	}
	stored, ok := obj.(objects.Object)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%T is no %s", obj, c.resource.Resource.Names.Kind))
	}
	c.resource.Resource.Default(stored)
	return stored, nil
}

func (c call) result(r verbs.Result, err error) (runtime.Object, error) {
	if err != nil {
		return nil, err
	}
	if r.Item == nil {
		return r.Other, nil
	}
	return c.out(r.Item)
}

func (d *direct) Get(ctx context.Context, t client.Target, opts metav1.GetOptions) (objects.Object, error) {
	c, err := d.call(ctx, "get", t)
	if err != nil {
		return nil, err
	}
	i, err := d.api.Get(ctx, c.Request, &opts)
	if err != nil {
		return nil, err
	}
	return c.out(i)
}

func (d *direct) List(ctx context.Context, t client.Target, opts metav1.ListOptions) (client.List, error) {
	c, err := d.call(ctx, "list", t)
	if err != nil {
		return client.List{}, err
	}
	l, err := d.api.List(ctx, c.Request, &opts)
	if err != nil {
		return client.List{}, err
	}
	out := client.List{
		Items: make([]objects.Object, 0, len(l.Items)), Continue: l.Continue, Remaining: l.Remaining,
		ResourceVersion: strconv.FormatUint(uint64(l.Revision), 10),
	}
	for _, i := range l.Items {
		obj, err := c.out(i)
		if err != nil {
			return client.List{}, err
		}
		out.Items = append(out.Items, obj)
	}
	return out, nil
}

func (d *direct) Watch(ctx context.Context, t client.Target, opts metav1.ListOptions) iter.Seq2[client.Event, error] {
	return func(yield func(client.Event, error) bool) {
		c, err := d.call(ctx, "watch", t)
		if err != nil {
			yield(client.Event{}, err)
			return
		}
		batches, err := d.api.Watch(ctx, c.Request, &opts)
		if err != nil {
			yield(client.Event{}, err)
			return
		}
		for batch, err := range batches {
			if err != nil {
				yield(client.Event{}, err)
				return
			}
			for i := range batch {
				ev, err := c.event(&batch[i])
				if !yield(ev, err) || err != nil {
					return
				}
			}
		}
	}
}

func (c call) event(ev *verbs.Event) (client.Event, error) {
	if ev.Type == watch.Bookmark {
		obj, ok := c.resource.Version.New().(objects.Object)
		if !ok {
			return client.Event{}, apierrors.NewInternalError(fmt.Errorf("%s has no metadata", c.resource.Resource.Names.Kind))
		}
		obj.SetResourceVersion(strconv.FormatUint(uint64(ev.Revision), 10))
		if ev.Initial {
			obj.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		}
		return client.Event{Type: ev.Type, Object: obj}, nil
	}
	obj, err := c.out(ev.Item)
	return client.Event{Type: ev.Type, Object: obj}, err
}

func (d *direct) Create(ctx context.Context, t client.Target, obj runtime.Object, opts metav1.CreateOptions) (runtime.Object, error) {
	c, err := d.call(ctx, "create", t)
	if err != nil {
		return nil, err
	}
	if b, ok := obj.(*corev1.Binding); ok && t.Subresource == "binding" && t.Name == "" {
		c.Name = b.Name
	}
	return c.result(d.api.Create(ctx, c.Request, func() (runtime.Object, error) { return c.in(obj) }, &opts))
}

func (d *direct) Update(ctx context.Context, t client.Target, obj runtime.Object, opts metav1.UpdateOptions) (runtime.Object, error) {
	c, err := d.call(ctx, "update", t)
	if err != nil {
		return nil, err
	}
	return c.result(d.api.Update(ctx, c.Request, func() (runtime.Object, error) { return c.in(obj) }, &opts))
}

func (d *direct) Patch(ctx context.Context, t client.Target, p client.Patch, opts metav1.PatchOptions) (runtime.Object, error) {
	c, err := d.call(ctx, "patch", t)
	if err != nil {
		return nil, err
	}
	return c.result(d.api.Patch(ctx, c.Request, verbs.Patch{Type: p.Type, Data: p.Data}, &opts))
}

func (d *direct) Delete(ctx context.Context, t client.Target, opts metav1.DeleteOptions) (runtime.Object, error) {
	if err := t.Deletable(); err != nil {
		return nil, err
	}
	if t.All {
		return nil, d.deleteAll(ctx, t, opts)
	}
	c, err := d.call(ctx, "delete", t)
	if err != nil {
		return nil, err
	}
	r, err := d.api.Delete(ctx, c.Request, &opts)
	if err != nil || r.Item == nil {
		return nil, err // the engine turns it into a Status
	}
	return c.out(r.Item)
}

func (d *direct) deleteAll(ctx context.Context, t client.Target, opts metav1.DeleteOptions) error {
	c, err := d.call(ctx, "deletecollection", t)
	if err != nil {
		return err
	}
	_, err = d.api.DeleteCollection(ctx, c.Request, &opts, &metav1.ListOptions{})
	return err
}
