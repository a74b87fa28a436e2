package stage

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/itchyny/gojq"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/minikctl/minikctl/pkg/objects/admissionregistration"
	"github.com/minikctl/minikctl/pkg/objects/kwok"
)

const (
	// evaluationTime bounds the evaluation of one jq expression, in machine time.
	evaluationTime = time.Second
	// maxResults bounds the results of one jq expression.
	maxResults = 10_000
	// maxCost bounds the evaluation of a CEL expression, in CEL's units. It is that of a rule of a custom resource.
	maxCost = 10_000_000
)

// query is a compiled jq expression, whose function now is the time of the cluster.
type query struct{ code *gojq.Code }

func newQuery(source string) (*query, error) {
	parsed, err := gojq.Parse("def now: $now; " + source)
	if err != nil {
		return nil, fmt.Errorf("jq: %w", err)
	}
	code, err := gojq.Compile(parsed, gojq.WithVariables([]string{"$now"})) // without the environment, and without files
	if err != nil {
		return nil, fmt.Errorf("jq: %w", err)
	}
	return &query{code}, nil
}

// run returns the results but null. As in kwok, an expression that fails on an object has none.
func (q *query) run(s *subject) []any {
	value, err := s.value()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), evaluationTime) //nolint:forbidigo // bounds a computation, which no caller waits to cancel
	defer cancel()
	var out []any
	iter := q.code.RunWithContext(ctx, value, s.now())
	for len(out) < maxResults {
		v, ok := iter.Next()
		if !ok {
			break
		}
		if _, failed := v.(error); failed {
			return nil
		}
		if v != nil {
			out = append(out, v)
		}
	}
	return out
}

// celEnvironment is made when the first Stage has a CEL expression.
var celEnvironment = sync.OnceValues(func() (*cel.Env, error) {
	set, err := admissionregistration.Environment().Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions:        []cel.EnvOption{cel.Variable("self", cel.DynType)},
	})
	if err != nil {
		return nil, err
	}
	return set.Env(environment.StoredExpressions)
})

// program is a compiled CEL expression.
type program struct{ cel.Program }

func newProgram(source string) (*program, error) {
	env, err := celEnvironment()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(source)
	if issues.Err() != nil {
		return nil, fmt.Errorf("CEL: %w", issues.Err())
	}
	p, err := env.Program(ast, cel.CostLimit(maxCost), cel.InterruptCheckFrequency(1000))
	if err != nil {
		return nil, fmt.Errorf("CEL: %w", err)
	}
	return &program{p}, nil
}

// run returns the value of the expression, false if it fails on the object: a missing field, or too much work.
func (p *program) run(s *subject) (any, bool) {
	self, err := s.value()
	if err != nil {
		return nil, false
	}
	out, _, err := p.Eval(map[string]any{"self": self})
	if err != nil || types.IsUnknownOrError(out) {
		return nil, false
	}
	return out.Value(), true
}

// requirement is a part of a selector.
type requirement struct {
	state   bool // it depends on more than the object's labels and annotations
	program *program
	query   *query
	op      string
	values  []string
}

// meets reports whether an object meets the requirement.
func (r *requirement) meets(s *subject) bool {
	if r.program != nil {
		out, ok := r.program.run(s)
		return ok && out == true
	}
	found := r.query.run(s)
	switch r.op {
	case opIn:
		return slices.ContainsFunc(found, r.has)
	case opNotIn:
		return !slices.ContainsFunc(found, r.has)
	case opExists:
		return len(found) > 0
	}
	return len(found) == 0
}

// has reports whether a result of jq is one of the values.
func (r *requirement) has(result any) bool {
	switch v := result.(type) {
	case string:
		return slices.Contains(r.values, v)
	case bool:
		return slices.Contains(r.values, strconv.FormatBool(v))
	case int:
		return slices.Contains(r.values, strconv.Itoa(v))
	case float64:
		return slices.Contains(r.values, strconv.FormatFloat(v, 'f', -1, 64))
	}
	return false
}

// source reads a value from an object, by CEL or jq.
type source struct {
	program *program
	query   *query
}

// newSource compiles an ExpressionFrom; nil without an expression.
func newSource(from *kwok.ExpressionFrom) (*source, error) {
	if from == nil {
		return nil, nil
	}
	var s source
	var err error
	switch {
	case from.CEL != nil:
		s.program, err = newProgram(from.CEL.Expression)
	case from.JQ != nil:
		s.query, err = newQuery(from.JQ.Expression)
	case from.ExpressionFrom != "":
		s.query, err = newQuery(from.ExpressionFrom)
	default:
		return nil, nil
	}
	return &s, err
}

// read returns the first result, nil without one.
func (f *source) read(s *subject) any {
	if f.program != nil {
		out, _ := f.program.run(s)
		return out
	}
	if found := f.query.run(s); len(found) > 0 {
		return found[0]
	}
	return nil
}

// maxDelay bounds delays.
const maxDelay = 365 * 24 * time.Hour

// durationValue is a duration of a Stage, which may come from the object.
type durationValue struct {
	fixed *time.Duration
	from  *source
}

// of returns the duration for an object. A time in the object is the duration until then. It returns false without one.
func (d durationValue) of(s *subject) (time.Duration, bool) {
	if d.from != nil {
		switch v := d.from.read(s).(type) {
		case string:
			if v == "" {
				return 0, false
			}
			if t, err := time.Parse(time.RFC3339Nano, v); err == nil {
				return bounded(t.Sub(s.at)), true
			}
			if parsed, err := time.ParseDuration(v); err == nil {
				return bounded(parsed), true
			}
		case time.Duration:
			return bounded(v), true
		case time.Time:
			return bounded(v.Sub(s.at)), true
		}
	}
	if d.fixed == nil {
		return 0, false
	}
	return *d.fixed, true
}

func bounded(d time.Duration) time.Duration { return min(max(d, 0), maxDelay) }

// weightValue is the weight of a Stage, which may come from the object.
type weightValue struct {
	fixed int64
	from  *source
}

// maxWeight bounds a weight, so that their sum does not overflow.
const maxWeight = 1 << 40

// of returns the weight for an object. It returns false if the object has a value that is no number.
func (w weightValue) of(s *subject) (int64, bool) {
	if w.from == nil {
		return w.fixed, true
	}
	var n int64
	switch v := w.from.read(s).(type) {
	case string:
		parsed, err := strconv.ParseInt(v, 0, 64)
		if err != nil {
			return 0, false
		}
		n = parsed
	case float64:
		n = int64(min(v, maxWeight))
	case int:
		n = int64(v)
	case int64:
		n = v
	default:
		return w.fixed, true
	}
	return min(max(n, 0), maxWeight), true
}
