package admission

import (
	"context"
	"errors"
	"fmt"
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

// UpdateQuota stores the status of a quota that is still at its resourceVersion; a Conflict says that it is not.
type UpdateQuota func(ctx context.Context, q *corev1.ResourceQuota) error

// resourceQuota holds a namespace to its quotas. It is the last stage before the commit: what an object will use is
// reserved in the quotas' status, each replaced only as it was read, and given back when the object is not stored after all.
// The writes of a namespace that come together are counted together, so that they cost one update of each quota.
type resourceQuota struct {
	reader stage.Reader
	update UpdateQuota
	clock  clock.Clock
	queues *quotaQueues
}

type quotaQueues struct {
	mu      sync.Mutex
	waiting map[string][]*claimant // by namespace; the key is there while somebody counts for it
}

// claimant is a write that waits for its place in the quotas, or gives back the one that it had.
type claimant struct {
	a         *stage.Admission
	evaluate  quota.Evaluator
	charged   map[string]corev1.ResourceList // what is reserved, by quota
	givesBack bool                           // all of charged
	err       error
	done      chan struct{}
}

// quotaTries bounds how often a quota that somebody else changes is looked at again.
const quotaTries = 10

func newResourceQuota(r stage.Reader, update UpdateQuota, clk clock.Clock) resourceQuota {
	return resourceQuota{r, update, clk, &quotaQueues{waiting: map[string][]*claimant{}}}
}

func (resourceQuota) Name() string { return "ResourceQuota" }

// uncounted are resources that no quota counts: what nobody keeps, or keeps for long.
var uncounted = []schema.GroupResource{{Resource: "events"}, {Group: "events.k8s.io", Resource: "events"}, {Resource: "bindings"}}

// Reserve implements stage.Reserver.
func (q resourceQuota) Reserve(ctx context.Context, a *stage.Admission, tx *stage.Transaction) error {
	if a.Namespace == "" || a.Operation != stage.Create && a.Operation != stage.Update {
		return nil
	}
	state, err := q.reader.State(ctx, resourceQuotas)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	gr := a.GVR.GroupResource()
	if state.Count == 0 || gr == namespaces || slices.Contains(uncounted, gr) {
		return nil
	}
	evaluate := quota.For(gr)
	if a.Operation == stage.Create && a.Subresource != "" || a.Operation == stage.Update && !evaluate.Changed(a.Subresource, a.Object, a.Old) {
		return nil
	}
	c := &claimant{a: a, evaluate: evaluate, charged: map[string]corev1.ResourceList{}, done: make(chan struct{})}
	q.count(ctx, c)
	if c.err == nil && len(c.charged) > 0 {
		tx.OnRollback(func(ctx context.Context) {
			q.count(ctx, &claimant{a: a, charged: c.charged, givesBack: true, done: make(chan struct{})})
		})
	}
	return c.err
}

// count settles a claimant, and whoever comes meanwhile; or waits until who came before has done so.
func (q resourceQuota) count(ctx context.Context, c *claimant) {
	namespace := c.a.Namespace
	q.queues.mu.Lock()
	others, counting := q.queues.waiting[namespace]
	if counting {
		q.queues.waiting[namespace] = append(others, c)
		q.queues.mu.Unlock()
		<-c.done
		return
	}
	q.queues.waiting[namespace] = nil
	q.queues.mu.Unlock()
	ctx = context.WithoutCancel(ctx) // the others' outcome is not to depend on who waits for this one
	for batch := []*claimant{c}; len(batch) > 0; {
		q.settleAll(ctx, namespace, batch)
		q.queues.mu.Lock()
		batch = q.queues.waiting[namespace]
		q.queues.waiting[namespace] = nil
		if len(batch) == 0 {
			delete(q.queues.waiting, namespace)
		}
		q.queues.mu.Unlock()
	}
}

// settleAll decides about a batch and tells its claimants. When that panics, nobody is left waiting, nor counting.
func (q resourceQuota) settleAll(ctx context.Context, namespace string, batch []*claimant) {
	settled := false
	defer func() {
		if !settled {
			q.queues.mu.Lock()
			batch = append(batch, q.queues.waiting[namespace]...)
			delete(q.queues.waiting, namespace)
			q.queues.mu.Unlock()
			fail(batch, apierrors.NewInternalError(errors.New("resource quota evaluation failed")))
		}
		for _, c := range batch {
			close(c.done)
		}
	}()
	q.settle(ctx, namespace, batch)
	settled = true
}

// settle decides about all claimants of a batch.
func (q resourceQuota) settle(ctx context.Context, namespace string, batch []*claimant) {
	var only []string // the quotas that are looked at; nil: all
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
		var refused []*claimant
		open = slices.DeleteFunc(slices.Clone(open), func(c *claimant) bool {
			c.err = q.reserve(quotas, c)
			if c.err != nil && len(c.charged) > 0 { // in other quotas, which were written already
				refused = append(refused, &claimant{a: c.a, charged: c.charged, givesBack: true})
			}
			return c.err != nil
		})
		only, err = q.write(ctx, quotas, before)
		if len(refused) > 0 {
			q.settle(ctx, namespace, refused)
		}
		if err == nil {
			return
		}
		for _, c := range open { // what was not written is not reserved
			for _, name := range only {
				if !c.givesBack {
					delete(c.charged, name)
				}
			}
		}
		if !apierrors.IsConflict(err) || try == quotaTries {
			fail(open, err)
			return
		}
	}
}

func fail(all []*claimant, err error) {
	for _, c := range all {
		c.err = err
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

// write stores the quotas of which more is used than before. It returns those that could not be, and why.
func (q resourceQuota) write(ctx context.Context, quotas []*corev1.ResourceQuota, before []corev1.ResourceList) (failed []string, err error) {
	for i, one := range quotas {
		if library.Equals(before[i], one.Status.Used) {
			continue
		}
		if e := q.update(ctx, one); e != nil && !apierrors.IsNotFound(e) { // a quota that is gone limits nothing
			failed, err = append(failed, one.Name), e
		}
	}
	return failed, err
}

// reserve adds what a claimant will use to the quotas that it counts against, or takes back what it gives back. A dry run
// finds out only whether there is room.
func (q resourceQuota) reserve(quotas []*corev1.ResourceQuota, c *claimant) error {
	if c.givesBack {
		takeBack(quotas, c.charged)
		return nil
	}
	deltas := make([]corev1.ResourceList, len(quotas))
	for i, one := range quotas {
		delta, err := q.delta(one, c)
		if err != nil {
			return err
		}
		if delta = library.Mask(delta, library.ResourceNames(one.Status.Hard)); len(delta) == 0 {
			continue
		}
		used := library.Mask(library.Add(one.Status.Used, delta), library.ResourceNames(delta))
		if ok, exceeded := library.LessThanOrEqual(used, one.Status.Hard); !ok && c.a.Subresource != "status" {
			return forbid(c.a, "exceeded quota: %s, requested: %s, used: %s, limited: %s", one.Name,
				listed(library.Mask(delta, exceeded)), listed(library.Mask(one.Status.Used, exceeded)), listed(library.Mask(one.Status.Hard, exceeded)))
		}
		deltas[i] = delta
	}
	for i, one := range quotas {
		if len(deltas[i]) > 0 && !c.a.DryRun {
			one.Status.Used = library.Add(one.Status.Used, deltas[i])
			c.charged[one.Name] = deltas[i]
		}
	}
	return nil
}

func takeBack(quotas []*corev1.ResourceQuota, charged map[string]corev1.ResourceList) {
	for _, one := range quotas {
		used := maps.Clone(one.Status.Used)
		for name, q := range charged[one.Name] {
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

// delta returns how much more of a quota a claimant will use; nothing when it does not count against it.
func (q resourceQuota) delta(one *corev1.ResourceQuota, c *claimant) (corev1.ResourceList, error) {
	a, e, now := c.a, c.evaluate, q.clock.Now()
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

// listed shows amounts in the order of their names.
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
