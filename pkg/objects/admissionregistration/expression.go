package admissionregistration

import (
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// Returns is the result type that an expression must have.
type Returns int

// The result types of expressions.
const (
	Bool       Returns = iota // validations and match conditions
	Text                      // messages
	Annotation                // a string or null
	Anything                  // variables
	Object                    // apply configurations
	Patches                   // JSON patches
)

// Expression is a CEL expression of a webhook or policy. Name is set for a variable.
type Expression struct {
	Name, Source string
	Returns      Returns
}

// GetExpression returns the source.
func (e *Expression) GetExpression() string { return e.Source }

// GetName returns the name of a variable.
func (e *Expression) GetName() string { return e.Name }

// ReturnTypes returns the types that the expression may evaluate to.
func (e *Expression) ReturnTypes() []*cel.Type {
	switch e.Returns {
	case Text:
		return []*cel.Type{cel.StringType}
	case Annotation:
		return []*cel.Type{cel.StringType, cel.NullType}
	case Anything:
		return []*cel.Type{cel.AnyType, cel.DynType}
	case Object:
		return []*cel.Type{types.NewObjectType("Object")}
	case Patches:
		return []*cel.Type{cel.ListType(types.NewObjectType("JSONPatch"))}
	}
	return []*cel.Type{cel.BoolType}
}

// Environment returns the CEL environment of expressions, built on first use.
var Environment = sync.OnceValue(func() *environment.EnvSet {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
})

// plain compiles expressions that use no variables.
var plain = sync.OnceValue(func() plugincel.Compiler { return plugincel.NewCompiler(Environment()) })

// Conditions returns the match conditions as expressions.
func Conditions(all []admissionv1.MatchCondition) []plugincel.ExpressionAccessor {
	out := make([]plugincel.ExpressionAccessor, len(all))
	for i, c := range all {
		out[i] = &Expression{Name: c.Name, Source: c.Expression, Returns: Bool}
	}
	return out
}
