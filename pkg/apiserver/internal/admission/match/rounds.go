package match

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
)

// Rounds carries a mutator's state from the first round of a request to the reinvocation round.
type Rounds struct {
	request    *stage.Admission
	output     runtime.Object  // the object after the previous round; nil without hooks to reinvoke
	toReinvoke []string        // IDs to reinvoke if the object changes
	due        map[string]bool // IDs that have not seen the last change
}

// RoundsOf begins a round of the mutator of that name.
func RoundsOf(a *stage.Admission, name string) *Rounds {
	r, ok := a.Reinvocation.Value(name).(*Rounds)
	if !ok {
		r = &Rounds{request: a, due: map[string]bool{}}
		a.Reinvocation.SetValue(name, r)
	}
	if len(r.toReinvoke) > 0 && a.Reinvocation.IsReinvoke() && !equality.Semantic.DeepEqual(r.output, a.Object) {
		r.changed()
	}
	return r
}

func (r *Rounds) changed() {
	for _, id := range r.toReinvoke {
		r.due[id] = true
	}
}

// Skips reports whether the round does not call id: a reinvocation round without a change since its last call.
func (r *Rounds) Skips(id string) bool { return r.request.Reinvocation.IsReinvoke() && !r.due[id] }

// Done records a call of id, whether it changed the object, and whether it is reinvoked after later changes.
func (r *Rounds) Done(id string, changed, again bool) {
	delete(r.due, id)
	if changed {
		r.changed()
		r.request.Reinvocation.Request()
	}
	if again && !r.request.Reinvocation.IsReinvoke() {
		r.toReinvoke = append(r.toReinvoke, id)
	}
}

// End records the object at the end of the round.
func (r *Rounds) End() {
	if len(r.toReinvoke) > 0 && r.request.Object != nil {
		r.output = r.request.Object.DeepCopyObject()
	}
}
