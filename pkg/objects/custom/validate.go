package custom

import (
	"context"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	schemavalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"

	"github.com/minikctl/minikctl/pkg/objects"
)

// rules are the validation rules of a version.
type rules struct {
	schema *structural.Structural
	all    checks
	status *checks        // nil: the schema has no status
	cel    *cel.Validator // nil: no x-kubernetes-validations
}

// checks validate values against a schema.
type checks struct {
	quickSchema *quickSchema
	library     func() (schemavalidation.SchemaValidator, error) // built for the first value that the quickSchema does not accept
}

func checksOf(props *apiextensions.JSONSchemaProps) checks {
	return checks{quickSchemaOf(props), sync.OnceValues(func() (schemavalidation.SchemaValidator, error) {
		v, _, err := schemavalidation.NewSchemaValidator(props)
		return v, err
	})}
}

// errors returns the errors of a value, or some of them if there are very many.
func (c *checks) errors(at *field.Path, now, was any, priorValue priorValue) field.ErrorList {
	if c.quickSchema.accepts(now) {
		return nil
	}
	library, err := c.library()
	if err != nil {
		return field.ErrorList{field.InternalError(at, err)}
	}
	doubts := maxUncertain
	if less := c.quickSchema.shorten(now, was, &doubts); doubts <= 0 {
		errs := schemavalidation.ValidateCustomResourceUpdate(at, less, was, library, priorValue.with(less).options()...)
		if len(errs) > maxUncertain/2 { // these errors are not caused by the shortening alone
			return errs
		}
	}
	return schemavalidation.ValidateCustomResourceUpdate(at, now, was, library, priorValue.options()...)
}

func (v *version) makeRules() (*rules, error) {
	s, err := v.schema()
	if err != nil {
		return nil, err
	}
	props, err := v.internal()
	if err != nil {
		return nil, err
	}
	r := &rules{schema: s, all: checksOf(props), cel: cel.NewValidator(s, true, celconfig.PerCallLimit)}
	if props == nil {
		return r, nil
	}
	if status, ok := props.Properties["status"]; ok { //nolint:staticcheck // new(checksOf(&status)) uses it
		r.status = new(checksOf(&status))
	}
	return r, nil
}

// validateMeta checks an object's metadata, which does not depend on the version.
func (k *kind) validateMeta(obj, old objects.Object) field.ErrorList {
	at := field.NewPath("metadata")
	if old != nil {
		return validation.ValidateObjectMetaAccessorUpdate(obj, old, at)
	}
	return validation.ValidateObjectMetaAccessor(obj, k.namespaced(), validation.NameIsDNSSubdomain, at)
}

// pair is a new object and the old one (nil for a create) in one version, with the version's rules.
type pair struct {
	*rules
	version  *version
	now, was map[string]any
	meta     field.ErrorList // errors of the metadata, which the caller reports; computed only for CEL rules
}

// pairOf converts objects of the storage version to this one.
func (v *version) pairOf(obj, old objects.Object) (*pair, error) {
	r, err := v.rules()
	if err != nil {
		return nil, err
	}
	p := &pair{rules: r, version: v}
	if r.cel != nil {
		p.meta = v.validateMeta(obj, old)
	}
	if p.now, err = v.view(obj); err != nil || old == nil {
		return p, err
	}
	p.was, err = v.view(old)
	return p, err
}

// view returns the content of an object of the storage version, converted to this version.
func (v *version) view(obj objects.Object) (map[string]any, error) {
	if v == v.stored {
		return content(obj), nil
	}
	u, err := v.convert(obj, v)
	if err != nil {
		return nil, err
	}
	return u.Object, nil
}

// validate checks a write of the main resource. obj and old (nil for a create) are of the storage version.
func (v *version) validate(obj, old objects.Object) field.ErrorList {
	p, err := v.pairOf(obj, old)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	same := p.correlate()
	errs := p.all.errors(nil, p.now, p.was, priorValueOf(same))
	errs = append(errs, v.validateScaleSpec(p.now)...)
	errs = append(errs, v.validateScaleStatus(p.now)...)
	if v.shape().embeds {
		errs = append(errs, objectmeta.Validate(nil, p.now, p.rules.schema, false)...)
	}
	errs = append(errs, p.validateLists()...)
	return append(errs, p.validateExpressions(errs, same)...)
}

// validateStatus checks a write of the status.
func (v *version) validateStatus(obj, old objects.Object) field.ErrorList {
	p, err := v.pairOf(obj, old)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	var errs field.ErrorList
	same := p.correlate()
	if status, ok := p.now["status"]; ok && p.status != nil {
		errs = p.status.errors(field.NewPath("status"), status, p.was["status"], priorValueOf(same, "status"))
	}
	errs = append(errs, v.validateScaleStatus(p.now)...)
	errs = append(errs, p.validateLists()...)
	return append(errs, p.validateExpressions(errs, same)...)
}

// correlate matches parts of the new and the old object: an unchanged part is not rejected by newer rules
// (ratcheting).
func (p *pair) correlate() *common.CorrelatedObject {
	if p.was == nil || p.rules.schema == nil {
		return nil
	}
	return common.NewCorrelatedObject(p.now, p.was, &model.Structural{Structural: p.rules.schema})
}

// priorValue lets the checks of an object, or of a part of it, skip unchanged values.
type priorValue struct {
	there bool
	same  *common.CorrelatedObject // nil with an old value: the library correlates them
}

// priorValueOf returns the old value of an object, or of a part of it, for its checks.
func priorValueOf(same *common.CorrelatedObject, part ...string) priorValue {
	b := priorValue{same != nil, same}
	for _, name := range part {
		b.same = b.same.Key(name)
	}
	return b
}

// with returns b with now as the new value.
func (b priorValue) with(now any) priorValue {
	if b.same != nil {
		b.same = common.NewCorrelatedObject(now, b.same.OldValue, b.same.Schema)
	}
	return b
}

func (b priorValue) options() []schemavalidation.ValidationOption {
	if !b.there {
		return nil
	}
	return []schemavalidation.ValidationOption{schemavalidation.WithRatcheting(b.same)}
}

// validateLists rejects duplicates in list sets and list maps, unless the old object has them.
func (p *pair) validateLists() field.ErrorList {
	if !p.version.shape().lists {
		return nil
	}
	errs := listtype.ValidateListSetsAndMaps(nil, p.rules.schema, p.now)
	if len(errs) > 0 && p.was != nil && len(listtype.ValidateListSetsAndMaps(nil, p.rules.schema, p.was)) > 0 {
		return nil
	}
	return errs
}

// validateExpressions evaluates the CEL rules, unless earlier errors block it.
func (p *pair) validateExpressions(errs field.ErrorList, same *common.CorrelatedObject) field.ErrorList {
	if p.cel == nil {
		return nil
	}
	if blocks(p.meta) || blocks(errs) {
		return field.ErrorList{field.Invalid(nil, nil,
			"some validation rules were not checked because the object was invalid; correct the existing errors to complete validation")}
	}
	var options []cel.Option
	if same != nil {
		options = append(options, cel.WithRatcheting(same))
	}
	var was any // not a typed nil, since the library compares with nil
	if p.was != nil {
		was = p.was
	}
	ctx := context.Background() //nolint:forbidigo // the cost of a rule is bounded
	out, _ := p.cel.Validate(ctx, nil, p.rules.schema, p.now, was, celconfig.RuntimeCELCostBudget, options...)
	return out
}

// blocks reports whether there is an error after which CEL rules are not evaluated.
func blocks(errs field.ErrorList) bool {
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return true
		}
	}
	return false
}
