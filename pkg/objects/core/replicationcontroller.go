package core

import (
	"maps"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

// ReplicationControllers is the row of ReplicationController, the predecessor of ReplicaSet.
var ReplicationControllers = objects.Def[*corev1.ReplicationController]{
	Names: objects.Names{Version: "v1", Kind: "ReplicationController", Plural: "replicationcontrollers",
		Short: []string{"rc"}, Categories: []string{"all"}},
	New:        func() *corev1.ReplicationController { return &corev1.ReplicationController{} },
	Controller: "replication-controller",
	NewList:    func() runtime.Object { return &corev1.ReplicationControllerList{} },
	Default:    defaultController,
	Prepare:    prepareController,
	Validate:   validateController,
	Warnings:   controllerWarnings,
	Columns:    controllerColumns,
	Selectable: map[string]func(*corev1.ReplicationController) string{
		"status.replicas": func(rc *corev1.ReplicationController) string { return strconv.Itoa(int(rc.Status.Replicas)) },
	},
	Reset: []string{"status"},
	Status: &objects.Status[*corev1.ReplicationController]{
		Prepare:  func(rc, old *corev1.ReplicationController) { rc.Spec = old.Spec },
		Validate: validateControllerStatus,
		Reset:    []string{"spec"},
	},
	Scale: &objects.Scale[*corev1.ReplicationController]{
		Spec:     wantedReplicas,
		SetSpec:  func(rc *corev1.ReplicationController, n int32) { rc.Spec.Replicas = &n },
		Status:   func(rc *corev1.ReplicationController) int32 { return rc.Status.Replicas },
		Selector: func(rc *corev1.ReplicationController) string { return labels.Set(rc.Spec.Selector).String() },
	},
	OrphanDefault: true,
}

func wantedReplicas(rc *corev1.ReplicationController) int32 {
	if rc.Spec.Replicas == nil {
		return 0
	}
	return *rc.Spec.Replicas
}

// controllerTemplate returns the template, or an empty one if it is nil.
func controllerTemplate(rc *corev1.ReplicationController) *corev1.PodTemplateSpec {
	if rc.Spec.Template == nil {
		return &corev1.PodTemplateSpec{}
	}
	return rc.Spec.Template
}

func defaultController(rc *corev1.ReplicationController) {
	if t := rc.Spec.Template; t != nil {
		if len(t.Labels) > 0 && len(rc.Spec.Selector) == 0 {
			rc.Spec.Selector = maps.Clone(t.Labels)
		}
		if len(t.Labels) > 0 && len(rc.Labels) == 0 {
			rc.Labels = maps.Clone(t.Labels)
		}
		podspec.DefaultTemplate(t)
	}
	if rc.Spec.Replicas == nil {
		rc.Spec.Replicas = new(int32(1))
	}
}

func prepareController(rc, old *corev1.ReplicationController) {
	if rc.Spec.Template != nil {
		podspec.PrepareTemplate(rc.Spec.Template)
	}
	if old == nil {
		rc.Status = corev1.ReplicationControllerStatus{}
		rc.Generation = 1
		return
	}
	rc.Status = old.Status
	check.Generation(rc, old, func() bool { return !check.Same(&rc.Spec, &old.Spec) })
}

func validateController(rc, old *corev1.ReplicationController) field.ErrorList {
	if old == nil {
		return append(check.Meta(rc, true, controllerName), validateControllerSpec(&rc.Spec, nil, check.Spec)...)
	}
	return append(check.MetaUpdate(rc, old), validateControllerSpec(&rc.Spec, old.Spec.Template, check.Spec)...)
}

// controllerName checks a name by the rules that the type declares. It does not check
// prefixes.
func controllerName(name string, prefix bool) []string {
	if prefix {
		return nil
	}
	return content.IsDNS1123Subdomain(name)
}

func validateControllerSpec(s *corev1.ReplicationControllerSpec, old *corev1.PodTemplateSpec, at *field.Path) field.ErrorList {
	errs := check.NonNegative(s.MinReadySeconds, at, "minReadySeconds")
	if len(s.Selector) == 0 {
		errs = append(errs, field.Required(at.Child("selector"), ""))
	}
	if s.Replicas == nil {
		errs = append(errs, field.Required(at.Child("replicas"), ""))
	} else {
		errs = append(errs, check.NonNegative(*s.Replicas, at, "replicas")...)
	}
	if s.Template == nil {
		return append(errs, field.Required(at.Child("template"), ""))
	}
	spec := at.Child("template", "spec")
	if len(s.Selector) > 0 && !labels.SelectorFromSet(s.Selector).Matches(labels.Set(s.Template.Labels)) {
		errs = append(errs, field.Invalid(at.Child("template", "metadata", "labels"), s.Template.Labels, "`selector` does not match template `labels`"))
	}
	errs = append(errs, podspec.ValidateTemplate(s.Template, old, at.Child("template"))...)
	if s.Template.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(spec.Child("restartPolicy"), s.Template.Spec.RestartPolicy, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if s.Template.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(spec.Child("activeDeadlineSeconds"), "activeDeadlineSeconds in ReplicationController is not Supported"))
	}
	return errs
}

func validateControllerStatus(rc, old *corev1.ReplicationController) field.ErrorList {
	const more = "cannot be greater than status.replicas"
	s, at := &rc.Status, field.NewPath("status")
	errs := check.MetaUpdate(rc, old)
	errs = append(errs, check.NonNegative(s.Replicas, at, "replicas")...)
	errs = append(errs, check.NonNegative(s.FullyLabeledReplicas, at, "fullyLabeledReplicas")...)
	errs = append(errs, check.NonNegative(s.ReadyReplicas, at, "readyReplicas")...)
	errs = append(errs, check.NonNegative(s.AvailableReplicas, at, "availableReplicas")...)
	errs = append(errs, check.NonNegative(s.ObservedGeneration, at, "observedGeneration")...)
	for _, part := range []struct {
		name  string
		count int32
	}{{"fullyLabeledReplicas", s.FullyLabeledReplicas}, {"readyReplicas", s.ReadyReplicas}, {"availableReplicas", s.AvailableReplicas}} {
		if part.count > s.Replicas {
			errs = append(errs, field.Invalid(at.Child(part.name), part.count, more))
		}
	}
	if s.AvailableReplicas > s.ReadyReplicas {
		errs = append(errs, field.Invalid(at.Child("availableReplicas"), s.AvailableReplicas, "cannot be greater than readyReplicas"))
	}
	return errs
}

// controllerWarnings warns in updates about the old template, as Kubernetes does.
func controllerWarnings(rc, old *corev1.ReplicationController) []string {
	if old != nil && rc.Generation == old.Generation {
		return nil
	}
	var out []string
	t := controllerTemplate(rc)
	if old == nil {
		out = podspec.NameWarnings(rc.Name)
	} else {
		t = controllerTemplate(old)
	}
	return append(out, podspec.Warnings(&t.Spec, t.Annotations, field.NewPath("spec", "template"))...)
}

var (
	controllerSpecDoc   = corev1.ReplicationControllerSpec{}.SwaggerDoc()
	controllerStatusDoc = corev1.ReplicationControllerStatus{}.SwaggerDoc()
)

var controllerColumns = []objects.Column[*corev1.ReplicationController]{
	objects.NameColumn[*corev1.ReplicationController](),
	{Name: "Desired", Type: "integer", Description: controllerSpecDoc["replicas"],
		Cell: func(rc *corev1.ReplicationController, _ time.Time) any { return int64(wantedReplicas(rc)) }},
	{Name: "Current", Type: "integer", Description: controllerStatusDoc["replicas"],
		Cell: func(rc *corev1.ReplicationController, _ time.Time) any { return int64(rc.Status.Replicas) }},
	{Name: "Ready", Type: "integer", Description: controllerStatusDoc["readyReplicas"],
		Cell: func(rc *corev1.ReplicationController, _ time.Time) any { return int64(rc.Status.ReadyReplicas) }},
	objects.AgeColumn[*corev1.ReplicationController](),
	{Name: "Containers", Wide: true, Description: "Names of each container in the template.",
		Cell: func(rc *corev1.ReplicationController, _ time.Time) any {
			return podspec.ContainerNames(&controllerTemplate(rc).Spec)
		}},
	{Name: "Images", Wide: true, Description: "Images referenced by each container in the template.",
		Cell: func(rc *corev1.ReplicationController, _ time.Time) any {
			return podspec.Images(&controllerTemplate(rc).Spec)
		}},
	{Name: "Selector", Wide: true, Description: controllerSpecDoc["selector"],
		Cell: func(rc *corev1.ReplicationController, _ time.Time) any { return labels.FormatLabels(rc.Spec.Selector) }},
}
