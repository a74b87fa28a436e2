package apps

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
)

// ControllerRevisions is the row of ControllerRevision, which holds an earlier state of a StatefulSet or DaemonSet.
var ControllerRevisions = objects.Def[*appsv1.ControllerRevision]{
	Names:    objects.Names{Group: "apps", Version: "v1", Kind: "ControllerRevision", Plural: "controllerrevisions"},
	Versions: oldControllerRevisions,
	New:      func() *appsv1.ControllerRevision { return &appsv1.ControllerRevision{} },
	NewList:  func() runtime.Object { return &appsv1.ControllerRevisionList{} },
	Validate: validateRevision,
	Columns: []objects.Column[*appsv1.ControllerRevision]{
		objects.NameColumn[*appsv1.ControllerRevision](),
		{Name: "Controller", Description: "Controller of the object", Cell: func(r *appsv1.ControllerRevision, _ time.Time) any { return owner(r) }},
		{Name: "Revision", Description: appsv1.ControllerRevision{}.SwaggerDoc()["revision"],
			Cell: func(r *appsv1.ControllerRevision, _ time.Time) any { return r.Revision }},
		objects.AgeColumn[*appsv1.ControllerRevision](),
	},
}

// owner formats the controller as kubectl does: statefulset.apps/web.
func owner(r *appsv1.ControllerRevision) string {
	ref := metav1.GetControllerOf(r)
	if ref == nil {
		return "<none>"
	}
	kind := strings.ToLower(ref.Kind)
	if group, _, ok := strings.Cut(ref.APIVersion, "/"); ok {
		kind += "." + group
	}
	if kind == "" {
		return ref.Name
	}
	return fmt.Sprintf("%s/%s", kind, ref.Name)
}

func validateRevision(r, old *appsv1.ControllerRevision) field.ErrorList {
	var errs field.ErrorList
	if old != nil {
		errs = check.MetaUpdate(r, old)
	}
	errs = append(errs, check.Meta(r, true, validation.NameIsDNSSubdomain)...)
	errs = append(errs, check.NonNegative(r.Revision, field.NewPath("revision"))...)
	if old == nil {
		errs = append(errs, validateState(r.Data.Raw, field.NewPath("data"))...)
	}
	if old != nil && !equality.Semantic.DeepEqual(r.Data, old.Data) {
		errs = append(errs, check.Immutable(r.Data, old.Data, field.NewPath("data"))...)
	}
	return errs
}

// validateState checks that a new revision's data is a JSON object.
func validateState(raw []byte, at *field.Path) field.ErrorList {
	if raw == nil {
		return field.ErrorList{field.Required(at, "data is mandatory")}
	}
	var state any
	if err := json.Unmarshal(raw, &state); err != nil {
		return field.ErrorList{field.Invalid(at, "<value omitted>", fmt.Sprintf("error parsing data: %v", err))}
	}
	if state == nil {
		return field.ErrorList{field.Required(at, "data is mandatory")}
	}
	if _, ok := state.(map[string]any); !ok {
		return field.ErrorList{field.Required(at, "data must be a valid JSON object")}
	}
	return nil
}
