// Package stage owns the contracts of the stages that a request passes in the API server. The verb engine calls them in
// this order: authorizers; for a write, mutators, hooks, the row's own validation, validators and reservers; then the
// commit. Each contract is implemented by an entry of a list in package apiserver, so that a new stage is a new entry.
//
// A stage reads Attributes (what the client requests) and Admission (the change that the request makes). A stage that
// takes something outside the object, such as an address, a port or quota, registers with the Transaction how to give it
// back.
package stage

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Stages lists the stages of the verb engine. Each list is called in its order.
type Stages struct {
	Authorizers []Authorizer // none: every request is allowed
	Mutators    []Mutator
	Validators  []Validator
	Reservers   []Reserver
}

// Authorizer decides whether a.User may make the request. The reason goes into the error message and may be empty.
type Authorizer interface {
	Authorize(ctx context.Context, a *Attributes) (d Decision, reason string, err error)
}

// Decision is the result of an authorizer.
type Decision int

// The first authorizer in the list that returns Allow or Deny decides. A request without a decision is denied.
const (
	NoOpinion Decision = iota
	Allow
	Deny
)

// Mutator changes a.Object in place, before the row's defaults and validation. It is called for creates and updates, also
// of subresources, and a second time when a mutator requests reinvocation. An error that is no StatusError becomes a
// Forbidden error.
type Mutator interface {
	Name() string
	Mutate(ctx context.Context, a *Admission) error
}

// Validator refuses a change and modifies nothing. It is called for creates, updates, deletes and connects. An error that
// is no StatusError becomes a Forbidden error.
type Validator interface {
	Name() string
	Validate(ctx context.Context, a *Admission) error
}

// Reserver takes what the change uses of a limited resource (ResourceQuota) after all validators have accepted the change
// and directly before the commit. It is called for creates and updates. It releases in tx.OnRollback
// what it has reserved.
type Reserver interface {
	Name() string
	Reserve(ctx context.Context, a *Admission, tx *Transaction) error
}

// Hook allocates for the objects of one resource, e.g. the addresses and ports of Services. Its functions may be nil. Load
// is called before the others; otherwise they are called concurrently.
type Hook struct {
	Resource schema.GroupResource
	// Load gets the stored objects, once, before the first call of Prepare.
	Load func(current []objects.Object)
	// Prepare fills in obj after the mutators and before validation. old is nil on create. It releases what it has
	// allocated in tx.OnRollback, and what obj no longer needs in tx.OnCommit. A dry run is always rolled back.
	Prepare func(ctx context.Context, tx *Transaction, obj, old objects.Object) error
	// Deleted gets an object that has been removed from the store.
	Deleted func(obj objects.Object)
	// Released gets the object after Deleted, also when Load was not called. It may write other objects.
	Released func(ctx context.Context, obj objects.Object)
}

// Review evaluates an object that is created but never stored, e.g. a SubjectAccessReview, and returns the object of the
// response. It may change obj and return it.
type Review func(ctx context.Context, a *Attributes, obj objects.Object) (objects.Object, error)

// Reader reads the server's current objects without authorization. The objects are shared with the cache: callers must not
// change them.
type Reader interface {
	// Get returns an object, or a NotFound StatusError.
	Get(ctx context.Context, r schema.GroupResource, key objects.Key) (objects.Object, error)
	// List returns the objects of a namespace, of all namespaces when it is "".
	List(ctx context.Context, r schema.GroupResource, namespace string) ([]objects.Object, error)
	// Counters returns counters of the resource's objects, in constant time. They are zero for a resource that is not served.
	Counters(ctx context.Context, r schema.GroupResource) (Counters, error)
}

// Counters count the objects of a resource and their changes. A value derived from the objects is valid while Changes stays
// the same.
type Counters struct {
	Changes uint64 // increases with every change
	Count   int    // of the objects
}
