package typecheck

import (
	"fmt"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apicel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"

	rows "github.com/minikctl/minikctl/pkg/objects/admissionregistration"
)

// Declared is the CEL type of a kind. The zero value allows any expression.
type Declared struct{ declared *apicel.DeclType }

// typeEnv is the environment that the expressions of a policy are compiled in: its variables, and the types of one kind.
type typeEnv struct {
	kind     schema.GroupVersionKind
	compiler *plugincel.CompositedCompiler
}

// newTypeEnv declares the names that expressions may use. params is nil for a policy without parameters.
func newTypeEnv(kind schema.GroupVersionKind, object Declared, params *Declared, variables []admissionv1.Variable) (*typeEnv, error) {
	names := newDeclarations()
	names.add(Declared{plugincel.BuildNamespaceType()}, plugincel.NamespaceVarName)
	names.add(Declared{plugincel.BuildRequestType()}, plugincel.RequestVarName)
	names.add(object, plugincel.ObjectVarName, plugincel.OldObjectVarName)
	if params != nil {
		names.add(*params, plugincel.ParamsVarName)
	}
	env, err := rows.Environment().Extend(names.options)
	if err != nil {
		return nil, err
	}
	c, err := plugincel.NewCompositedCompilerForTypeChecking(env)
	if err != nil {
		return nil, err
	}
	c.Compiler = checking{c}
	for _, v := range variables {
		c.CompileAndStoreVariable(&rows.Expression{Name: v.Name, Source: v.Expression, Returns: rows.Anything}, plugincel.OptionalVariableDeclarations{}, environment.StoredExpressions)
	}
	return &typeEnv{kind, c}, nil
}

// issues returns the compile errors of an expression, "" if there are none.
func (s *typeEnv) issues(source string) string {
	r := s.compiler.CompileCELExpression(&rows.Expression{Source: source, Returns: rows.Anything}, plugincel.OptionalVariableDeclarations{}, environment.StoredExpressions)
	switch {
	case r.Error == nil:
		return ""
	case r.Error.Type == apicel.ErrorTypeInvalid:
		return fmt.Sprintf("%v: %s\n", s.kind, r.Error)
	}
	return fmt.Sprintf("%v: type checking error: %v\n", s.kind, r.Error)
}

// declarations holds the names that expressions may use in addition to the standard ones.
type declarations struct{ options environment.VersionedOptions }

func newDeclarations() *declarations {
	return &declarations{environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0), // available in every version
		EnvOptions:        []cel.EnvOption{cel.Variable(plugincel.AuthorizerVarName, library.AuthorizerType)},
	}}
}

func (d *declarations) add(t Declared, names ...string) {
	kind := cel.DynType
	if t.declared != nil {
		kind = t.declared.CelType()
		d.options.DeclTypes = append(d.options.DeclTypes, t.declared)
	}
	for _, name := range names {
		d.options.EnvOptions = append(d.options.EnvOptions, cel.Variable(name, kind))
	}
}

// checking compiles expressions with any result type, and does not make programs of them.
type checking struct{ in *plugincel.CompositedCompiler }

func (c checking) CompileCELExpression(e plugincel.ExpressionAccessor, _ plugincel.OptionalVariableDeclarations, mode environment.Type) plugincel.CompilationResult {
	failed := func(kind apicel.ErrorType, text string) plugincel.CompilationResult {
		return plugincel.CompilationResult{Error: &apicel.Error{Type: kind, Detail: text}, ExpressionAccessor: e}
	}
	env, err := c.in.Env(mode)
	if err != nil {
		return failed(apicel.ErrorTypeInternal, "fail to build env: "+err.Error())
	}
	ast, issues := env.Compile(e.GetExpression())
	if issues != nil {
		return failed(apicel.ErrorTypeInvalid, issues.String())
	}
	return plugincel.CompilationResult{OutputType: ast.OutputType()}
}
