// Package stage owns the contracts of the stages that a request passes in the API server before it is committed:
// authenticate, authorize, mutate, validate. The server holds a list of each; adding one is adding a line to its list.
package stage

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Attributes say what a request is about, to every stage. Object is what is to be stored, of the stored version (or the
// subresource's object, e.g. a Binding), and may be changed by mutators; Old is what is stored now and may not.
type Attributes struct {
	User      user.Info
	UserAgent string
	Verb      string // get, list, watch, create, update, patch, delete, deletecollection; for other paths the HTTP method in lower case

	Resource    *objects.Resource           // nil for paths that are no resource
	GVR         schema.GroupVersionResource // as it was asked for
	Subresource string
	Namespace   string
	Name        string
	Path        string // of the URL; "" in process

	// Fields is the field selector of a list, watch or deletecollection; nil: none. Authorizers look at it.
	Fields fields.Selector

	// Operation is what admission sees: Create, Update, Delete or Connect.
	Operation Operation
	Object    objects.Object
	Old       objects.Object
	Sub       any // the object of a subresource that is not the resource itself: a Binding, a Scale, an Eviction
	DryRun    bool
	Manager   string // the field manager
	Asked     Asked
	Delete    *metav1.DeleteOptions

	// Warn adds a Warning header to the answer. Never nil.
	Warn func(text string)

	// Audit is the request's entry in the audit log; nil: there is no log.
	Audit Audit

	undo   []func(context.Context)
	again  bool           // a mutator wants the others to see what it has made
	second bool           // it is the second round of the mutators
	memory map[string]any // what mutators know from the first round, by name
}

// Asked is what a client has asked for by the options of a write, as it was sent.
type Asked struct{ FieldManager, FieldValidation string }

// Rounds calls mutate, and again when a mutator has asked for it: what one has changed, others may have to see.
func (a *Attributes) Rounds(mutate func() error) error {
	a.again, a.second, a.memory = false, false, nil
	err := mutate()
	if err == nil && a.again {
		a.second = true
		err = mutate()
	}
	return err
}

// Again asks for a second round of the mutators. In the second there is none to ask for.
func (a *Attributes) Again() { a.again = true }

// Second reports whether it is the second round of the mutators.
func (a *Attributes) Second() bool { return a.second }

// Remember keeps what a mutator has to know in the second round.
func (a *Attributes) Remember(name string, what any) {
	if a.memory == nil {
		a.memory = map[string]any{}
	}
	a.memory[name] = what
}

// Recall returns what a mutator has remembered; nil when it is nothing.
func (a *Attributes) Recall(name string) any { return a.memory[name] }

// Audit is told what the audit log shows of a request. It is safe for concurrent use.
type Audit interface {
	Annotate(key, value string) // the first value of a key stays
	Bodies() bool               // whether the log also shows what the request carries
}

// Annotate adds to what the audit log shows of the request.
func (a *Attributes) Annotate(key, value string) {
	if a.Audit != nil {
		a.Audit.Annotate(key, value)
	}
}

// Undone adds what takes back what a stage has reserved, to be called when the write is not made after all.
func (a *Attributes) Undone(undo func(context.Context)) { a.undo = append(a.undo, undo) }

// Settle ends what stages have reserved: it stays with a write that is made, and is taken back otherwise.
func (a *Attributes) Settle(ctx context.Context, made bool) {
	undo := a.undo
	a.undo = nil
	for i := len(undo) - 1; i >= 0 && !made; i-- {
		undo[i](ctx)
	}
}

// Operation is the kind of change that admission is asked about.
type Operation string

// The operations.
const (
	Create  Operation = "CREATE"
	Update  Operation = "UPDATE"
	Delete  Operation = "DELETE"
	Connect Operation = "CONNECT"
)

// Authenticator finds out who makes a request. ok false without an error means: not by my means, ask the next.
// An error means that the credentials are of this kind and bad.
type Authenticator interface {
	Authenticate(r *http.Request) (who user.Info, ok bool, err error)
}

// Decision is an authorizer's answer.
type Decision int

// The decisions. The first authorizer of the list that has an opinion decides; none means no.
const (
	NoOpinion Decision = iota
	Allow
	Deny
)

// Authorizer decides whether a.User may do what a says. reason is for the error message and may be empty.
type Authorizer interface {
	Authorize(ctx context.Context, a *Attributes) (d Decision, reason string, err error)
}

// Mutator changes a.Object before it is defaulted a second time and validated. Errors that are no StatusError become
// Forbidden. Mutators are called for creates and updates (also of subresources) only.
type Mutator interface {
	Name() string
	Mutate(ctx context.Context, a *Attributes) error
}

// Validator refuses what may not be. It changes nothing. It is called for creates, updates, deletes and connects.
type Validator interface {
	Name() string
	Admit(ctx context.Context, a *Attributes) error
}

// Reader is what stages may look at: the server's own state, without authorization. Objects are shared.
type Reader interface {
	// Get returns a current object, or a NotFound StatusError.
	Get(ctx context.Context, r schema.GroupResource, key objects.Key) (objects.Object, error)
	// List returns the current objects of a namespace, "" for all.
	List(ctx context.Context, r schema.GroupResource, namespace string) ([]objects.Object, error)
	// State tells whether anything of a resource has changed since one last asked, and whether there is any of it. It costs
	// next to nothing. A resource that is not served has no objects.
	State(ctx context.Context, r schema.GroupResource) (State, error)
}

// State is what a resource's objects are like as a whole.
type State struct {
	Changes uint64 // grows with every change
	Count   int    // of the objects
}
