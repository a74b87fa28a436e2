package stage

import (
	"math"
	"regexp"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects/kwok"
)

// The operators of a jq requirement.
const (
	opIn           = "In"
	opNotIn        = "NotIn"
	opExists       = "Exists"
	opDoesNotExist = "DoesNotExist"
)

// compiled is a Stage that can be played. It is immutable.
type compiled struct {
	name        string
	uid         types.UID
	generation  int64
	kind        string // "Pod" or "Node"
	labels      map[string]string
	annotations map[string]string
	require     []requirement
	weight      weightValue
	duration    durationValue
	jitter      *durationValue
	steps       []step
	immediate   bool
}

// compile checks a Stage and prepares it. Without a selector the result is nil: the Stage selects nothing.
func compile(s *kwok.Stage) (*compiled, field.ErrorList) {
	spec := field.NewPath("spec")
	c := &compiled{
		name: s.Name, uid: s.UID, generation: s.Generation, kind: s.Spec.ResourceRef.Kind, immediate: s.Spec.ImmediateNextStage,
		weight: weightValue{fixed: min(s.Spec.Weight, maxWeight)},
	}
	errs := checkRef(s.Spec.ResourceRef, spec.Child("resourceRef"))
	if sel := s.Spec.Selector; sel != nil {
		c.labels, c.annotations = sel.MatchLabels, sel.MatchAnnotations
		path := spec.Child("selector", "matchExpressions")
		for i := range sel.MatchExpressions {
			r, list := newRequirement(&sel.MatchExpressions[i], path.Index(i))
			c.require, errs = append(c.require, r), append(errs, list...)
		}
	}
	read := func(from *kwok.ExpressionFrom, path *field.Path) *source {
		out, err := newSource(from)
		if err != nil {
			errs = append(errs, field.Invalid(path, expressionOf(from), err.Error()))
		}
		return out
	}
	c.weight.from = read(s.Spec.WeightFrom, spec.Child("weightFrom"))
	if d := s.Spec.Delay; d != nil {
		path := spec.Child("delay")
		zero := int64(0)
		if d.DurationMilliseconds == nil {
			d.DurationMilliseconds = &zero
		}
		fixed := func(ms *int64, name string) *time.Duration {
			if ms == nil {
				return nil
			}
			if *ms < 0 || *ms > maxDelay.Milliseconds() {
				errs = append(errs, field.Invalid(path.Child(name), *ms, "must be from 0 to 31536000000, which is a year"))
				return nil
			}
			return new(time.Duration(*ms) * time.Millisecond)
		}
		c.duration = durationValue{fixed(d.DurationMilliseconds, "durationMilliseconds"), read(d.DurationFrom, path.Child("durationFrom"))}
		if d.JitterDurationMilliseconds != nil || d.JitterDurationFrom != nil {
			c.jitter = &durationValue{
				fixed(d.JitterDurationMilliseconds, "jitterDurationMilliseconds"), read(d.JitterDurationFrom, path.Child("jitterDurationFrom")),
			}
		}
	}
	steps, list := compileSteps(&s.Spec)
	c.steps, errs = steps, append(errs, list...)
	if s.Spec.Selector == nil || len(errs) > 0 {
		c = nil
	}
	return c, errs
}

// checkRef accepts the kinds that simulated nodes have.
func checkRef(ref kwok.ResourceRef, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if ref.APIGroup != "" && ref.APIGroup != "v1" {
		errs = append(errs, field.NotSupported(path.Child("apiGroup"), ref.APIGroup, []string{"v1"}))
	}
	if ref.Kind != "Pod" && ref.Kind != "Node" {
		errs = append(errs, field.NotSupported(path.Child("kind"), ref.Kind, []string{"Node", "Pod"}))
	}
	return errs
}

func expressionOf(from *kwok.ExpressionFrom) string {
	switch {
	case from.CEL != nil:
		return from.CEL.Expression
	case from.JQ != nil:
		return from.JQ.Expression
	}
	return from.ExpressionFrom
}

func newRequirement(e *kwok.MatchExpression, path *field.Path) (requirement, field.ErrorList) {
	if e.CEL != nil {
		p, err := newProgram(e.CEL.Expression)
		if err != nil {
			return requirement{}, field.ErrorList{field.Invalid(path.Child("cel", "expression"), e.CEL.Expression, err.Error())}
		}
		return requirement{program: p, state: readsState(e.CEL.Expression)}, nil
	}
	jq := e.SelectorJQ
	if e.JQ != nil {
		jq, path = *e.JQ, path.Child("jq")
	}
	var errs field.ErrorList
	q, err := newQuery(jq.Key)
	switch {
	case jq.Key == "":
		errs = append(errs, field.Required(path.Child("key"), "a jq expression"))
	case err != nil:
		errs = append(errs, field.Invalid(path.Child("key"), jq.Key, err.Error()))
	}
	switch jq.Operator {
	case opIn, opNotIn:
		if len(jq.Values) == 0 {
			errs = append(errs, field.Required(path.Child("values"), "with the operator "+jq.Operator))
		}
	case opExists, opDoesNotExist:
		if len(jq.Values) > 0 {
			errs = append(errs, field.Forbidden(path.Child("values"), "with the operator "+jq.Operator))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("operator"), jq.Operator, []string{opIn, opNotIn, opExists, opDoesNotExist}))
	}
	return requirement{query: q, op: jq.Operator, values: jq.Values, state: readsState(jq.Key)}, errs
}

// parts are the parts of expressions that readsState finds. They are compiled at the first use, so that a start takes no time for them.
var parts = sync.OnceValue(func() (p struct{ user, state *regexp.Regexp }) {
	// What users and controllers set when they make an object.
	p.user = regexp.MustCompile(`\.(metadata\.(labels|annotations|name|namespace|ownerReferences)|spec)\b`)
	p.state = regexp.MustCompile(`\b(status|deletionTimestamp|finalizers|unschedulable|taints)\b`)
	return p
})

// readsState reports whether an expression reads the state that an object is in, and not only what kind of object it is.
func readsState(expression string) bool {
	return !parts().user.MatchString(expression) || parts().state.MatchString(expression)
}

// selects reports whether a Stage selects an object in some state: the object meets the requirements that do not depend on its state.
func (c *compiled) selects(s *subject) bool { return c.meets(s, false) }

// matches reports whether a Stage selects an object in its present state.
func (c *compiled) matches(s *subject) bool { return c.meets(s, true) }

func (c *compiled) meets(s *subject, state bool) bool {
	if !contains(s.object.GetLabels(), c.labels) || !contains(s.object.GetAnnotations(), c.annotations) {
		return false
	}
	for i := range c.require {
		if r := &c.require[i]; (state || !r.state) && !r.meets(s) {
			return false
		}
	}
	return true
}

func contains(have, want map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// delay draws the delay of a Stage for an object.
func (c *compiled) delay(s *subject, src *clock.Source) time.Duration {
	d, ok := c.duration.of(s)
	if !ok || c.jitter == nil {
		return d
	}
	longest, ok := c.jitter.of(s)
	switch {
	case !ok:
		return d
	case longest <= d:
		return longest
	}
	return d + time.Duration(src.IntN(int(longest-d)))
}

// choose draws one of the Stages that match an object, by their weights. Without a positive weight each is as likely. It returns nil if
// there is none.
func choose(matching []*compiled, s *subject, src *clock.Source) *compiled {
	if len(matching) < 2 {
		if len(matching) == 0 {
			return nil
		}
		return matching[0]
	}
	weights := map[*compiled]int64{}
	sum := int64(0)
	for _, c := range matching {
		if w, ok := c.weight.of(s); ok {
			weights[c] = w
			sum += w
		}
	}
	if sum == 0 {
		if len(weights) > 0 { // those with a weight that is no number are left out, unless all are
			matching = slices.DeleteFunc(slices.Clone(matching), func(c *compiled) bool { _, ok := weights[c]; return !ok })
		}
		return matching[src.IntN(len(matching))]
	}
	at := int64(src.IntN(int(min(sum, math.MaxInt))))
	for _, c := range matching {
		if at -= weights[c]; at < 0 {
			return c
		}
	}
	return matching[len(matching)-1]
}
