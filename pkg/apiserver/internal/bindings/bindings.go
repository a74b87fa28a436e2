// Package bindings serves BindingBatches, by which a scheduler in another process binds many pods in one request.
package bindings

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/authn"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/fair"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/trace"
)

// Backend is the verbs.Backend of BindingBatches.
type Backend struct {
	// Client returns a client that acts as a user, with a user agent.
	Client func(u user.Info, agent string) client.Client
	// Concurrent is how many bindings of a batch are executed at a time. The store commits them together.
	Concurrent int
}

var (
	_ verbs.Backend = Backend{}
	_ verbs.Creator = Backend{}
)

// Get returns an error: batches are not stored.
func (b Backend) Get(_ context.Context, req *verbs.Request, _ *metav1.GetOptions) (*cache.Item, error) {
	return nil, apierrors.NewNotFound(req.Resource.Names.GR(), req.Name)
}

// List returns nothing: batches are not stored.
func (b Backend) List(context.Context, *verbs.Request, *metav1.ListOptions) (verbs.Listing, error) {
	return verbs.Listing{Items: []*cache.Item{}}, nil
}

// Create creates the bindings of a batch as the request's user. The result has the failures.
func (b Backend) Create(ctx context.Context, req *verbs.Request, obj runtime.Object, opts *metav1.CreateOptions) (verbs.Result, error) {
	given, ok := obj.(*minikctl.BindingBatch)
	if !ok {
		return verbs.Result{}, apierrors.NewBadRequest(fmt.Sprintf("%T is no BindingBatch", obj))
	}
	if len(given.Bindings) > minikctl.MaxBindings {
		return verbs.Result{}, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d bindings", minikctl.MaxBindings))
	}
	c := b.Client(req.User, req.UserAgent)
	reports := authn.Component(req.User)
	ctx = bindingContext{ctx}
	failures := make([]*metav1.Status, len(given.Bindings))
	var next atomic.Int64
	var workers sync.WaitGroup
	var panicked atomic.Pointer[string]
	for range min(max(b.Concurrent, 1), len(given.Bindings)) {
		workers.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					panicked.Store(new(fmt.Sprintf("%v\n%s", p, debug.Stack())))
				}
			}()
			for i := next.Add(1) - 1; int(i) < len(given.Bindings); i = next.Add(1) - 1 {
				one := &given.Bindings[i]
				report := one.Report
				if !reports {
					report = trace.Report{}
				}
				failures[i] = failure(bind(trace.WithReport(ctx, report), c, one, opts))
			}
		})
	}
	workers.Wait()
	if p := panicked.Load(); p != nil {
		panic(*p) // in the request's goroutine, where it ends the request only
	}
	out := &minikctl.BindingBatch{}
	out.Name = "bindings" // so that clients can print a name
	for i, f := range failures {
		if f != nil {
			out.Failures = append(out.Failures, minikctl.BindingFailure{Index: i, Status: *f})
		}
	}
	return verbs.Result{Item: cache.NewItem(objects.Key{Name: out.Name}, 0, out), Created: true}, nil
}

func bind(ctx context.Context, c client.Client, b *minikctl.PodBinding, opts *metav1.CreateOptions) error {
	pod := client.In(client.Pods, objects.Key{Namespace: b.Namespace, Name: b.Name})
	_, err := c.Create(ctx, pod.Sub("binding"), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: b.Name, UID: b.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: b.Node},
	}, *opts)
	return err
}

// failure returns the status of an error; nil for none.
func failure(err error) *metav1.Status {
	if err == nil {
		return nil
	}
	failed, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		failed = apierrors.NewInternalError(err)
	}
	return &failed.ErrStatus
}

// bindingContext is the context of one binding of a batch: it has neither the seat of the batch's request, which one binding would leave while another
// still needs it, nor its notes.
type bindingContext struct{ context.Context }

// Value implements context.Context.
func (c bindingContext) Value(key any) any {
	switch key.(type) {
	case fair.SeatKey, stage.NotesKey:
		return nil
	}
	return c.Context.Value(key)
}

// Row returns the row of BindingBatches.
func Row() objects.Resource {
	return objects.Row(objects.Def[*minikctl.BindingBatch]{
		Names:   objects.Names{Group: minikctl.GroupVersion.Group, Version: minikctl.GroupVersion.Version, Kind: "BindingBatch", Plural: "bindingbatches", Cluster: true},
		New:     func() *minikctl.BindingBatch { return new(minikctl.BindingBatch) },
		NewList: func() runtime.Object { return new(minikctl.BindingBatchList) },
		Verbs:   []string{"create"},
	})
}
