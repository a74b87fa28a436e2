// Package trace owns the report about a write: the revisions that caused it, and the durations of its stages. The
// report travels in the context from the component that acts, through its client, to the API server, which records it
// with the write as a Span. Over HTTP it travels in the header named Header.
//
// The API server adds the user and the time of the write, and stores the spans.
package trace

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Header carries a Report over HTTP. The API server accepts it from components only.
const Header = "Minikctl-Trace"

// maxCauses bounds the causes of a write. The newest ones are recorded.
const maxCauses = 16

// Stage is a named part of the work that led to a write, e.g. "filter" or "commit".
type Stage struct {
	Name  string        `json:"name" protobuf:"bytes,1"`
	Start time.Time     `json:"start" protobuf:"bytes,2"`
	Took  time.Duration `json:"took" protobuf:"varint,3"` // in nanoseconds
}

// Report describes a write: the revisions that caused it and the stages of the work.
type Report struct {
	Causes []uint64 `json:"causes,omitempty" protobuf:"varint,1"`
	Stages []Stage  `json:"stages,omitempty" protobuf:"bytes,2"`
}

// Clone returns a copy of the report.
func (r Report) Clone() Report {
	return Report{Causes: slices.Clone(r.Causes), Stages: slices.Clone(r.Stages)}
}

// Span is one committed write and its origin. Revision identifies it.
type Span struct {
	Revision  uint64    `json:"revision"`
	Time      time.Time `json:"time"`
	Actor     string    `json:"actor"` // the user name of the writer
	Agent     string    `json:"agent"` // the component or program: the first word of its user agent
	Verb      string    `json:"verb"`
	Resource  string    `json:"resource"` // "pods" or "deployments.apps"
	Sub       string    `json:"subresource,omitempty"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       string    `json:"uid"`
	Owner     string    `json:"owner,omitempty"` // the UID of the controller that owns the object
	Note      string    `json:"note,omitempty"`  // a short summary of the change: "phase Pending → Running"
	Report
}

type contextKey struct{}

type carried struct {
	mu     sync.Mutex
	report Report
}

// With returns a context in which the given revisions cause all writes. Its report has no stages yet.
func With(ctx context.Context, causes ...uint64) context.Context {
	if len(causes) > maxCauses {
		causes = causes[len(causes)-maxCauses:]
	}
	return context.WithValue(ctx, contextKey{}, &carried{report: Report{Causes: slices.Clone(causes)}})
}

// Add records a finished stage in the report of ctx, for later writes. It has no effect unless ctx comes from With.
func Add(ctx context.Context, name string, start time.Time, took time.Duration) {
	c, ok := ctx.Value(contextKey{}).(*carried)
	if !ok {
		return
	}
	c.mu.Lock()
	c.report.Stages = append(c.report.Stages, Stage{Name: name, Start: start, Took: took})
	c.mu.Unlock()
}

// From returns a copy of the report in ctx.
func From(ctx context.Context) Report {
	c, ok := ctx.Value(contextKey{}).(*carried)
	if !ok {
		return Report{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.report.Clone()
}

// WithReport returns a context that carries a report which came from another process, as Decode returns it.
func WithReport(ctx context.Context, r Report) context.Context {
	return context.WithValue(ctx, contextKey{}, &carried{report: r.bounded()})
}

// Encode returns the value for Header; "" for an empty report.
func (r Report) Encode() string {
	if len(r.Causes) == 0 && len(r.Stages) == 0 {
		return ""
	}
	b, err := json.Marshal(r)
	if err != nil {
		return "" // numbers, strings and times: fails only for a year beyond 9999
	}
	return string(b)
}

// Decode parses a value of Header.
func Decode(s string) (Report, error) {
	var r Report
	if s == "" {
		return r, nil
	}
	if err := json.Unmarshal([]byte(s), &r); err != nil {
		return Report{}, fmt.Errorf("decode %s header: %w", Header, err)
	}
	return r.bounded(), nil
}

// bounded returns the report with at most maxCauses causes, the newest.
func (r Report) bounded() Report {
	if len(r.Causes) > maxCauses {
		r.Causes = r.Causes[len(r.Causes)-maxCauses:]
	}
	return r
}
