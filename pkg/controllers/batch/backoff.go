package batch

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
)

// The pause before a failed pod is replaced doubles with each failure, from firstBackoff to maxBackoff.
const (
	firstBackoff = 10 * time.Second
	maxBackoff   = 10 * time.Minute
)

// backoff holds the failures of a Job's pods since the last success.
type backoff struct {
	failures int
	last     time.Time // when the last pod failed
}

// next returns the backoff after the end of more pods. Failures before the last success don't count.
func (b backoff) next(succeeded, failed []*corev1.Pod) backoff {
	var success time.Time
	for _, p := range succeeded {
		if at := finishTime(p); at.After(success) {
			success = at
		}
	}
	if len(succeeded) > 0 {
		b = backoff{}
	}
	for _, p := range failed {
		at := finishTime(p)
		if len(succeeded) > 0 && !at.After(success) {
			continue
		}
		b.failures++
		if b.failures == 1 || at.After(b.last) {
			b.last = at
		}
	}
	return b
}

// wait returns how long the creation of pods must pause from now on.
func (b backoff) wait(now time.Time) time.Duration {
	if b.failures == 0 {
		return 0
	}
	pause := firstBackoff
	for i := 1; i < b.failures && pause < maxBackoff; i++ {
		pause *= 2
	}
	return max(0, min(pause, maxBackoff)-now.Sub(b.last))
}

// finishTime returns when a pod ended: when its last container ended, else when it stopped to be ready, else when it was
// deleted, else when it was created.
func finishTime(p *corev1.Pod) time.Time {
	if at, ok := containersFinished(p); ok {
		return at
	}
	if c := controller.PodCondition(p, corev1.PodReady); c != nil && c.Status == corev1.ConditionFalse && !c.LastTransitionTime.IsZero() {
		return c.LastTransitionTime.Time
	}
	if p.DeletionTimestamp != nil {
		var grace time.Duration
		if p.DeletionGracePeriodSeconds != nil {
			grace = time.Duration(*p.DeletionGracePeriodSeconds) * time.Second
		}
		return p.DeletionTimestamp.Add(-grace)
	}
	return p.CreationTimestamp.Time
}

// containersFinished returns when the last of a pod's containers and sidecars ended. It returns false if one has not ended.
func containersFinished(p *corev1.Pod) (time.Time, bool) {
	statuses := slices.Clone(p.Status.ContainerStatuses)
	for _, s := range p.Status.InitContainerStatuses {
		if slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool {
			return c.Name == s.Name && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		}) {
			statuses = append(statuses, s)
		}
	}
	var last time.Time
	for _, s := range statuses {
		if s.State.Terminated == nil || s.State.Terminated.FinishedAt.IsZero() {
			return time.Time{}, false
		}
		if at := s.State.Terminated.FinishedAt.Time; at.After(last) {
			last = at
		}
	}
	return last, !last.IsZero()
}

// backoffs holds the backoff of each unfinished Job. It is in memory only: a restarted controller replaces failed pods without a
// pause. It is safe for concurrent use.
type backoffs struct {
	mu   sync.Mutex
	jobs map[objects.Key]jobBackoff
}

type jobBackoff struct {
	uid types.UID
	backoff
}

func (b *backoffs) get(key objects.Key, uid types.UID) backoff {
	b.mu.Lock()
	defer b.mu.Unlock()
	if j := b.jobs[key]; j.uid == uid {
		return j.backoff
	}
	return backoff{}
}

// set stores the backoff of a Job. A Job without failures takes no memory.
func (b *backoffs) set(key objects.Key, uid types.UID, now backoff) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.failures == 0 {
		delete(b.jobs, key)
		return
	}
	b.jobs[key] = jobBackoff{uid, now}
}

func (b *backoffs) forget(key objects.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.jobs, key)
}
