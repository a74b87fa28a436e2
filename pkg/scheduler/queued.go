package scheduler

import (
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"
)

// queued is a pod that waits for a node, with what became of it so far. It is a framework.QueuedPodInfo.
type queued struct {
	info     *podInfo
	revision uint64 // of the pod's version
	woken    uint64 // the revision of the event that last put it in line; 0: none
	number   uint64 // the order of arrival, which settles equal priorities

	since   time.Time // when it got in line this time
	first   time.Time // when its first attempt began
	expires time.Time // when its back-off ends

	attempts, rejections, errors int // all attempts; those turned down; those that broke, in a row
	blockers, pending            sets.Set[string]
	gate                         string // the plugin that keeps it from being tried at all

	where  place
	at     int // in a line
	bucket string

	signature string // for memo; "" not yet worked out
	signed    *profile
}

// place says where in the queue a pod is.
type place int

const (
	out     place = iota
	active        // in line
	resting       // backing off after it was turned down
	mending       // backing off after an error
	parked        // until an event that may help it
)

var _ framework.QueuedPodInfo = (*queued)(nil)

// GetPodInfo and the methods below are framework.QueuedPodInfo's.
func (q *queued) GetPodInfo() framework.PodInfo             { return q.info }
func (q *queued) GetTimestamp() time.Time                   { return q.since }
func (q *queued) GetAttempts() int                          { return q.attempts }
func (q *queued) GetBackoffExpiration() time.Time           { return q.expires }
func (q *queued) GetUnschedulableCount() int                { return q.rejections }
func (q *queued) GetConsecutiveErrorsCount() int            { return q.errors }
func (q *queued) GetUnschedulablePlugins() sets.Set[string] { return q.blockers }
func (q *queued) GetPendingPlugins() sets.Set[string]       { return q.pending }
func (q *queued) GetGatingPlugin() string                   { return q.gate }
func (q *queued) GetInitialAttemptTimestamp() *time.Time {
	if q.first.IsZero() {
		return nil
	}
	return &q.first
}
func (q *queued) GetGatingPluginEvents() []framework.ClusterEvent { return nil }
