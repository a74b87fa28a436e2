// Package node holds the row of the group node.k8s.io.
package node

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

// RuntimeClasses is the row of RuntimeClass.
var RuntimeClasses = objects.Def[*nodev1.RuntimeClass]{
	Names:         objects.Names{Group: nodev1.GroupName, Version: "v1", Kind: "RuntimeClass", Plural: "runtimeclasses", Cluster: true},
	ApplyPriority: 130,
	Versions:      oldRuntimeClasses,
	New:           func() *nodev1.RuntimeClass { return &nodev1.RuntimeClass{} },
	NewList:       func() runtime.Object { return &nodev1.RuntimeClassList{} },
	Validate:      validate,
	NeedsVersion:  true,
	Warnings:      warnings,
	Columns: []objects.Column[*nodev1.RuntimeClass]{
		objects.NameColumn[*nodev1.RuntimeClass](),
		{Name: "Handler", Cell: func(c *nodev1.RuntimeClass, _ time.Time) any { return c.Handler }},
		objects.AgeColumn[*nodev1.RuntimeClass](),
	},
	CreateOnUpdate: true,
}

func validate(c, old *nodev1.RuntimeClass) field.ErrorList {
	handler := field.NewPath("handler")
	errs := check.OpenMeta(c, false, validation.NameIsDNSSubdomain)
	if c.Handler == "" {
		errs = append(errs, field.Required(handler, ""))
	} else {
		errs = append(errs, check.Label(c.Handler, handler)...)
	}
	if c.Overhead != nil {
		limits := field.NewPath("overhead", "limits")
		for _, name := range slices.Sorted(maps.Keys(c.Overhead.PodFixed)) {
			key := limits.Key(string(name))
			errs = append(errs, podspec.ContainerResource(name, key)...)
			errs = append(errs, podspec.ResourceQuantity(name, c.Overhead.PodFixed[name], key)...)
		}
	}
	if s := c.Scheduling; s != nil {
		errs = append(errs, check.Labels(s.NodeSelector, field.NewPath("scheduling"), "nodeSelector")...)
		errs = append(errs, tolerations(s.Tolerations, field.NewPath("scheduling", "tolerations"))...)
	}
	if old != nil {
		errs = append(append(errs, check.OpenMetaUpdate(c, old)...), check.Immutable(c.Handler, old.Handler, handler)...)
	}
	return errs
}

func tolerations(list []corev1.Toleration, at *field.Path) field.ErrorList {
	errs := podspec.Tolerations(list, at)
	var seen check.Seen[corev1.Toleration] // with TolerationSeconds ignored
	for i, t := range list {
		t.TolerationSeconds = nil
		if seen.Again(t) {
			errs = append(errs, field.Duplicate(at.Index(i), check.Shown(list[i])))
		}
	}
	return errs
}

func warnings(c, _ *nodev1.RuntimeClass) []string {
	if c.Scheduling == nil {
		return nil
	}
	var out []string
	for _, key := range slices.Sorted(maps.Keys(c.Scheduling.NodeSelector)) {
		if message, ok := podspec.OldLabel(key); ok {
			out = append(out, "scheduling.nodeSelector: "+message)
		}
	}
	return out
}
