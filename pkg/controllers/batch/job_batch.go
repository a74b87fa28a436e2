package batch

import (
	"context"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// batchPeriod is how long the sync of a Job waits for more of its pods to change. Pods that end together are then counted together,
// before a policy decides what to do with the others. When the last pod has ended, there is nothing to wait for.
const batchPeriod = time.Second

// batches delays syncs of Jobs. It is safe for concurrent use.
type batches struct {
	clock clock.Clock

	mu         sync.Mutex
	unfinished map[types.UID]int        // the pods of a Job that have not ended
	waiting    map[objects.Key][]uint64 // Jobs that are synced at the end of their period, with the revisions of the changes
}

func newBatches(clk clock.Clock) *batches {
	return &batches{clock: clk, unfinished: map[types.UID]int{}, waiting: map[objects.Key][]uint64{}}
}

// pods enqueues the Jobs whose pods change.
func (b *batches) pods(pods *client.Cache[*corev1.Pod]) reconcile.Source {
	return func(_ context.Context, enqueue reconcile.Enqueue) {
		pods.Subscribe(func(ch client.Change[*corev1.Pod]) {
			var before, now *metav1.OwnerReference
			if !ch.Added() {
				before = b.count(ch.Old, -1)
			}
			if !ch.Deleted() {
				now = b.count(ch.New, 1)
			}
			if before != nil && (now == nil || now.UID != before.UID) {
				b.add(ch.Key().Namespace, before, ch.Revision, enqueue)
			}
			if now != nil {
				b.add(ch.Key().Namespace, now, ch.Revision, enqueue)
			}
		})
	}
}

// count adds n to the number of unfinished pods of the Job that controls p, if p is one of them. It returns the reference to the Job, nil
// if no Job controls p.
func (b *batches) count(p *corev1.Pod, n int) *metav1.OwnerReference {
	ref := metav1.GetControllerOfNoCopy(p)
	if ref == nil || ref.Kind != jobKind.Kind {
		return nil
	}
	if controller.IsPodTerminal(p) {
		return ref
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.unfinished[ref.UID] += n; b.unfinished[ref.UID] == 0 {
		delete(b.unfinished, ref.UID)
	}
	return ref
}

// add enqueues a Job whose pod has changed: at once if all its pods have ended.
func (b *batches) add(namespace string, ref *metav1.OwnerReference, revision uint64, enqueue reconcile.Enqueue) {
	key := objects.Key{Namespace: namespace, Name: ref.Name}
	b.mu.Lock()
	more := b.unfinished[ref.UID] > 0
	b.mu.Unlock()
	if more {
		b.later(key, revision, enqueue)
	} else {
		enqueue(key, revision)
	}
}

// maxRevisions bounds the changes that are named as causes of a sync. The first ones are kept.
const maxRevisions = 16

// later enqueues a Job at the end of the period that its first change begins.
func (b *batches) later(key objects.Key, revision uint64, enqueue reconcile.Enqueue) {
	b.mu.Lock()
	defer b.mu.Unlock()
	causes, waits := b.waiting[key]
	if len(causes) < maxRevisions {
		b.waiting[key] = append(causes, revision)
	}
	if waits {
		return
	}
	b.clock.AfterFunc(batchPeriod, func() {
		b.mu.Lock()
		causes := b.waiting[key]
		delete(b.waiting, key)
		b.mu.Unlock()
		for _, revision := range causes {
			enqueue(key, revision)
		}
	})
}

// jobs enqueues the Jobs that change: at once if they are new, deleted, or have another spec, else at the end of the period.
func (b *batches) jobs(jobs *client.Cache[*batchv1.Job]) reconcile.Source {
	return func(_ context.Context, enqueue reconcile.Enqueue) {
		jobs.Subscribe(func(ch client.Change[*batchv1.Job]) {
			if !ch.Added() && !ch.Deleted() && ch.Old.UID == ch.New.UID && ch.Old.Generation == ch.New.Generation {
				b.later(ch.Key(), ch.Revision, enqueue)
			} else {
				enqueue(ch.Key(), ch.Revision)
			}
		})
	}
}
