package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	library "k8s.io/apiserver/pkg/quota/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects/quota"
)

// UpdateQuota stores the status of a quota. The error is a Conflict when the stored quota has another resourceVersion.
type UpdateQuota func(ctx context.Context, q *corev1.ResourceQuota) error

// resourceQuota enforces the ResourceQuotas of a namespace. It is the last stage before the commit: it charges
// the object's usage to the status of each quota, and releases it if the object is not stored. A quota is updated
// only at the resourceVersion that was read. Concurrent writes in a namespace are checked in one batch, which updates each
// quota once.
type resourceQuota struct {
	reader stage.Reader
	update UpdateQuota
	clock  clock.Clock
	queues *quotaQueues
}

type quotaQueues struct {
	mu      sync.Mutex
	waiting map[string][]*quotaRequest // by namespace; the key exists while a goroutine checks the namespace's requests
}

// quotaRequest is a write that charges quotas, or the release of what a write has charged.
type quotaRequest struct {
	a         *stage.Admission
	evaluator quota.Evaluator
	adds      map[string]corev1.ResourceList // what the current try adds, by quota
	charged   map[string]corev1.ResourceList // what it has added to the stored quotas, by quota
	releases  bool                           // the request subtracts all of charged instead of charging
	err       error
	done      chan struct{} // closed when err and charged are final
}

// quotaTries bounds how often a quota is read again because it was changed concurrently.
const quotaTries = 10

func newResourceQuota(r stage.Reader, update UpdateQuota, clk clock.Clock) resourceQuota {
	return resourceQuota{r, update, clk, &quotaQueues{waiting: map[string][]*quotaRequest{}}}
}

func (resourceQuota) Name() string { return "ResourceQuota" }

// uncounted lists resources that quotas ignore.
var uncounted = []schema.GroupResource{{Resource: "events"}, {Group: "events.k8s.io", Resource: "events"}, {Resource: "bindings"}}

// Reserve implements stage.Reserver.
func (q resourceQuota) Reserve(ctx context.Context, a *stage.Admission, tx *stage.Transaction) error {
	if a.Namespace == "" || a.Operation != stage.Create && a.Operation != stage.Update {
		return nil
	}
	counters, err := q.reader.Counters(ctx, resourceQuotas)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	gr := a.GVR.GroupResource()
	if counters.Count == 0 || gr == namespaces || slices.Contains(uncounted, gr) {
		return nil
	}
	evaluator := quota.For(gr)
	if a.Operation == stage.Create && a.Subresource != "" || a.Operation == stage.Update && !evaluator.Changed(a.Subresource, a.Object, a.Old) {
		return nil
	}
	r := &quotaRequest{
		a: a, evaluator: evaluator, adds: map[string]corev1.ResourceList{}, charged: map[string]corev1.ResourceList{},
		done: make(chan struct{}),
	}
	tx.OnRollback(func(ctx context.Context) { q.release(ctx, r) }) // before the charge, which may fail halfway or panic
	q.check(ctx, r)
	return r.err
}

// release subtracts what r has charged from the quotas.
func (q resourceQuota) release(ctx context.Context, r *quotaRequest) {
	if len(r.charged) == 0 {
		return
	}
	back := &quotaRequest{a: r.a, charged: r.charged, releases: true, done: make(chan struct{})}
	if q.check(ctx, back); back.err != nil { // the controller corrects the quota when it counts again
		slog.WarnContext(ctx, "release quota", "namespace", r.a.Namespace, "err", back.err)
	}
}

// check sets r.err and r.charged. One goroutine at a time checks the requests of a namespace: the first takes those that
// arrive meanwhile as its next batch, the others wait.
func (q resourceQuota) check(ctx context.Context, r *quotaRequest) {
	namespace := r.a.Namespace
	q.queues.mu.Lock()
	others, checking := q.queues.waiting[namespace]
	if checking {
		q.queues.waiting[namespace] = append(others, r)
		q.queues.mu.Unlock()
		<-r.done
		return
	}
	q.queues.waiting[namespace] = nil
	q.queues.mu.Unlock()
	ctx = context.WithoutCancel(ctx) // the other requests of the batch do not depend on this one's client
	for batch := []*quotaRequest{r}; len(batch) > 0; {
		q.checkBatch(ctx, namespace, batch)
		q.queues.mu.Lock()
		batch = q.queues.waiting[namespace]
		q.queues.waiting[namespace] = nil
		if len(batch) == 0 {
			delete(q.queues.waiting, namespace)
		}
		q.queues.mu.Unlock()
	}
}

// checkBatch checks a batch and wakes its requests. When the check panics, all requests of the batch and those that wait
// fail, and the namespace is free for the next request.
func (q resourceQuota) checkBatch(ctx context.Context, namespace string, batch []*quotaRequest) {
	returned := false
	defer func() {
		if !returned {
			q.queues.mu.Lock()
			batch = append(batch, q.queues.waiting[namespace]...)
			delete(q.queues.waiting, namespace)
			q.queues.mu.Unlock()
			fail(batch, apierrors.NewInternalError(errors.New("resource quota evaluation failed")))
		}
		for _, r := range batch {
			close(r.done)
		}
	}()
	q.charge(ctx, namespace, batch)
	returned = true
}

// charge adds what the requests of a batch use to the quotas, and reads those quotas again that others have changed.
func (q resourceQuota) charge(ctx context.Context, namespace string, batch []*quotaRequest) {
	var only []string // the quotas that are read; nil: all
	open := batch
	for try := 0; len(open) > 0; try++ {
		quotas, err := q.list(ctx, namespace, only)
		if err != nil {
			fail(open, err)
			return
		}
		before := make([]corev1.ResourceList, len(quotas))
		for i := range quotas {
			before[i] = quotas[i].Status.Used
		}
		open = slices.DeleteFunc(slices.Clone(open), func(r *quotaRequest) bool {
			r.err = q.add(quotas, r)
			return r.err != nil
		})
		if only, err = q.write(ctx, quotas, before, open); err == nil {
			return
		}
		if !apierrors.IsConflict(err) || try == quotaTries {
			fail(open, err)
			return
		}
	}
}

func fail(all []*quotaRequest, err error) {
	for _, r := range all {
		r.err = err
	}
}

// list returns copies of a namespace's quotas.
func (q resourceQuota) list(ctx context.Context, namespace string, only []string) ([]*corev1.ResourceQuota, error) {
	all, err := q.reader.List(ctx, resourceQuotas, namespace)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("error resolving quota: %w", err))
	}
	var out []*corev1.ResourceQuota
	for _, obj := range all {
		if one, ok := obj.(*corev1.ResourceQuota); ok && (only == nil || slices.Contains(only, one.Name)) {
			out = append(out, one.DeepCopy())
		}
	}
	return out, nil
}

// write stores the quotas that have changed, and records them in the charged quotas of the requests. It returns the names
// of the quotas that it could not store, and the error of the last one.
func (q resourceQuota) write(ctx context.Context, quotas []*corev1.ResourceQuota, before []corev1.ResourceList, requests []*quotaRequest) (failed []string, err error) {
	for i, one := range quotas {
		if !library.Equals(before[i], one.Status.Used) {
			if e := q.update(ctx, one); e != nil && !apierrors.IsNotFound(e) { // a deleted quota limits nothing
				failed, err = append(failed, one.Name), e
				continue
			}
		}
		for _, r := range requests {
			if delta, ok := r.adds[one.Name]; ok {
				r.charged[one.Name] = delta
			}
		}
	}
	return failed, err
}

// add adds what a request uses to the quotas, or subtracts what it releases. A dry run only checks whether the object
// fits.
func (q resourceQuota) add(quotas []*corev1.ResourceQuota, r *quotaRequest) error {
	if r.releases {
		subtract(quotas, r.charged)
		return nil
	}
	deltas := make([]corev1.ResourceList, len(quotas))
	for i, one := range quotas {
		delta, err := q.delta(one, r)
		if err != nil {
			return err
		}
		if delta = library.Mask(delta, library.ResourceNames(one.Status.Hard)); len(delta) == 0 {
			continue
		}
		used := library.Mask(library.Add(one.Status.Used, delta), library.ResourceNames(delta))
		if ok, exceeded := library.LessThanOrEqual(used, one.Status.Hard); !ok && r.a.Subresource != "status" {
			return forbid(r.a, "exceeded quota: %s, requested: %s, used: %s, limited: %s", one.Name,
				listed(library.Mask(delta, exceeded)), listed(library.Mask(one.Status.Used, exceeded)), listed(library.Mask(one.Status.Hard, exceeded)))
		}
		deltas[i] = delta
	}
	clear(r.adds)
	for i, one := range quotas {
		if len(deltas[i]) > 0 && !r.a.DryRun {
			one.Status.Used = library.Add(one.Status.Used, deltas[i])
			r.adds[one.Name] = deltas[i]
		}
	}
	return nil
}

// subtract subtracts amounts from the quotas, down to 0.
func subtract(quotas []*corev1.ResourceQuota, amounts map[string]corev1.ResourceList) {
	for _, one := range quotas {
		used := maps.Clone(one.Status.Used)
		for name, q := range amounts[one.Name] {
			if has, ok := used[name]; ok {
				left := has.DeepCopy()
				left.Sub(q)
				if left.Sign() < 0 {
					left.Sub(left)
				}
				used[name] = left
			}
		}
		one.Status.Used = used
	}
}

// delta returns how much more of a quota a request uses; nothing when the quota does not count its object.
func (q resourceQuota) delta(one *corev1.ResourceQuota, r *quotaRequest) (corev1.ResourceList, error) {
	a, e, now := r.a, r.evaluator, q.clock.Now()
	matches, err := e.Matches(one, a.Object)
	if err != nil || !matches {
		return nil, err
	}
	names := e.Names(one.Status.Hard)
	if err := e.Missing(a.Object, names); err != nil {
		return nil, forbid(a, "failed quota: %s: %w", one.Name, err)
	}
	for _, name := range names {
		if _, ok := one.Status.Used[name]; !ok {
			return nil, forbid(a, "status unknown for quota: %s, resources: %s", one.Name, joined(names))
		}
	}
	usage := e.Usage(a.Object, now)
	if negative := library.IsNegative(usage); len(negative) > 0 {
		return nil, forbid(a, "quota usage is negative for resource(s): %s", joined(negative))
	}
	if a.Operation == stage.Update && a.Old != nil {
		was, err := e.Matches(one, a.Old)
		if err != nil {
			return nil, err
		}
		if was {
			usage = library.SubtractWithNonNegativeResult(usage, e.Usage(a.Old, now))
		}
	}
	return library.RemoveZeros(usage), nil
}

// listed formats amounts in the order of their names.
func listed(l corev1.ResourceList) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(l)) {
		q := l[name]
		parts = append(parts, string(name)+"="+q.String())
	}
	return strings.Join(parts, ",")
}

func joined(names []corev1.ResourceName) string {
	var parts []string
	for _, name := range names {
		parts = append(parts, string(name))
	}
	return strings.Join(parts, ",")
}
