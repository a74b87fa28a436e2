package admission

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage/stagetest"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// panics is a reader that panics when quotas are listed, once it may proceed.
type panics struct {
	stage.Reader
	listed, proceed chan struct{}
}

func (panics) Counters(context.Context, schema.GroupResource) (stage.Counters, error) {
	return stage.Counters{Count: 1}, nil
}

func (p panics) List(context.Context, schema.GroupResource, string) ([]objects.Object, error) {
	close(p.listed)
	<-p.proceed
	panic("oh")
}

// TestQuotaPanic: after a panic in the check of one write, the writes that wait for it fail and later ones are checked.
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
			t.Error("the second is admitted")
		}
	default:
		t.Error("the second waits")
	}
	if len(q.queues.waiting) > 0 {
		t.Error("the namespace is still marked as being checked")
	}
}

// TestQuotaIsReleased charges two quotas. When the update of the second one fails, the charge of the first is released.
func TestQuotaIsReleased(t *testing.T) {
	for _, tt := range []struct {
		name string
		fail func() error // instead of the update of the second quota
		want string       // the panic or the error
	}{
		{"later stage fails", nil, "<nil>"},
		{"no space", func() error { return apierrors.NewServiceUnavailable("the store takes no writes") }, "the store takes no writes"},
		{"conflict at every try", func() error { return apierrors.NewConflict(resourceQuotas, "b", errors.New("changed")) },
			`Operation cannot be fulfilled on resourcequotas "b": changed`},
		{"panic", func() error { panic("oh") }, "oh"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := stagetest.NewReader()
			r.Put("resourcequotas", newQuota("a"), newQuota("b"))
			update := func(_ context.Context, q *corev1.ResourceQuota) error {
				if q.Name == "b" && tt.fail != nil {
					return tt.fail()
				}
				r.Put("resourcequotas", q)
				return nil
			}
			if got := fmt.Sprint(reserveAndRollBack(t.Context(), newResourceQuota(r, update, clock.Real()))); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			all, err := r.List(t.Context(), resourceQuotas, "n")
			if err != nil {
				t.Fatal(err)
			}
			for _, obj := range all {
				used := obj.(*corev1.ResourceQuota).Status.Used[configMapCount]
				if !used.IsZero() {
					t.Errorf("quota %s: %s used, want 0", obj.GetName(), used.String())
				}
			}
		})
	}
}

const configMapCount corev1.ResourceName = "configmaps"

func newQuota(name string) *corev1.ResourceQuota {
	amount := func(n string) corev1.ResourceList {
		return corev1.ResourceList{configMapCount: resource.MustParse(n)}
	}
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name},
		Status:     corev1.ResourceQuotaStatus{Hard: amount("5"), Used: amount("0")},
	}
}

// reserveAndRollBack reserves for a new ConfigMap in a transaction that is rolled back, and returns the panic or the error.
func reserveAndRollBack(ctx context.Context, q resourceQuota) (failure any) {
	var tx stage.Transaction
	defer func() {
		if p := recover(); p != nil {
			failure = p
		}
	}()
	defer tx.Rollback(ctx)
	return q.Reserve(ctx, &stage.Admission{
		Attributes: &stage.Attributes{GVR: corev1.SchemeGroupVersion.WithResource("configmaps"), Namespace: "n"},
		Operation:  stage.Create, Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "x"}},
	}, &tx)
}
