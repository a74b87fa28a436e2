// Package minikctl owns the API group minikctl.dev: the resources that minikctl adds to Kubernetes. They are virtual: the
// API server keeps the newest of them in memory by its own rules, and they have no stored revision.
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

// Traces and Decisions are the group's resources.
var (
	Traces    = GroupVersion.WithResource("traces")
	Decisions = GroupVersion.WithResource("decisions")
)

// Trace is one committed write and what led to it. It is named by its revision.
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

// Decision is one attempt of a scheduler to place a pod. It is named PODNAME.ATTEMPT-SUFFIX and carries the label
// PodLabel.
type Decision struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Pod       string           `json:"pod"` // its name; the namespace is the decision's
	PodUID    string           `json:"podUID"`
	Profile   string           `json:"profile"` // the schedulerName
	Attempt   int              `json:"attempt"` // from 1
	Time      metav1.MicroTime `json:"time"`
	Outcome   string           `json:"outcome"` // Scheduled, Unschedulable, Gated or Error
	Node      string           `json:"node,omitempty"`
	Message   string           `json:"message,omitempty"` // as in the FailedScheduling event
	Nodes     int              `json:"nodes"`             // how many nodes there were
	Evaluated int              `json:"evaluated"`         // how many were filtered
	Feasible  int              `json:"feasible"`          // how many passed
	Rejected  []Rejection      `json:"rejected,omitempty"`
	Scores    []NodeScore      `json:"scores,omitempty"` // of the feasible nodes, best first
	Stages    []trace.Stage    `json:"stages,omitempty"`
}

// DecisionList is a list of decisions, oldest first.
type DecisionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Decision `json:"items"`
}

// PodLabel names the pod that a decision is about.
const PodLabel = "minikctl.dev/pod"

// Rejection says why nodes did not pass. Nodes with the same plugin and reasons share one.
type Rejection struct {
	Plugin  string   `json:"plugin"`
	Reasons []string `json:"reasons"`
	Nodes   []string `json:"nodes"` // the first of them, at most MaxListed
	Count   int      `json:"count"`
}

// NodeScore is how a feasible node scored.
type NodeScore struct {
	Node    string        `json:"node"`
	Total   int64         `json:"total"`
	Plugins []PluginScore `json:"plugins"`
}

// PluginScore is one plugin's part of a node's score, normalised and weighted.
type PluginScore struct {
	Plugin string `json:"plugin"`
	Score  int64  `json:"score"`
	Weight int64  `json:"weight"`
}

// MaxListed bounds how many nodes a decision names in a rejection or among the scores.
const MaxListed = 32

// They are API objects.
var (
	_ runtime.Object = (*Trace)(nil)
	_ runtime.Object = (*TraceList)(nil)
	_ runtime.Object = (*Decision)(nil)
	_ runtime.Object = (*DecisionList)(nil)
)

// Since returns how long the decision took from its first stage to the end of its last.
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
