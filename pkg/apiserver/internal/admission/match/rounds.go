package match

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
)

// Rounds is what a mutator knows from a request's first round in the second.
type Rounds struct {
	request *stage.Admission
	output  runtime.Object  // what the object was after the round before, if anybody wants to see changes
	asked   []string        // who wants to see them, so far
	due     map[string]bool // those of them who have not seen the last change
}

// RoundsOf begins a round of the mutator with that name.
func RoundsOf(a *stage.Admission, name string) *Rounds {
	r, ok := a.Reinvocation.Value(name).(*Rounds)
	if !ok {
		r = &Rounds{request: a, due: map[string]bool{}}
		a.Reinvocation.SetValue(name, r)
	}
	if len(r.asked) > 0 && a.Reinvocation.IsReinvoke() && !equality.Semantic.DeepEqual(r.output, a.Object) {
		r.changed()
	}
	return r
}

func (r *Rounds) changed() {
	for _, id := range r.asked {
		r.due[id] = true
	}
}

// Skips reports whether it is not the turn of id in this round.
func (r *Rounds) Skips(id string) bool { return r.request.Reinvocation.IsReinvoke() && !r.due[id] }

// Done notes that id has had its turn, whether it has changed the object, and whether it wants to see what those after it
// change.
func (r *Rounds) Done(id string, changed, again bool) {
	delete(r.due, id)
	if changed {
		r.changed()
		r.request.Reinvocation.Request()
	}
	if again && !r.request.Reinvocation.IsReinvoke() {
		r.asked = append(r.asked, id)
	}
}

// End notes what the object is when the round ends.
func (r *Rounds) End() {
	if len(r.asked) > 0 && r.request.Object != nil {
		r.output = r.request.Object.DeepCopyObject()
	}
}
