package admission

import (
	"context"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// panics is a reader that panics when quotas are listed, once it may proceed.
type panics struct {
	stage.Reader
	listed, proceed chan struct{}
}

func (panics) State(context.Context, schema.GroupResource) (stage.State, error) {
	return stage.State{Count: 1}, nil
}

func (p panics) List(context.Context, schema.GroupResource, string) ([]objects.Object, error) {
	close(p.listed)
	<-p.proceed
	panic("oh")
}

// TestQuotaPanic: a panic while one write is counted leaves no other waiting, nor those that come later.
func TestQuotaPanic(t *testing.T) { synctest.Test(t, quotaPanic) }

func quotaPanic(t *testing.T) {
	p := panics{listed: make(chan struct{}), proceed: make(chan struct{})}
	q := newResourceQuota(p, nil, clock.Real())
	admit := func() error {
		return q.Reserve(t.Context(), &stage.Admission{
			Attributes: &stage.Attributes{GVR: corev1.SchemeGroupVersion.WithResource("configmaps"), Namespace: "n"},
			Operation:  stage.Create, Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "x"}},
		}, &stage.Transaction{})
	}
	first, second := make(chan any, 1), make(chan error, 1)
	go func() {
		defer func() { first <- recover() }()
		_ = admit()
	}()
	<-p.listed
	go func() { second <- admit() }()
	synctest.Wait() // until the second waits for the first
	close(p.proceed)
	if got := <-first; got != "oh" {
		t.Errorf("the first: %v", got)
	}
	synctest.Wait()
	select {
	case err := <-second:
		if err == nil {
			t.Error("the second is let through")
		}
	default:
		t.Error("the second waits")
	}
	if len(q.queues.waiting) > 0 {
		t.Error("somebody still counts")
	}
}
