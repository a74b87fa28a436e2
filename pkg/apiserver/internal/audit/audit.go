// Package audit owns the audit log: the requests to the API with their users and responses, as audit.k8s.io/v1 events, one line
// of JSON each. A policy, in the form that Kubernetes documents (https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/),
// sets the level of each request.
//
// A request has an Entry, to which each stage of the request adds its data. Over HTTP the server's filters begin and complete
// it. For in-process requests the type API, which wraps the verbs, does so. It also records the bodies of both kinds of requests.
// Without a policy there is no Log and nothing is recorded.
package audit

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	auditapi "k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/minikctl/minikctl/pkg/clock"
)

// Config is the policy and the file of the log.
type Config struct {
	Policy string // file of the policy; "": no log
	Path   string // file of the log; "-" is the standard output

	// MaxSize is the size in megabytes at which the file is rotated; 0: 100. MaxBackups and MaxAge bound the number of old
	// files and their age in days; 0: no bound.
	MaxSize, MaxBackups, MaxAge int
}

// Log is an audit log. A nil Log records nothing.
type Log struct {
	policy auditapi.PolicyRuleEvaluator
	clock  clock.Clock
	newID  func() types.UID

	mu     sync.Mutex // guards the fields below
	out    io.WriteCloser
	failed bool // the last write failed
}

// Open opens the log. It returns nil without a policy. newID makes the audit IDs of requests that have none.
func Open(cfg Config, clk clock.Clock, newID func() types.UID) (*Log, error) {
	if cfg.Policy == "" {
		return nil, nil
	}
	if cfg.Path == "" {
		return nil, errors.New("an audit policy needs the path of an audit log")
	}
	p, err := policy.LoadPolicyFromFile(cfg.Policy)
	if err != nil {
		return nil, fmt.Errorf("load the audit policy: %w", err)
	}
	out, err := openFile(cfg)
	if err != nil {
		return nil, err
	}
	return &Log{policy: policy.NewPolicyRuleEvaluator(p), clock: clock.Machine(clk), newID: newID, out: out}, nil
}

// Close closes the file. The log must not be used afterwards.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	return l.out.Close()
}

// Request is what is known of a request before it is handled.
type Request struct {
	ID        string // "": a new one
	Received  time.Time
	User      user.Info // nil: not authenticated
	Verb      string
	URI       string
	Path      string // of the URL
	UserAgent string
	Sources   []string // the client's and proxies' addresses
	Long      bool     // long-running: the start of the response is a separate stage

	// Object is the request's resource; nil for a non-resource URL.
	Object *auditv1.ObjectReference
}

func (r Request) attributes() authorizer.Attributes {
	a := authorizer.AttributesRecord{User: r.User, Verb: r.Verb, Path: r.Path}
	if o := r.Object; o != nil {
		a.ResourceRequest, a.APIGroup, a.APIVersion = true, o.APIGroup, o.APIVersion
		a.Resource, a.Subresource, a.Namespace, a.Name = o.Resource, o.Subresource, o.Namespace, o.Name
	}
	return a
}

// Begin returns the entry of a request. It is a silent one if the policy's level for the request is None.
func (l *Log) Begin(r Request) *Entry {
	rule := l.policy.EvaluatePolicyRule(r.attributes())
	if rule.Level == auditinternal.LevelNone {
		return &Entry{}
	}
	e := &Entry{log: l, long: r.Long, trims: rule.OmitManagedFields}
	for _, s := range rule.OmitStages {
		e.omit = append(e.omit, auditv1.Stage(s))
	}
	if r.ID == "" {
		r.ID = string(l.newID())
	}
	e.event = r.event(auditv1.Level(rule.Level))
	return e
}

// write appends a line. A failing write does not fail the request; the first of a series of failures is logged.
func (l *Log) write(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.out.Write(append(line, '\n'))
	if err != nil && !l.failed {
		slog.Error("audit events are lost", "err", err)
	}
	l.failed = err != nil
}
