// Package audit owns the audit log: who asked the API for what, and what came of it, as events of audit.k8s.io/v1, a line
// of JSON each. A policy, in the form that Kubernetes documents (https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/),
// says of each request how much is told of it.
//
// A request has an Entry, which the stages that it passes tell what they know. Over HTTP the server's filters begin and end
// it; around the verbs, API does so for requests of this process, and tells of both what they carry. Without a policy there
// is no Log, and nothing of all that happens.
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

// Config says what is written, and where.
type Config struct {
	Policy string // the file of the policy; "": there is no log
	Path   string // the file of the log; "-" is the standard output

	// MaxSize is how many megabytes a file may have before another is begun; 0: 100. MaxBackups and MaxAge are how many old
	// files are kept, and for how many days; 0: all, and for ever.
	MaxSize, MaxBackups, MaxAge int
}

// Log is an audit log. A nil Log has no entries.
type Log struct {
	policy auditapi.PolicyRuleEvaluator
	clock  clock.Clock
	newID  func() types.UID

	mu     sync.Mutex // for what follows
	out    io.WriteCloser
	failed bool // the last write has
}

// Open opens the log; nil when there is no policy. newID names the requests of this process.
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
	return &Log{policy: policy.NewPolicyRuleEvaluator(p), clock: clk, newID: newID, out: out}, nil
}

// Close closes the log once nothing is told to it any more.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	return l.out.Close()
}

// Request is what is known of a request from the beginning.
type Request struct {
	ID        string // "": one is made
	Received  time.Time
	User      user.Info // nil: not known
	Verb      string
	URI       string
	Path      string // of the URI
	UserAgent string
	Sources   []string // the addresses that it came from
	Long      bool     // it may last, so that its beginning is told too

	// What it is about; nil when that is no resource.
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

// Begin makes the entry of a request. It is a silent one when the policy wants to know nothing of it.
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

// write appends a line. A log that can't be written stops nobody: that it can't is told once, until it can again.
func (l *Log) write(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.out.Write(append(line, '\n'))
	if err != nil && !l.failed {
		slog.Error("audit events are lost", "err", err)
	}
	l.failed = err != nil
}
