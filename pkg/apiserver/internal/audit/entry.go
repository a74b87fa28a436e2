package audit

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
)

// Entry collects the audit event of one request. It is safe for concurrent use. A silent or nil Entry ignores every call.
type Entry struct {
	log   *Log // nil: the entry is silent
	omit  []auditv1.Stage
	trims bool // omit managedFields
	long  bool

	mu            sync.Mutex
	event         auditv1.Event
	coded         bool // the status code is set
	responseTaken bool // NeedsResponse returned true: the response will be recorded
}

// maxUserAgent bounds the length of a recorded user agent, in bytes.
const maxUserAgent = 1024

func (r Request) event(level auditv1.Level) auditv1.Event {
	if len(r.UserAgent) > maxUserAgent {
		r.UserAgent = r.UserAgent[:maxUserAgent] + "...TRUNCATED"
	}
	e := auditv1.Event{
		TypeMeta: metav1.TypeMeta{APIVersion: auditv1.SchemeGroupVersion.String(), Kind: "Event"},
		Level:    level, AuditID: types.UID(r.ID), RequestURI: r.URI, Verb: r.Verb, SourceIPs: r.Sources, UserAgent: r.UserAgent,
		RequestReceivedTimestamp: metav1.NewMicroTime(r.Received), ObjectRef: r.Object,
	}
	if r.User != nil {
		e.User = stage.UserInfo(r.User)
	}
	return e
}

// Enabled reports whether the request is recorded at all.
func (e *Entry) Enabled() bool { return e != nil && e.log != nil }

// recordsBody reports whether the level includes request bodies, or with response, response bodies.
func (e *Entry) recordsBody(response bool) bool {
	return e.Enabled() && (e.event.Level == auditv1.LevelRequestResponse || !response && e.event.Level == auditv1.LevelRequest)
}

// Annotate implements stage.Audit.
func (e *Entry) Annotate(key, value string) {
	if !e.Enabled() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.event.Annotations == nil {
		e.event.Annotations = map[string]string{}
	}
	if _, ok := e.event.Annotations[key]; !ok {
		e.event.Annotations[key] = value
	}
}

// Bodies implements stage.Audit.
func (e *Entry) Bodies() bool { return e.recordsBody(false) }

// Impersonated records the impersonated user, and the constraint that allows the impersonation, if any.
func (e *Entry) Impersonated(as user.Info, constraint string) {
	if !e.Enabled() {
		return
	}
	info := stage.UserInfo(as)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.event.ImpersonatedUser = &info
	if constraint != "" {
		e.event.AuthenticationMetadata = &auditv1.AuthenticationMetadata{ImpersonationConstraint: constraint}
	}
}

// SetRequest records the request's object, where the path does not name it, and its body. A body that is not JSON is recorded as
// a string.
func (e *Entry) SetRequest(about metav1.Object, encode func() ([]byte, error)) {
	if !e.Enabled() {
		return
	}
	var body *runtime.Unknown
	if e.recordsBody(false) {
		body = e.unknown(encode())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if body != nil {
		e.event.RequestObject = body
	}
	ref := e.event.ObjectRef
	if about == nil || ref == nil {
		return
	}
	next := *ref // events already written refer to the old one
	fill(&next.Namespace, about.GetNamespace())
	fill(&next.Name, about.GetName())
	fill(&next.UID, about.GetUID())
	fill(&next.ResourceVersion, about.GetResourceVersion())
	e.event.ObjectRef = &next
}

func fill[T ~string](to *T, value T) {
	if *to == "" {
		*to = value
	}
}

func (e *Entry) unknown(raw []byte, err error) *runtime.Unknown {
	if err != nil {
		slog.Error("audit event without body", "audit", e.event.AuditID, "err", err)
		return nil
	}
	return &runtime.Unknown{Raw: raw, ContentType: runtime.ContentTypeJSON}
}

// Status records a Status that is the response.
func (e *Entry) Status(st *metav1.Status) {
	if !e.Enabled() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.event.ResponseStatus = &metav1.Status{Status: st.Status, Message: st.Message, Reason: st.Reason, Details: st.Details, Code: st.Code}
}

// NeedsResponse reports whether the caller must record the response body with SetResponse. It returns true to the first call for a request
// whose level includes it.
func (e *Entry) NeedsResponse() bool {
	if !e.recordsBody(true) {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	first := !e.responseTaken
	e.responseTaken = true
	return first
}

// SetResponse records the response body.
func (e *Entry) SetResponse(raw []byte, err error) {
	body := e.unknown(raw, err)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.event.ResponseObject = body
}

// Received ends the stage RequestReceived.
func (e *Entry) Received() { e.emit(auditv1.StageRequestReceived) }

// Code records the status code. For a long-running request that ends the stage ResponseStarted.
func (e *Entry) Code(code int) {
	if !e.Enabled() {
		return
	}
	e.mu.Lock()
	if e.coded {
		e.mu.Unlock()
		return
	}
	e.coded = true
	st := &metav1.Status{}
	if e.event.ResponseStatus != nil {
		*st = *e.event.ResponseStatus
	}
	st.Code = int32(code)
	e.event.ResponseStatus = st
	e.mu.Unlock()
	if e.long {
		e.emit(auditv1.StageResponseStarted)
	}
}

// Complete ends the stage ResponseComplete. It must be deferred: it records a request's panic and lets it continue.
func (e *Entry) Complete() {
	if !e.Enabled() {
		return
	}
	if p := recover(); p != nil {
		e.Status(&metav1.Status{
			Code: http.StatusInternalServerError, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError,
			Message: fmt.Sprintf("APIServer panic'd: %v", p),
		})
		e.emit(auditv1.StagePanic)
		panic(p)
	}
	e.mu.Lock()
	early := e.event.ResponseStatus == nil
	if early {
		e.event.ResponseStatus = &metav1.Status{Code: http.StatusOK, Status: metav1.StatusSuccess, Message: "Connection closed early"}
	}
	e.mu.Unlock()
	if early && e.long {
		e.emit(auditv1.StageResponseStarted)
	}
	e.emit(auditv1.StageResponseComplete)
}

// emit writes the event at the end of a stage.
func (e *Entry) emit(stage auditv1.Stage) {
	if !e.Enabled() || slices.Contains(e.omit, stage) {
		return
	}
	e.mu.Lock()
	e.event.Stage, e.event.StageTimestamp = stage, metav1.NewMicroTime(e.log.clock.Now())
	if stage == auditv1.StageRequestReceived {
		e.event.StageTimestamp = e.event.RequestReceivedTimestamp
	}
	line, err := json.Marshal(&e.event)
	e.mu.Unlock()
	if err != nil {
		slog.Error("an audit event is lost", "audit", e.event.AuditID, "err", err)
		return
	}
	e.log.write(line)
}
