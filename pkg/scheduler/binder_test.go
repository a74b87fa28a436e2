package scheduler

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

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
	batch  error // of each batch

	mu      sync.Mutex
	single  []string
	batches [][]string
}

func (s *bindingServer) Create(_ context.Context, t client.Target, obj runtime.Object, _ metav1.CreateOptions) (runtime.Object, error) {
	<-s.answer
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.Resource != minikctl.BindingBatches {
		s.single = append(s.single, t.Name)
		return nil, nil
	}
	if s.batch != nil {
		return nil, s.batch
	}
	out := &minikctl.BindingBatch{}
	var names []string
	for i, b := range obj.(*minikctl.BindingBatch).Bindings {
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
			s := &bindingServer{answer: make(chan struct{}), batch: refusal}
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

// The error of a batch is that of each of its bindings, and the end of a caller's context ends neither the batch nor the others.
func TestBindingOfEndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &bindingServer{answer: make(chan struct{}), batch: apierrors.NewInternalError(errors.New("broken"))}
		b := &binder{client: s, batches: true}
		others := bindAll(t.Context(), b, "a", "b")
		ctx, cancel := context.WithCancel(t.Context())
		ended := bindAll(ctx, b, "c")
		rest := bindAll(t.Context(), b, "d")
		cancel()
		if err := <-ended["c"]; !errors.Is(err, context.Canceled) {
			t.Errorf("c: %v", err)
		}
		close(s.answer)
		if err := <-rest["d"]; !apierrors.IsInternalError(err) {
			t.Errorf("d: %v", err)
		}
		for name, done := range others {
			if err := <-done; err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
