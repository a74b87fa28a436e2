// Package flowcontrol holds the rows of the group flowcontrol.apiserver.k8s.io, and their objects that every cluster
// has.
package flowcontrol

import (
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
)

const group = "flowcontrol.apiserver.k8s.io"

// FlowSchemas is the row of FlowSchema.
var FlowSchemas = objects.Def[*flowcontrolv1.FlowSchema]{
	Names:    objects.Names{Group: group, Version: "v1", Kind: "FlowSchema", Plural: "flowschemas", Cluster: true},
	New:      func() *flowcontrolv1.FlowSchema { return &flowcontrolv1.FlowSchema{} },
	NewList:  func() runtime.Object { return &flowcontrolv1.FlowSchemaList{} },
	Default:  defaultSchema,
	Prepare:  prepareSchema,
	Validate: validateSchema,
	Columns:  schemaColumns,
	Reset:    []string{"status"},
	Status: &objects.Status[*flowcontrolv1.FlowSchema]{
		Prepare:  func(s, old *flowcontrolv1.FlowSchema) { s.Spec = old.Spec; keepMeta(&s.ObjectMeta, &old.ObjectMeta) },
		Validate: validateSchemaStatus,
		Reset:    []string{"spec", "metadata"},
	},
}

// defaultPrecedence is the default matchingPrecedence.
const defaultPrecedence = 1000

func defaultSchema(s *flowcontrolv1.FlowSchema) {
	if s.Spec.MatchingPrecedence == 0 {
		s.Spec.MatchingPrecedence = defaultPrecedence
	}
}

func prepareSchema(s, old *flowcontrolv1.FlowSchema) {
	if old == nil {
		s.Status = flowcontrolv1.FlowSchemaStatus{}
		s.Generation = 1
		return
	}
	s.Status = old.Status
	check.Generation(s, old, func() bool { return !check.Same(&s.Spec, &old.Spec) })
}

var schemaDoc = flowcontrolv1.FlowSchemaSpec{}.SwaggerDoc()

var schemaColumns = []objects.Column[*flowcontrolv1.FlowSchema]{
	objects.NameColumn[*flowcontrolv1.FlowSchema](),
	{Name: "PriorityLevel", Description: flowcontrolv1.PriorityLevelConfigurationReference{}.SwaggerDoc()["name"],
		Cell: func(s *flowcontrolv1.FlowSchema, _ time.Time) any { return s.Spec.PriorityLevelConfiguration.Name }},
	{Name: "MatchingPrecedence", Description: schemaDoc["matchingPrecedence"],
		Cell: func(s *flowcontrolv1.FlowSchema, _ time.Time) any { return int64(s.Spec.MatchingPrecedence) }},
	{Name: "DistinguisherMethod", Description: schemaDoc["distinguisherMethod"],
		Cell: func(s *flowcontrolv1.FlowSchema, _ time.Time) any {
			if s.Spec.DistinguisherMethod == nil {
				return none
			}
			return string(s.Spec.DistinguisherMethod.Type)
		}},
	objects.AgeColumn[*flowcontrolv1.FlowSchema](),
	{Name: "MissingPL", Description: "references a broken or non-existent PriorityLevelConfiguration", Cell: missingLevel},
}

// none is the cell of an unset field.
const none = "<none>"

func missingLevel(s *flowcontrolv1.FlowSchema, _ time.Time) any {
	for _, c := range s.Status.Conditions {
		if c.Type == flowcontrolv1.FlowSchemaConditionDangling {
			return string(c.Status)
		}
	}
	return "?"
}

// keepMeta restores the metadata, except managedFields, in a write of the status.
func keepMeta(now, old *metav1.ObjectMeta) {
	managers := now.ManagedFields
	old.DeepCopyInto(now)
	now.ManagedFields = managers
}

func validateSchemaStatus(s, _ *flowcontrolv1.FlowSchema) field.ErrorList {
	var types []string
	for _, c := range s.Status.Conditions {
		types = append(types, string(c.Type))
	}
	return validateConditions(types)
}

// validateConditions rejects empty and duplicate condition types.
func validateConditions(types []string) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, name := range types {
		at := check.Status.Child("conditions").Index(i).Child("type")
		if seen[name] {
			errs = append(errs, field.Duplicate(at, name))
		}
		seen[name] = true
		if name == "" {
			errs = append(errs, field.Required(at, ""))
		}
	}
	return errs
}
