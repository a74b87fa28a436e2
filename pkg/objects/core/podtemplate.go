package core

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

// PodTemplates is the row of PodTemplate.
var PodTemplates = objects.Def[*corev1.PodTemplate]{
	Names:          objects.Names{Version: "v1", Kind: "PodTemplate", Plural: "podtemplates"},
	New:            func() *corev1.PodTemplate { return &corev1.PodTemplate{} },
	ReturnsDeleted: true,
	NewList:        func() runtime.Object { return &corev1.PodTemplateList{} },
	Default:        func(t *corev1.PodTemplate) { podspec.DefaultTemplate(&t.Template) },
	Prepare:        preparePodTemplate,
	Validate: func(t, old *corev1.PodTemplate) field.ErrorList {
		errs, template := check.Meta(t, true, apivalidation.NameIsDNSSubdomain), (*corev1.PodTemplateSpec)(nil)
		if old != nil {
			errs, template = check.MetaUpdate(t, old), &old.Template
		}
		return append(errs, podspec.ValidateTemplate(&t.Template, template, field.NewPath("template"))...)
	},
	Warnings: func(t, old *corev1.PodTemplate) []string {
		if old != nil && t.Generation == old.Generation {
			return nil
		}
		return podspec.Warnings(&t.Template.Spec, t.Template.Annotations, field.NewPath("template"))
	},
	Columns: []objects.Column[*corev1.PodTemplate]{
		objects.NameColumn[*corev1.PodTemplate](),
		{Name: "Containers", Description: "Names of each container in the template.",
			Cell: func(t *corev1.PodTemplate, _ time.Time) any { return podspec.ContainerNames(&t.Template.Spec) }},
		{Name: "Images", Description: "Images referenced by each container in the template.",
			Cell: func(t *corev1.PodTemplate, _ time.Time) any { return podspec.Images(&t.Template.Spec) }},
		{Name: "Pod Labels", Description: "The labels for the pod template.",
			Cell: func(t *corev1.PodTemplate, _ time.Time) any { return labels.FormatLabels(t.Template.Labels) }},
	},
}

func preparePodTemplate(t, old *corev1.PodTemplate) {
	podspec.PrepareTemplate(&t.Template)
	if old == nil {
		t.Generation = 1
		return
	}
	check.Generation(t, old, func() bool { return !check.Same(&t.Template, &old.Template) })
}
