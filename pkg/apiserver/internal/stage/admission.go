package stage

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Operation is the kind of a change, as admission webhooks name it.
type Operation string

// The operations.
const (
	Create  Operation = "CREATE"
	Update  Operation = "UPDATE"
	Delete  Operation = "DELETE"
	Connect Operation = "CONNECT"
)

// Admission is one change that passes the stages of admission.
type Admission struct {
	*Attributes
	Operation Operation
	// Object is what the change stores, in the stored version; for a subresource that is not part of the stored object
	// (binding, token) it is Sub. Mutators change it in place. nil for deletes and connects.
	Object objects.Object
	// Old is the stored object, which is shared and must not be changed; nil for creates and connects.
	Old objects.Object
	// Sub is the object of a subresource with a different kind: a Binding, a Scale, an Eviction, or the options of a
	// connect. nil otherwise.
	Sub runtime.Object
	// DeleteOptions are the options of a delete; nil otherwise.
	DeleteOptions *metav1.DeleteOptions

	Reinvocation Reinvocation
}

// Reinvocation decides whether the mutators are called a second time, and carries what they keep between the two calls.
type Reinvocation struct {
	requested bool
	second    bool
	values    map[string]any // by plugin
}

// Request has all mutators called a second time. It has no effect during the second call.
func (r *Reinvocation) Request() { r.requested = true }

// IsReinvoke reports whether this is the second call of the mutators.
func (r *Reinvocation) IsReinvoke() bool { return r.second }

// SetValue keeps a value of a plugin for its second call.
func (r *Reinvocation) SetValue(plugin string, value any) {
	if r.values == nil {
		r.values = map[string]any{}
	}
	r.values[plugin] = value
}

// Value returns the value that the plugin has kept with SetValue, or nil.
func (r *Reinvocation) Value(plugin string) any { return r.values[plugin] }

// Mutate calls the mutators, and a second time when one of them requests it.
func (s *Stages) Mutate(ctx context.Context, a *Admission) error {
	if err := s.mutateOnce(ctx, a); err != nil || !a.Reinvocation.requested {
		return err
	}
	a.Reinvocation.second = true
	return s.mutateOnce(ctx, a)
}

func (s *Stages) mutateOnce(ctx context.Context, a *Admission) error {
	for _, m := range s.Mutators {
		if err := m.Mutate(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// Validate calls the validators, until one of them refuses the change.
func (s *Stages) Validate(ctx context.Context, a *Admission) error {
	for _, v := range s.Validators {
		if err := v.Validate(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// Reserve calls the reservers, until one of them refuses the change.
func (s *Stages) Reserve(ctx context.Context, a *Admission, tx *Transaction) error {
	for _, r := range s.Reservers {
		if err := r.Reserve(ctx, a, tx); err != nil {
			return err
		}
	}
	return nil
}
