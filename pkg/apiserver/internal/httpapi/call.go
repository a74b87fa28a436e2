package httpapi

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/audit"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/fair"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/trace"
)

// call is what the filters attach to a request for its handlers. It is a value in the request's context.
type call struct {
	address address
	began   time.Time
	user    user.Info
	report  trace.Report
	stages  []trace.Stage
	header  http.Header  // of the response
	audit   *audit.Entry // nil: there is no audit log
	seat    fair.Seat    // its place among the concurrent requests
	clock   clock.Clock  // nil: the request's time is not limited

	mu     sync.Mutex
	warned map[string]bool
	noted  [][2]string // annotations from before the entry in the audit log
}

type callKey struct{}

func withCall(ctx context.Context, c *call) context.Context {
	return callContext{ctx, c}
}

// callContext is a context with a call and its seat.
type callContext struct {
	context.Context
	call *call
}

// Value implements context.Context.
func (c callContext) Value(key any) any {
	switch key.(type) {
	case callKey:
		return c.call
	case stage.NotesKey:
		return notes{c.call}
	case fair.SeatKey:
		return &c.call.seat
	}
	return c.Context.Value(key)
}

// notes implements stage.Notes.
type notes struct{ call *call }

func (n notes) Warn(text string) { n.call.warn(text) }

func (n notes) Annotate(key, value string) {
	n.call.mu.Lock()
	defer n.call.mu.Unlock()
	if n.call.audit != nil {
		n.call.audit.Annotate(key, value)
		return
	}
	n.call.noted = append(n.call.noted, [2]string{key, value})
}

// setAudit sets the call's entry in the audit log and gives it the earlier annotations.
func (c *call) setAudit(e *audit.Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.audit = e
	for _, a := range c.noted {
		e.Annotate(a[0], a[1])
	}
	c.noted = nil
}

// callOf returns the request's call. The filter begin sets it.
func callOf(r *http.Request) *call { return r.Context().Value(callKey{}).(*call) }

// maxWarning and maxWarnings bound the Warning headers of a response.
const (
	maxWarning  = 4 << 10
	maxWarnings = 64
)

// warn adds a Warning header to the response. Each text is added once.
func (c *call) warn(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, lines, ok := strings.Cut(text, "yaml: unmarshal errors:\n") // the YAML library lists duplicate fields in one error
	if !ok {
		c.warnOnce(text)
		return
	}
	for line := range strings.SplitSeq(lines, "\n") {
		c.warnOnce(strings.TrimSpace(line))
	}
}

func (c *call) warnOnce(text string) {
	if text == "" || c.warned[text] || len(c.warned) >= maxWarnings {
		return
	}
	if c.warned == nil {
		c.warned = map[string]bool{}
	}
	c.warned[text] = true
	if len(text) > maxWarning {
		text = text[:maxWarning]
	}
	if h, err := utilnet.NewWarningHeader(299, "-", strings.ToValidUTF8(text, "")); err == nil {
		c.header.Add("Warning", h)
	}
}

// stage adds a stage of the request to its trace.
func (c *call) stage(name string, start, end time.Time) {
	c.stages = append(c.stages, trace.Stage{Name: name, Start: start, Took: end.Sub(start)})
}
