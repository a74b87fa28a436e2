// Package minikctl defines the API group minikctl.dev: the resources that minikctl adds to Kubernetes. They are virtual: the
// API server keeps the newest of them in memory, and they have no stored revision.
package minikctl

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/trace"
)

// GroupVersion is the group's only version.
var GroupVersion = schema.GroupVersion{Group: "minikctl.dev", Version: "v1"}

// The group's resources.
var (
	Traces         = GroupVersion.WithResource("traces")
	Decisions      = GroupVersion.WithResource("decisions")
	CorruptObjects = GroupVersion.WithResource("corruptobjects")
	Clocks         = GroupVersion.WithResource("clocks")
	ClockAdvances  = GroupVersion.WithResource("clockadvances")
)

// Trace is a committed write and its cause. Its name is its revision.
type Trace struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Span trace.Span `json:"span"`
}

// TraceList is a list of traces, oldest first.
type TraceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Trace `json:"items"`
}

// Decision is one scheduling attempt of a pod. Its name is PODNAME.ATTEMPT-SUFFIX, and it has the label
// PodLabel.
type Decision struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1"`

	Pod     string           `json:"pod" protobuf:"bytes,2"` // its name; it is in the decision's namespace
	PodUID  string           `json:"podUID" protobuf:"bytes,3"`
	Profile string           `json:"profile" protobuf:"bytes,4"`  // the schedulerName
	Attempt int              `json:"attempt" protobuf:"varint,5"` // from 1
	Time    metav1.MicroTime `json:"time" protobuf:"bytes,6"`
	// ConfigGeneration is the generation of the scheduler's configuration: metadata.generation of its SchedulerConfig.
	ConfigGeneration int64       `json:"configGeneration,omitempty" protobuf:"varint,7"`
	Outcome          string      `json:"outcome" protobuf:"bytes,8"` // Scheduled, Unschedulable, Gated or Error
	Node             string      `json:"node,omitempty" protobuf:"bytes,9"`
	Message          string      `json:"message,omitempty" protobuf:"bytes,10"` // as in the FailedScheduling event
	Nodes            int         `json:"nodes" protobuf:"varint,11"`            // number of nodes
	Evaluated        int         `json:"evaluated" protobuf:"varint,12"`        // number of filtered nodes
	Feasible         int         `json:"feasible" protobuf:"varint,13"`         // number of nodes that passed
	Rejected         []Rejection `json:"rejected,omitempty" protobuf:"bytes,14"`
	// Filters are the Filter plugins that were run, in order; a node that one rejects is not passed to those after it. SkippedFilters and
	// SkippedScores are the plugins that skipped the pod in PreFilter and PreScore.
	Filters        []string `json:"filters,omitempty" protobuf:"bytes,15"`
	SkippedFilters []string `json:"skippedFilters,omitempty" protobuf:"bytes,16"`
	SkippedScores  []string `json:"skippedScores,omitempty" protobuf:"bytes,17"`
	// RejectedBy is the PreFilter plugin that rejected the pod on all nodes. Excluded is why PreFilter plugins left out nodes, which are then not evaluated.
	RejectedBy string       `json:"rejectedBy,omitempty" protobuf:"bytes,18"`
	Excluded   []string     `json:"excluded,omitempty" protobuf:"bytes,19"`
	Scores     []NodeScores `json:"scores,omitempty" protobuf:"bytes,20"` // of the best feasible nodes, best first
	// WokenBy is the event because of which the pod is tried again; nil for its first attempt, and after a backoff without an event.
	WokenBy *Waking `json:"wokenBy,omitempty" protobuf:"bytes,21"`
	// Extenders are the calls of HTTP extenders.
	Extenders []ExtenderCall `json:"extenders,omitempty" protobuf:"bytes,22"`
	// Preemption is the preemption that the attempt began.
	Preemption *Preemption `json:"preemption,omitempty" protobuf:"bytes,23"`
	// Group is the outcome of the PodGroup with which the pod was tried; nil: it was tried alone.
	Group  *GroupAttempt `json:"group,omitempty" protobuf:"bytes,24"`
	Stages []trace.Stage `json:"stages,omitempty" protobuf:"bytes,25"`
	// PluginTimes are the times of the plugins in the attempt, up to Bind; those below a microsecond are left out. A pod that waits in Permit or
	// PreBind has the times until then.
	PluginTimes []PluginTime `json:"pluginTimes,omitempty" protobuf:"bytes,26"`
}

// DecisionList is a list of decisions, oldest first.
type DecisionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1"`

	Items []Decision `json:"items" protobuf:"bytes,2"`
}

// PodLabel is the label with the name of the decision's pod.
const PodLabel = "minikctl.dev/pod"

// Rejection is the reason why nodes did not pass. Nodes with the same plugin and reasons share one.
type Rejection struct {
	Plugin  string   `json:"plugin" protobuf:"bytes,1"`
	Reasons []string `json:"reasons" protobuf:"bytes,2"`
	Details []string `json:"details,omitempty" protobuf:"bytes,3"` // the property of all these nodes that the plugin rejected: a taint
	Nodes   []string `json:"nodes" protobuf:"bytes,4"`             // the first of them, at most MaxListed
	Count   int      `json:"count" protobuf:"varint,5"`
}

// PluginTime is how long the calls of a plugin at an extension point took in an attempt, for all nodes together.
type PluginTime struct {
	Point  string        `json:"point" protobuf:"bytes,1"` // PreFilter, Filter, …
	Plugin string        `json:"plugin" protobuf:"bytes,2"`
	Took   time.Duration `json:"took" protobuf:"varint,3"` // in nanoseconds
}

// Waking is an event in the cluster after which a pod that was unschedulable is tried again, as a plugin that had rejected it returned the
// QueueingHint Queue.
type Waking struct {
	Event  string `json:"event" protobuf:"bytes,1"`            // as in Kubernetes: Node, Pod, AssignedPod, …, and what happened to it
	Object string `json:"object,omitempty" protobuf:"bytes,2"` // NAME, or NAMESPACE/NAME
	Plugin string `json:"plugin,omitempty" protobuf:"bytes,3"` // "" if the pod waits for any node
}

// Preemption is the eviction of pods of lower priority that makes room for the pod.
type Preemption struct {
	Node       string   `json:"node" protobuf:"bytes,1"`
	Victims    []string `json:"victims" protobuf:"bytes,2"`               // as namespace/name, the most important first
	Violations int      `json:"violations,omitempty" protobuf:"varint,3"` // how many victims are evicted in spite of a PodDisruptionBudget
}

// GroupAttempt is one attempt to schedule the pods of a PodGroup that have no node.
type GroupAttempt struct {
	Name    string `json:"name" protobuf:"bytes,1"`    // of the PodGroup, in the pod's namespace
	Outcome string `json:"outcome" protobuf:"bytes,2"` // Scheduled, Unschedulable or Error
	Message string `json:"message,omitempty" protobuf:"bytes,3"`
	Pods    int    `json:"pods" protobuf:"varint,4"`   // number of pods that were tried together
	Placed  int    `json:"placed" protobuf:"varint,5"` // of these, how many found a node
	// Blocking are the first pods that found none.
	Blocking []BlockingPod `json:"blocking,omitempty" protobuf:"bytes,6"`
	// Placements are the placements that were tried, at most MaxListed: those in which the group can be scheduled come first, by their scores. A
	// group that was tried on all nodes at once has none.
	Placements []PlacementAttempt `json:"placements,omitempty" protobuf:"bytes,7"`
	// TopologyKeys are the node labels of the group's topology constraints: the nodes with the same value are a placement.
	TopologyKeys []string `json:"topologyKeys,omitempty" protobuf:"bytes,8"`
	// RejectedBy is the PlacementGenerate plugin that rejected the group: no pod was tried.
	RejectedBy string `json:"rejectedBy,omitempty" protobuf:"bytes,9"`
}

// PlacementAttempt is the result of a PodGroup in one of its placements: the nodes of a topology domain, or others that a PlacementGenerate
// plugin names.
type PlacementAttempt struct {
	Name     string       `json:"name" protobuf:"bytes,1"`
	Nodes    int          `json:"nodes" protobuf:"varint,2"`             // number of nodes
	Outcome  string       `json:"outcome" protobuf:"bytes,3"`            // Chosen, Feasible, or Unschedulable; Preempting: Feasible once the victims of its pods have left
	Placed   int          `json:"placed" protobuf:"varint,4"`            // how many pods found a node
	Blocking *BlockingPod `json:"blocking,omitempty" protobuf:"bytes,5"` // the first pod that found none
	// Total and Plugins are the scores. One that is the only feasible one has none.
	Total   int64         `json:"total,omitempty" protobuf:"varint,6"`
	Plugins []PluginScore `json:"plugins,omitempty" protobuf:"bytes,7"`
}

// BlockingPod is a pod for which its PodGroup found no node.
type BlockingPod struct {
	Pod     string `json:"pod" protobuf:"bytes,1"`
	Message string `json:"message" protobuf:"bytes,2"`
}

// ExtenderCall is a call of an HTTP extender.
type ExtenderCall struct {
	Extender string        `json:"extender" protobuf:"bytes,1"` // its urlPrefix
	Verb     string        `json:"verb" protobuf:"bytes,2"`     // filter, prioritize, preempt or bind
	Outcome  string        `json:"outcome" protobuf:"bytes,3"`  // Called, Failed, or Ignored: it failed, and the attempt went on without it
	Message  string        `json:"message,omitempty" protobuf:"bytes,4"`
	Took     time.Duration `json:"took" protobuf:"varint,5"` // in nanoseconds
}

// The outcomes of calls of extenders.
const (
	Called  = "Called"
	Failed  = "Failed"
	Ignored = "Ignored"
)

// NodeScores are the scores of feasible nodes to which each plugin gave the same. In most clusters many nodes are alike.
type NodeScores struct {
	Nodes   []string      `json:"nodes" protobuf:"bytes,1"`
	Total   int64         `json:"total" protobuf:"varint,2"`
	Plugins []PluginScore `json:"plugins" protobuf:"bytes,3"`
}

// PluginScore is a plugin's part of the score of a node or placement, normalised and weighted.
type PluginScore struct {
	Plugin string `json:"plugin" protobuf:"bytes,1"`
	Raw    int64  `json:"raw" protobuf:"varint,2"` // as the plugin returned it
	Score  int64  `json:"score" protobuf:"varint,3"`
	Weight int64  `json:"weight" protobuf:"varint,4"`
}

// MaxListed bounds the number of nodes in a rejection and in the scores.
const MaxListed = 32

// CorruptObject is a stored value that cannot be decoded. Its object is not served. Its name is the value's key in the store, with
// colons for slashes.
type CorruptObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Resource  string `json:"resource"` // RESOURCE or RESOURCE.GROUP
	Namespace string `json:"namespace,omitempty"`
	Object    string `json:"object"`   // the object's name
	Key       string `json:"key"`      // in the store
	Revision  uint64 `json:"revision"` // of the write that set the value
	Message   string `json:"message"`  // why it cannot be decoded
}

// CorruptObjectList is a list of corrupt objects.
type CorruptObjectList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CorruptObject `json:"items"`
}

// Clock is the clock of the cluster. There is one, ClusterClock.
type Clock struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Mode string           `json:"mode"` // Machine, Fast or Manual
	Time metav1.MicroTime `json:"time"` // the cluster's
	// Rate is how fast the time passes: 1 as fast as the machine's. 0: it stands still until an advance.
	Rate float64           `json:"rate"`
	Next *metav1.MicroTime `json:"next,omitempty"` // of a manual clock: when something is due next
	Busy []string          `json:"busy,omitempty"` // of a manual clock: the parts that have something to do at the present time
}

// ClusterClock is the name of the only Clock.
const ClusterClock = "cluster"

// The modes of a Clock.
const (
	ClockMachine = "Machine"
	ClockFast    = "Fast"
	ClockManual  = "Manual"
)

// ClockList is the list of the only clock.
type ClockList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Clock `json:"items"`
}

// ClockAdvance moves a manual clock when it is created. It is not stored: the response has its outcome.
type ClockAdvance struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// By is how far the clock moves; 0 only waits until the cluster has settled. To is the time to which it moves. At most one is set.
	By metav1.Duration   `json:"by,omitzero"`
	To *metav1.MicroTime `json:"to,omitempty"`

	Reached metav1.MicroTime `json:"reached,omitzero"` // the cluster's time after the request
	Steps   int              `json:"steps,omitempty"`  // at how many times something was due
	// Done reports that all that is due is done. Otherwise the request has ended before, to stay within its deadline, and another with
	// the same To continues.
	Done bool `json:"done,omitempty"`
}

// ClockAdvanceList is a list of advances. There is no request for it.
type ClockAdvanceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClockAdvance `json:"items"`
}

// The types implement runtime.Object.
var (
	_ runtime.Object = (*Trace)(nil)
	_ runtime.Object = (*TraceList)(nil)
	_ runtime.Object = (*Decision)(nil)
	_ runtime.Object = (*DecisionList)(nil)
	_ runtime.Object = (*CorruptObject)(nil)
	_ runtime.Object = (*CorruptObjectList)(nil)
	_ runtime.Object = (*Clock)(nil)
	_ runtime.Object = (*ClockList)(nil)
	_ runtime.Object = (*ClockAdvance)(nil)
	_ runtime.Object = (*ClockAdvanceList)(nil)
)

// Since returns the time from the start of the first stage to the end of the last.
func (d *Decision) Since() time.Duration {
	var first, last time.Time
	for _, s := range d.Stages {
		if first.IsZero() || s.Start.Before(first) {
			first = s.Start
		}
		if end := s.Start.Add(s.Took); end.After(last) {
			last = end
		}
	}
	return last.Sub(first)
}
