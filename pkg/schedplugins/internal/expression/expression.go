// Package expression compiles and evaluates the CEL expressions of scheduler plugins, about the variables node and pod. The environment is the
// one of Kubernetes' policies, with its libraries; it is made when the first expression is compiled.
package expression

import (
	"fmt"
	"slices"
	"sync"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/minikctl/minikctl/pkg/objects/admissionregistration"
)

const (
	// maxCost bounds one evaluation, for one node, in CEL's units. It is a tenth of what a call of a policy may cost.
	maxCost = 100_000
	// maxLength bounds the text of an expression.
	maxLength = 16 << 10
)

// Expression is a compiled expression. It is safe for concurrent use.
type Expression struct {
	program cel.Program
	pod     []string // the fields of pod that it reads, sorted
}

var environmentOf = sync.OnceValues(func() (*cel.Env, error) {
	added := variables()
	added.IntroducedVersion = version.MajorMinor(1, 0)
	set, err := admissionregistration.Environment().Extend(added)
	if err != nil {
		return nil, err
	}
	return set.Env(environment.StoredExpressions)
})

// Compile compiles an expression whose value has one of the types. The error names the field at path.
func Compile(path *field.Path, source string, want ...*cel.Type) (*Expression, error) {
	if len(source) > maxLength {
		return nil, field.TooLong(path, source, maxLength)
	}
	env, err := environmentOf()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(source)
	if issues.Err() != nil {
		return nil, field.Invalid(path, source, "compilation failed: "+issues.String())
	}
	if !slices.ContainsFunc(want, ast.OutputType().IsExactType) {
		return nil, field.Invalid(path, source, fmt.Sprintf("must evaluate to %s, not %s", typeNames(want), ast.OutputType()))
	}
	program, err := env.Program(ast, cel.CostLimit(maxCost))
	if err != nil {
		return nil, field.Invalid(path, source, "program instantiation failed: "+err.Error())
	}
	return &Expression{program: program, pod: fieldsOf(ast, "pod", podFields)}, nil
}

func typeNames(list []*cel.Type) string {
	out := list[0].String()
	for _, t := range list[1:] {
		out += " or " + t.String()
	}
	return out
}

// fieldsOf returns the fields of a variable that an expression reads: all of them, if it uses the variable as a whole.
func fieldsOf(ast *cel.Ast, variable string, all []string) []string {
	found, selected, used := map[string]bool{}, 0, 0
	celast.PreOrderVisit(ast.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		switch {
		case e.Kind() == celast.IdentKind && e.AsIdent() == variable:
			used++
		case e.Kind() == celast.SelectKind && e.AsSelect().Operand().Kind() == celast.IdentKind && e.AsSelect().Operand().AsIdent() == variable:
			selected++
			found[e.AsSelect().FieldName()] = true
		}
	}))
	if used > selected {
		return all
	}
	var out []string
	for _, name := range all {
		if found[name] {
			out = append(out, name)
		}
	}
	return out
}

// PodFields returns the names of the pod's fields that the value depends on.
func (e *Expression) PodFields() []string { return e.pod }

// Bool evaluates an expression of type bool.
func (e *Expression) Bool(pod Pod, node Node) (bool, error) {
	v, err := e.eval(pod, node)
	b, _ := v.(bool)
	return b, err
}

// Number evaluates an expression of type int or double. whole reports whether it is an int.
func (e *Expression) Number(pod Pod, node Node) (value float64, whole bool, err error) {
	v, err := e.eval(pod, node)
	if n, ok := v.(int64); ok {
		return float64(n), true, err
	}
	f, _ := v.(float64)
	return f, false, err
}

func (e *Expression) eval(pod Pod, node Node) (any, error) {
	out, _, err := e.program.Eval(map[string]any{"pod": map[string]any(pod), "node": map[string]any(node)})
	if err != nil {
		return nil, err
	}
	if types.IsUnknownOrError(out) {
		return nil, fmt.Errorf("%v", out)
	}
	return out.Value(), nil
}
