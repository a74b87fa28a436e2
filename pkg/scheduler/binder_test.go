package scheduler

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

// bindingServer is an API server that answers when a test lets it.
type bindingServer struct {
	client.Client
	answer chan struct{}
	batch  func(first string) error // of a batch, by the name of its first pod; nil: none

	mu      sync.Mutex
	single  []string
	batches [][]string
}

func (s *bindingServer) Create(ctx context.Context, t client.Target, obj runtime.Object, _ metav1.CreateOptions) (runtime.Object, error) {
	select {
	case <-s.answer:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.Resource != minikctl.BindingBatches {
		s.single = append(s.single, t.Name)
		return nil, nil
	}
	in := obj.(*minikctl.BindingBatch)
	if s.batch != nil {
		if err := s.batch(in.Bindings[0].Name); err != nil {
			return nil, err
		}
	}
	out := &minikctl.BindingBatch{}
	var names []string
	for i, b := range in.Bindings {
		names = append(names, b.Name)
		if b.Name == "taken" {
			status := metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonConflict, Message: "taken"}
			out.Failures = append(out.Failures, minikctl.BindingFailure{Index: i, Status: status})
		}
	}
	s.batches = append(s.batches, names)
	return out, nil
}

func bindingOf(name string) *corev1.Binding {
	return &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}, Target: corev1.ObjectReference{Name: "node"}}
}

// bindAll begins to bind pods, one after the other, and returns their outcomes.
func bindAll(ctx context.Context, b *binder, names ...string) map[string]chan error {
	out := map[string]chan error{}
	for _, name := range names {
		done := make(chan error, 1)
		out[name] = done
		go func() { done <- b.bind(ctx, bindingOf(name)) }()
		synctest.Wait()
	}
	return out
}

// Bindings that arrive while requests are under way share the next request, and each gets its own outcome.
func TestBindingsShareRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &bindingServer{answer: make(chan struct{})}
		b := &binder{client: s, batches: true}
		results := bindAll(t.Context(), b, "a", "b", "c", "taken", "d")
		close(s.answer)
		for name, done := range results {
			if err := <-done; apierrors.IsConflict(err) != (name == "taken") || err != nil && name != "taken" {
				t.Errorf("%s: %v", name, err)
			}
		}
		if len(s.single) != concurrentBatches || len(s.batches) != 1 || len(s.batches[0]) != 3 {
			t.Errorf("single ones %v, batches %v", s.single, s.batches)
		}
		synctest.Wait()
		if b.underWay != 0 || len(b.waiting) != 0 {
			t.Errorf("%d requests under way, %d bindings wait", b.underWay, len(b.waiting))
		}
	})
}

// A server without batches gets the bindings one by one.
func TestServerWithoutBatches(t *testing.T) {
	for _, refusal := range []error{
		apierrors.NewNotFound(minikctl.BindingBatches.GroupResource(), ""),
		apierrors.NewForbidden(minikctl.BindingBatches.GroupResource(), "", errors.New("no right")),
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &bindingServer{answer: make(chan struct{}), batch: func(string) error { return refusal }}
			b := &binder{client: s, batches: true}
			results := bindAll(t.Context(), b, "a", "b", "c", "d", "e")
			close(s.answer)
			for name, done := range results {
				if err := <-done; err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			if len(s.single) != len(results) || !b.refused.Load() {
				t.Errorf("%v: single ones %v", refusal, s.single)
			}
			if err := b.bind(t.Context(), bindingOf("f")); err != nil {
				t.Error(err)
			}
		})
	}
}

// The end of a caller's context ends neither the batch nor the others. Its own binding is not sent any more.
func TestBindingOfEndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := apierrors.NewInternalError(errors.New("broken"))
		s := &bindingServer{answer: make(chan struct{}), batch: func(string) error { return broken }}
		b := &binder{client: s, batches: true}
		others := bindAll(t.Context(), b, "a", "b")
		ctx, cancel := context.WithCancel(t.Context())
		ended := bindAll(ctx, b, "c")
		rest := bindAll(t.Context(), b, "d", "e")
		cancel()
		if err := <-ended["c"]; !errors.Is(err, context.Canceled) {
			t.Errorf("c: %v", err)
		}
		s.batch = func(first string) error {
			if first != "d" {
				t.Errorf("the batch begins with %s", first)
			}
			return broken
		}
		close(s.answer)
		for name, done := range rest {
			if err := <-done; !apierrors.IsInternalError(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for name, done := range others {
			if err := <-done; err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// A batch ends with the contexts of all its callers.
func TestBatchOfEndedContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &bindingServer{answer: make(chan struct{})}
		b := &binder{client: s, batches: true}
		ctx, cancel := context.WithCancel(t.Context())
		first := bindAll(t.Context(), b, "a", "b")
		bindAll(ctx, b, "c")
		others := bindAll(t.Context(), b, "d")
		s.answer <- struct{}{}
		s.answer <- struct{}{}
		for _, done := range first {
			<-done
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		if b.underWay != 1 {
			t.Errorf("%d requests under way, want that of d", b.underWay)
		}
		s.answer <- struct{}{}
		if err := <-others["d"]; err != nil {
			t.Error(err)
		}

		first = bindAll(t.Context(), b, "a", "b")
		ctx, cancel = context.WithCancel(t.Context())
		bindAll(ctx, b, "c", "d")
		s.answer <- struct{}{}
		s.answer <- struct{}{}
		for _, done := range first {
			<-done
		}
		synctest.Wait()
		began := time.Now()
		cancel()
		if b.senders.Wait(); time.Since(began) > 0 {
			t.Errorf("the batch of c and d has ended after %s", time.Since(began))
		}
	})
}

// A refused batch does not change the outcome of another one that is under way.
func TestRefusedBesideAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &bindingServer{answer: make(chan struct{}), batch: func(first string) error {
			if first == "refused" {
				return apierrors.NewNotFound(minikctl.BindingBatches.GroupResource(), "")
			}
			return nil
		}}
		b := &binder{client: s, batches: true}
		bind := func(names ...string) (batch []*pendingBinding) {
			for _, name := range names {
				batch = append(batch, &pendingBinding{ctx: t.Context(), binding: bindingOf(name), done: make(chan error, 1)})
			}
			go b.sendBatch(batch)
			synctest.Wait()
			return batch
		}
		all := append(bind("refused", "a"), bind("b", "c")...)
		close(s.answer)
		for _, p := range all {
			if err := <-p.done; err != nil {
				t.Errorf("%s: %v", p.binding.Name, err)
			}
		}
		if slices.Sort(s.single); !slices.Equal(s.single, []string{"a", "refused"}) || !b.refused.Load() {
			t.Errorf("single ones %v", s.single)
		}
	})
}
