package admissionregistration

import (
	"errors"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apicel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

const maxConditions = 64

func validateConditions(all []admissionv1.MatchCondition, l tolerated, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(all) > maxConditions {
		errs = append(errs, field.TooMany(at, len(all), maxConditions))
	}
	seen := map[string]bool{}
	for i, c := range all {
		at := at.Index(i)
		source := strings.TrimSpace(c.Expression)
		if source == "" {
			errs = append(errs, field.Required(at.Child("expression"), ""))
		} else {
			e := &Expression{Source: source, Returns: Bool}
			errs = append(errs, compile(plain(), e, plugincel.OptionalVariableDeclarations{HasParams: l.params, HasAuthorizer: true}, l, at.Child("expression"))...)
		}
		if c.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
			continue
		}
		errs = append(errs, check.Qualified(c.Name, at.Child("name"))...)
		if seen[c.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		}
		seen[c.Name] = true
	}
	return errs
}

// compile returns the errors of an expression. A stored expression may use the environment of later versions.
func compile(c plugincel.Compiler, e *Expression, vars plugincel.OptionalVariableDeclarations, l tolerated, at *field.Path) field.ErrorList {
	if ok, errs := l.work.Compile(e.Source, at); !ok {
		return errs
	}
	if result := c.CompileCELExpression(e, vars, l.mode(e.Source)); result.Error != nil {
		return field.ErrorList{celError(result.Error, e.Source, at)}
	}
	return nil
}

func (l tolerated) mode(expression string) environment.Type {
	if l.known != nil && l.known(expression) {
		return environment.StoredExpressions
	}
	return environment.NewExpressions
}

func celError(err error, source string, at *field.Path) *field.Error {
	wrong := new(apicel.Error)
	if !errors.As(err, &wrong) {
		return field.InternalError(at, fmt.Errorf("unsupported error type: %w", err))
	}
	switch wrong.Type {
	case apicel.ErrorTypeRequired:
		return field.Required(at, wrong.Detail)
	case apicel.ErrorTypeInvalid:
		return field.Invalid(at, source, wrong.Detail)
	}
	return field.InternalError(at, wrong)
}
