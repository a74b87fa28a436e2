// Package core holds the rows of the core group: pods, services and the objects that they use.
package core

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
)

// Namespaces is the row of Namespace.
var Namespaces = objects.Def[*corev1.Namespace]{
	Names:          objects.Names{Version: "v1", Kind: "Namespace", Plural: "namespaces", Short: []string{"ns"}, Cluster: true},
	ApplyPriority:  180,
	New:            func() *corev1.Namespace { return &corev1.Namespace{} },
	ReturnsDeleted: true,
	NewList:        func() runtime.Object { return &corev1.NamespaceList{} },
	ValidName:      validation.ValidateNamespaceName,
	Default:        defaultNamespace,
	Prepare:        prepareNamespace,
	Validate:       validateNamespace,
	Columns: []objects.Column[*corev1.Namespace]{
		objects.NameColumn[*corev1.Namespace](),
		{Name: "Status", Description: "The status of the namespace",
			Cell: func(ns *corev1.Namespace, _ time.Time) any { return string(ns.Status.Phase) }},
		objects.AgeColumn[*corev1.Namespace](),
	},
	Selectable: map[string]func(*corev1.Namespace) string{
		"status.phase": func(ns *corev1.Namespace) string { return string(ns.Status.Phase) },
	},
	Reset: []string{"status"},
	Status: &objects.Status[*corev1.Namespace]{
		Prepare:  func(ns, old *corev1.Namespace) { ns.Spec = old.Spec },
		Validate: validateNamespaceStatus,
		Reset:    []string{"spec"},
	},
	Parts: map[string]objects.Status[*corev1.Namespace]{
		"finalize": {
			Prepare:  func(ns, old *corev1.Namespace) { ns.Status = old.Status },
			Validate: validateFinalize,
			Reset:    []string{"status"},
		},
	},
	Connects: []string{"finalize"},
	Verbs:    []string{"create", "delete", "get", "list", "patch", "update", "watch"},
}

func defaultNamespace(ns *corev1.Namespace) {
	if ns.Name != "" {
		nameLabel(ns)
	}
	if ns.Status.Phase == "" {
		ns.Status.Phase = corev1.NamespaceActive
	}
}

// nameLabel sets the label with the namespace's name. It copies the map before a change, since the map may be shared with
// the old object.
func nameLabel(ns *corev1.Namespace) {
	if ns.Labels[corev1.LabelMetadataName] == ns.Name {
		return
	}
	labels := maps.Clone(ns.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[corev1.LabelMetadataName] = ns.Name
	ns.Labels = labels
}

func prepareNamespace(ns, old *corev1.Namespace) {
	if check.LabelValue(ns.Name, nil) == nil { // an invalid generated name is reported for metadata.name
		nameLabel(ns)
	}
	if old != nil {
		ns.Spec.Finalizers = old.Spec.Finalizers
		ns.Status = old.Status
		return
	}
	ns.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
	if !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
		ns.Spec.Finalizers = append(slices.Clone(ns.Spec.Finalizers), corev1.FinalizerKubernetes)
	}
}

func validateNamespace(ns, old *corev1.Namespace) field.ErrorList {
	errs := check.Meta(ns, false, validation.ValidateNamespaceName)
	for i := range ns.Spec.Finalizers {
		errs = append(errs, check.Finalizer(string(ns.Spec.Finalizers[i]), field.NewPath("spec", "finalizers"))...)
	}
	if old != nil {
		errs = append(errs, check.MetaUpdate(ns, old)...)
	}
	return errs
}

// validateFinalize checks a write of spec.finalizers.
func validateFinalize(ns, old *corev1.Namespace) field.ErrorList {
	errs := check.MetaUpdate(ns, old)
	for i := range ns.Spec.Finalizers {
		errs = append(errs, check.Finalizer(string(ns.Spec.Finalizers[i]), field.NewPath("spec", "finalizers").Index(i))...)
	}
	return errs
}

func validateNamespaceStatus(ns, old *corev1.Namespace) field.ErrorList {
	errs := check.MetaUpdate(ns, old)
	at := field.NewPath("status", "Phase")
	deleting := !ns.DeletionTimestamp.IsZero()
	if !deleting && ns.Status.Phase != corev1.NamespaceActive {
		errs = append(errs, field.Invalid(at, ns.Status.Phase, "may only be 'Active' if `deletionTimestamp` is empty"))
	}
	if deleting && ns.Status.Phase != corev1.NamespaceTerminating {
		errs = append(errs, field.Invalid(at, ns.Status.Phase, "may only be 'Terminating' if `deletionTimestamp` is not empty"))
	}
	return errs
}
