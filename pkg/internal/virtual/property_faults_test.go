package virtual_test

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// faults has requests of components fail, and records which component deletes a pod.
type faults struct {
	mu      sync.Mutex
	reader  client.Client // may read pods
	clock   *clock.Manual
	rng     *rand.Rand
	rate    float64              // of failed writes
	lost    int                  // writes that were done, but whose response was lost, since the last settle
	deleter map[types.UID]string // the account that has last deleted a pod

	failures []failedWrite // the last ones, for reports
}

func newFaults(seed uint64) *faults {
	return &faults{rng: rand.New(rand.NewPCG(seed, 0)), deleter: map[types.UID]string{}}
}

func (f *faults) set(rate float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rate = rate
}

func (f *faults) on() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rate > 0
}

// deletedBy records that an account deletes an object.
func (f *faults) deletedBy(account string, uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deleter[uid] = account
}

// deletes is deletedBy for a pod that is not being deleted yet.
func (f *faults) deletes(ctx context.Context, account string, pod client.Target) {
	f.mu.Lock()
	reader := f.reader
	f.mu.Unlock()
	if obj, err := reader.Get(ctx, pod, metav1.GetOptions{}); err == nil && obj.GetDeletionTimestamp() == nil {
		f.deletedBy(account, obj.GetUID())
	}
}

func (f *faults) client(account string, c client.Client) client.Client {
	return faulty{c, f, account}
}

// faulty is the client of a component.
type faulty struct {
	client.Client
	faults  *faults
	account string
}

// draw returns an error for some writes. after: the write is done before the error is returned.
func (f faulty) draw() (err error, after bool) {
	f.faults.mu.Lock()
	defer f.faults.mu.Unlock()
	if f.faults.rate == 0 || f.faults.rng.Float64() >= f.faults.rate {
		return nil, false
	}
	switch f.faults.rng.IntN(3) {
	case 0:
		return apierrors.NewInternalError(errors.New("a fault")), false
	case 1:
		return apierrors.NewTooManyRequests("a fault", 1), false
	}
	f.faults.lost++
	return errors.New("connection reset by a fault"), true
}

func do(f faulty, verb string, t client.Target, name string, write func() (runtime.Object, error)) (runtime.Object, error) {
	if t.Resource.Resource == client.Events.Resource {
		return write() // is tried again for minutes of the machine's time
	}
	failure, after := f.draw()
	failed := failedWrite{account: f.account, verb: verb, resource: t.Resource.Resource, name: name}
	if failure != nil && !after {
		f.faults.note(failed)
		return nil, failure
	}
	out, err := write()
	if failure != nil {
		if obj, ok := out.(objects.Object); ok && err == nil {
			failed.done, failed.revision = true, obj.GetResourceVersion()
		}
		f.faults.note(failed)
		return nil, failure
	}
	return out, err
}

func (f faulty) Create(ctx context.Context, t client.Target, obj runtime.Object, opts metav1.CreateOptions) (runtime.Object, error) {
	return do(f, "create", t, nameOf(obj), func() (runtime.Object, error) { return f.Client.Create(ctx, t, obj, opts) })
}

func (f faulty) Update(ctx context.Context, t client.Target, obj runtime.Object, opts metav1.UpdateOptions) (runtime.Object, error) {
	return do(f, "update", t, t.Name, func() (runtime.Object, error) { return f.Client.Update(ctx, t, obj, opts) })
}

func (f faulty) Patch(ctx context.Context, t client.Target, p client.Patch, opts metav1.PatchOptions) (runtime.Object, error) {
	return do(f, "patch", t, t.Name, func() (runtime.Object, error) { return f.Client.Patch(ctx, t, p, opts) })
}

func (f faulty) Delete(ctx context.Context, t client.Target, opts metav1.DeleteOptions) (runtime.Object, error) {
	if t.Resource == client.Pods && t.Subresource == "" && t.Name != "" {
		f.faults.deletes(ctx, f.account, t)
	}
	return do(f, "delete", t, t.Name, func() (runtime.Object, error) { return f.Client.Delete(ctx, t, opts) })
}

// nameOf returns the name of an object to create, or its prefix.
func nameOf(obj runtime.Object) string {
	o, ok := obj.(objects.Object)
	if !ok {
		return ""
	}
	return cmp.Or(o.GetName(), o.GetGenerateName())
}
