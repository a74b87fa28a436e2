package scheduler

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/trace"
)

const (
	// concurrentBatches is how many requests of a binder are under way before further bindings wait for the end of one.
	concurrentBatches = 2
	// batchTime bounds a batch, as the API server bounds each request.
	batchTime = time.Minute
)

// binder binds pods. With an API server in another process, the bindings that arrive while requests are under way share the next one:
// most of the time of such a request is HTTP's. It is safe for concurrent use.
type binder struct {
	client  client.Client
	batches bool        // the API server is in another process
	refused atomic.Bool // the API server has no BindingBatches for this user

	mu       sync.Mutex
	underWay int
	waiting  []*pendingBinding

	senders sync.WaitGroup // of the goroutines that send requests; they end soon after the contexts of all callers of bind
}

// pendingBinding is a binding that waits for its outcome.
type pendingBinding struct {
	ctx     context.Context
	binding *corev1.Binding
	done    chan error // has room for the outcome
}

// bind creates a binding.
func (b *binder) bind(ctx context.Context, binding *corev1.Binding) error {
	if !b.batches || b.refused.Load() {
		return b.create(ctx, binding)
	}
	p := &pendingBinding{ctx: ctx, binding: binding, done: make(chan error, 1)}
	b.mu.Lock()
	b.waiting = append(b.waiting, p)
	start := b.underWay < concurrentBatches
	if start {
		b.underWay++
	}
	b.mu.Unlock()
	if start {
		b.senders.Go(b.send)
	}
	select {
	case err := <-p.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// send creates the waiting bindings, until there are none.
func (b *binder) send() {
	for {
		b.mu.Lock()
		n := min(len(b.waiting), minikctl.MaxBindings)
		if n == 0 {
			b.underWay--
			b.mu.Unlock()
			return
		}
		batch := b.waiting[:n:n]
		b.waiting = b.waiting[n:]
		b.mu.Unlock()
		b.sendBatch(batch)
	}
}

// sendBatch creates bindings and reports their outcomes, except those whose callers have returned: the scheduler may have chosen another node
// for the pod. A single one needs no batch.
func (b *binder) sendBatch(batch []*pendingBinding) {
	batch = slices.DeleteFunc(batch, func(p *pendingBinding) bool { return p.ctx.Err() != nil })
	switch len(batch) {
	case 0:
		return
	case 1:
		batch[0].done <- b.create(batch[0].ctx, batch[0].binding)
		return
	}
	failures, err := b.createBatch(batch)
	if unserved(err) {
		b.refused.Store(true)
		var each sync.WaitGroup
		for _, p := range batch {
			each.Go(func() { p.done <- b.create(p.ctx, p.binding) })
		}
		each.Wait()
		return
	}
	for i, p := range batch {
		if failure := failures[i]; failure != nil {
			p.done <- failure
		} else {
			p.done <- err
		}
	}
}

// createBatch creates bindings by one request. It ends when the contexts of all callers of bind have ended. createBatch returns the failures
// of single bindings by their indices.
func (b *binder) createBatch(batch []*pendingBinding) (map[int]error, error) {
	in := &minikctl.BindingBatch{Bindings: make([]minikctl.PodBinding, len(batch))}
	for i, p := range batch {
		in.Bindings[i] = minikctl.PodBinding{
			Namespace: p.binding.Namespace, Name: p.binding.Name, UID: p.binding.UID, Node: p.binding.Target.Name, Report: trace.From(p.ctx),
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(batch[0].ctx), batchTime)
	defer cancel()
	var callers atomic.Int64 // that wait
	callers.Store(int64(len(batch)))
	for _, p := range batch {
		defer context.AfterFunc(p.ctx, func() {
			if callers.Add(-1) == 0 {
				cancel()
			}
		})()
	}
	obj, err := b.client.Create(trace.With(ctx), client.Target{Resource: minikctl.BindingBatches}, in, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	out, ok := obj.(*minikctl.BindingBatch)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("the response to a batch of bindings is a %T", obj))
	}
	failures := map[int]error{}
	for i := range out.Failures {
		failures[out.Failures[i].Index] = &apierrors.StatusError{ErrStatus: out.Failures[i].Status}
	}
	return failures, nil
}

// unserved reports whether an API server has no BindingBatches, as Kubernetes', or not for this user.
func unserved(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsForbidden(err)
}

func (b *binder) create(ctx context.Context, binding *corev1.Binding) error {
	key := objects.Key{Namespace: binding.Namespace, Name: binding.Name}
	_, err := b.client.Create(ctx, client.In(client.Pods, key).Sub("binding"), binding, metav1.CreateOptions{})
	return err
}
