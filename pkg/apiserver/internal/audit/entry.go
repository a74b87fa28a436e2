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

// Entry is what the log tells of one request. It is safe for concurrent use. A silent one, like a nil one, takes what it
// is told and forgets it.
type Entry struct {
	log   *Log // nil: it is silent
	omit  []auditv1.Stage
	trims bool // managedFields are left out
	long  bool

	mu       sync.Mutex
	event    auditv1.Event
	coded    bool // how the answer begins is known
	answered bool // somebody tells what the answer is
}

// maxAgent bounds what a client says of itself.
const maxAgent = 1024

func (r Request) event(level auditv1.Level) auditv1.Event {
	if len(r.UserAgent) > maxAgent {
		r.UserAgent = r.UserAgent[:maxAgent] + "...TRUNCATED"
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

// Enabled reports whether anything is told of the request.
func (e *Entry) Enabled() bool { return e != nil && e.log != nil }

// shows reports whether what requests carry is told, or only about what they are.
func (e *Entry) shows(answers bool) bool {
	return e.Enabled() && (e.event.Level == auditv1.LevelRequestResponse || !answers && e.event.Level == auditv1.LevelRequest)
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
func (e *Entry) Bodies() bool { return e.shows(false) }

// Impersonated tells as whom the user acts, and the constrained right that allows it, if it is one.
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

// Asked tells the object that the request is about, where the path does not say it, and what it carries. A body that is
// no JSON is shown as a string.
func (e *Entry) Asked(about metav1.Object, encode func() ([]byte, error)) {
	if !e.Enabled() {
		return
	}
	var body *runtime.Unknown
	if e.shows(false) {
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
	next := *ref // events that are written have the old one
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
		slog.Error("an audit event lacks a body", "audit", e.event.AuditID, "err", err)
		return nil
	}
	return &runtime.Unknown{Raw: raw, ContentType: runtime.ContentTypeJSON}
}

// Status tells a Status that is the answer.
func (e *Entry) Status(st *metav1.Status) {
	if !e.Enabled() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.event.ResponseStatus = &metav1.Status{Status: st.Status, Message: st.Message, Reason: st.Reason, Details: st.Details, Code: st.Code}
}

// Answers reports, to the first who asks, whether what is answered is told too: by Answered.
func (e *Entry) Answers() bool {
	if !e.shows(true) {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	first := !e.answered
	e.answered = true
	return first
}

// Answered tells what is answered.
func (e *Entry) Answered(raw []byte, err error) {
	body := e.unknown(raw, err)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.event.ResponseObject = body
}

// Received tells that the request has come.
func (e *Entry) Received() { e.tell(auditv1.StageRequestReceived) }

// Code tells how the answer begins. Of a request that lasts, that is an event.
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
		e.tell(auditv1.StageResponseStarted)
	}
}

// Complete tells that the request is over. It is to be deferred: a panic of the request is told, and goes on.
func (e *Entry) Complete() {
	if !e.Enabled() {
		return
	}
	if p := recover(); p != nil {
		e.Status(&metav1.Status{
			Code: http.StatusInternalServerError, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError,
			Message: fmt.Sprintf("APIServer panic'd: %v", p),
		})
		e.tell(auditv1.StagePanic)
		panic(p)
	}
	e.mu.Lock()
	early := e.event.ResponseStatus == nil
	if early {
		e.event.ResponseStatus = &metav1.Status{Code: http.StatusOK, Status: metav1.StatusSuccess, Message: "Connection closed early"}
	}
	e.mu.Unlock()
	if early && e.long {
		e.tell(auditv1.StageResponseStarted)
	}
	e.tell(auditv1.StageResponseComplete)
}

// tell writes the event as it is at a stage.
func (e *Entry) tell(stage auditv1.Stage) {
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
