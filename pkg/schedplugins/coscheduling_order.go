package schedplugins

import (
	"time"

	helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/scheduler"
)

var _ scheduler.KeyedSort = (*coscheduling)(nil)

// Less sorts pods by priority, then by the age of their PodGroup, so that the pods of a group are tried one after the other. A group that was rejected comes
// after those that have waited since before, so that it does not keep them from being tried.
func (p *coscheduling) Less(a, b framework.QueuedPodInfo) bool {
	return p.LessKeyed(a, b, p.SortKey(a), p.SortKey(b))
}

// SortKey implements scheduler.KeyedSort. The key is the pod's age, in a form that == compares.
func (p *coscheduling) SortKey(q framework.QueuedPodInfo) any { return p.age(q).Round(0).UTC() }

// LessKeyed implements scheduler.KeyedSort.
func (*coscheduling) LessKeyed(a, b framework.QueuedPodInfo, keyA, keyB any) bool {
	x, y := a.GetPodInfo().GetPod(), b.GetPodInfo().GetPod()
	if px, py := helper.PodPriority(x), helper.PodPriority(y); px != py {
		return px > py
	}
	tx, _ := keyA.(time.Time)
	ty, _ := keyB.(time.Time)
	if tx.Equal(ty) {
		return x.Namespace+"/"+x.Name < y.Namespace+"/"+y.Name
	}
	return tx.Before(ty)
}

// age returns when a pod's PodGroup was rejected last, or else created; without one, when the pod was first tried or queued.
func (p *coscheduling) age(q framework.QueuedPodInfo) time.Time {
	key, group := p.groupOf(q.GetPodInfo().GetPod())
	p.mu.Lock()
	failed, rejected := p.failed[key]
	p.mu.Unlock()
	switch {
	case group == nil:
	case rejected:
		return failed
	default:
		return group.CreationTimestamp.Time
	}
	if t := q.GetInitialAttemptTimestamp(); t != nil {
		return *t
	}
	return q.GetTimestamp()
}
