package scheduler

import (
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

// queuedPodInfo is a pod without a node, and the history of its scheduling attempts. It is a framework.QueuedPodInfo.
type queuedPodInfo struct {
	info     *podInfo
	revision uint64           // of the pod's version
	cause    uint64           // the revision of the event that last moved it to the activeQ or a backoff queue; 0: none
	wokenBy  *minikctl.Waking // that event; nil: none since the last attempt
	arrival  uint64           // the order in which pods were added; breaks ties of equal priority

	timestamp    time.Time // when it entered its present queue
	activated    time.Time // when it first entered the activeQ
	firstAttempt time.Time // when its first attempt began
	backoffUntil time.Time

	flushed bool // it was requeued because it had been unschedulable for too long

	attempts           int // all of them
	unschedulableCount int // attempts that ended with Unschedulable
	errorCount         int // attempts in a row that ended with an error

	unschedulablePlugins sets.Set[string] // rejected the pod in its last attempt
	pendingPlugins       sets.Set[string] // returned Pending in its last attempt
	waitsFor             []string         // both, sorted, while the pod is unschedulable
	gatingPlugin         string           // the PreEnqueue plugin that keeps the pod out of the activeQ
	gatingMessage        string           // of this plugin

	location location
	index    int             // in the heap of its queue
	sortKey  any             // of a KeyedSort while the pod is in the activeQ; nil: not computed yet
	group    string          // its key in queue.unschedulable
	written  <-chan struct{} // closed when the status of the last failed attempt is written; nil: there was none
}

// location is the queue that holds a pod.
type location int

const (
	inFlight location = iota // in no queue: an attempt is under way
	inActiveQ
	inBackoffQ
	inErrorBackoffQ
	inUnschedulable
)

var _ framework.QueuedPodInfo = (*queuedPodInfo)(nil)

// GetPodInfo and the methods below implement framework.QueuedPodInfo.
func (q *queuedPodInfo) GetPodInfo() framework.PodInfo             { return q.info }
func (q *queuedPodInfo) GetTimestamp() time.Time                   { return q.timestamp }
func (q *queuedPodInfo) GetAttempts() int                          { return q.attempts }
func (q *queuedPodInfo) GetBackoffExpiration() time.Time           { return q.backoffUntil }
func (q *queuedPodInfo) GetUnschedulableCount() int                { return q.unschedulableCount }
func (q *queuedPodInfo) GetConsecutiveErrorsCount() int            { return q.errorCount }
func (q *queuedPodInfo) GetUnschedulablePlugins() sets.Set[string] { return q.unschedulablePlugins }
func (q *queuedPodInfo) GetPendingPlugins() sets.Set[string]       { return q.pendingPlugins }
func (q *queuedPodInfo) GetGatingPlugin() string                   { return q.gatingPlugin }
func (q *queuedPodInfo) GetInitialAttemptTimestamp() *time.Time {
	if q.firstAttempt.IsZero() {
		return nil
	}
	return &q.firstAttempt
}
func (q *queuedPodInfo) GetGatingPluginEvents() []framework.ClusterEvent { return nil }
