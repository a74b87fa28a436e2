// Package trace owns the vocabulary of causality: which revisions woke whoever makes a write, and how long each stage of
// making it took. Both travel in the context from the component that acts, through its client, to the API server, which
// notes them with the write (a Span). Over HTTP they travel in the header named Header.
//
// The package only carries: who wrote and when is known to the API server alone, and keeping spans is its work.
package trace

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Header carries a Report over HTTP. The API server takes it from the identities of components only.
const Header = "Minikctl-Trace"

// maxCauses bounds what one write says woke it; the newest are kept.
const maxCauses = 16

// Stage is a named part of the work that led to a write, e.g. "filter" or "commit".
type Stage struct {
	Name  string        `json:"name"`
	Start time.Time     `json:"start"`
	Took  time.Duration `json:"took"` // in nanoseconds
}

// Report is what a writer tells about its write: the revisions that woke it and the stages of its work.
type Report struct {
	Causes []uint64 `json:"causes,omitempty"`
	Stages []Stage  `json:"stages,omitempty"`
}

// Span is one committed write with where it came from. Revision identifies it.
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
	Note      string    `json:"note,omitempty"`  // what changed, in a few words: "phase Pending → Running"
	Report
}

type contextKey struct{}

type carried struct {
	mu     sync.Mutex
	report Report
}

// With returns a context whose writes are caused by the given revisions, with no stages yet.
func With(ctx context.Context, causes ...uint64) context.Context {
	if len(causes) > maxCauses {
		causes = causes[len(causes)-maxCauses:]
	}
	return context.WithValue(ctx, contextKey{}, &carried{report: Report{Causes: slices.Clone(causes)}})
}

// Add notes a finished stage for the writes that are made with ctx from now on. Without With it does nothing.
func Add(ctx context.Context, name string, start time.Time, took time.Duration) {
	c, ok := ctx.Value(contextKey{}).(*carried)
	if !ok {
		return
	}
	c.mu.Lock()
	c.report.Stages = append(c.report.Stages, Stage{Name: name, Start: start, Took: took})
	c.mu.Unlock()
}

// From returns what ctx carries. The result is the caller's.
func From(ctx context.Context) Report {
	c, ok := ctx.Value(contextKey{}).(*carried)
	if !ok {
		return Report{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return Report{Causes: slices.Clone(c.report.Causes), Stages: slices.Clone(c.report.Stages)}
}

// Encode returns the value for Header, or "" when there is nothing to tell.
func (r Report) Encode() string {
	if len(r.Causes) == 0 && len(r.Stages) == 0 {
		return ""
	}
	b, err := json.Marshal(r)
	if err != nil {
		return "" // numbers, strings and times: cannot fail but for a year beyond 9999
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
	if len(r.Causes) > maxCauses {
		r.Causes = r.Causes[len(r.Causes)-maxCauses:]
	}
	return r, nil
}
