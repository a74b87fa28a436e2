// Package storage holds the rows of the group storage.k8s.io.
package storage

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

const (
	group   = "storage.k8s.io"
	version = "v1"
)

// StorageClasses is the row of StorageClass.
var StorageClasses = objects.Def[*storagev1.StorageClass]{
	Names:          objects.Names{Group: group, Version: version, Kind: "StorageClass", Plural: "storageclasses", Short: []string{"sc"}, Cluster: true},
	ApplyPriority:  150,
	Versions:       oldStorageClasses,
	New:            func() *storagev1.StorageClass { return &storagev1.StorageClass{} },
	ReturnsDeleted: true,
	NewList:        func() runtime.Object { return &storagev1.StorageClassList{} },
	Default:        defaultClass,
	Validate:       validateClass,
	Warnings:       classWarnings,
	Columns: []objects.Column[*storagev1.StorageClass]{
		{Name: "Name", Format: "name", Description: objects.NameColumn[*storagev1.StorageClass]().Description,
			Cell: func(c *storagev1.StorageClass, _ time.Time) any {
				if IsDefault(c) {
					return c.Name + " (default)"
				}
				return c.Name
			}},
		{Name: "Provisioner", Description: classDoc["provisioner"], Cell: func(c *storagev1.StorageClass, _ time.Time) any { return c.Provisioner }},
		{Name: "ReclaimPolicy", Description: classDoc["reclaimPolicy"], Cell: func(c *storagev1.StorageClass, _ time.Time) any {
			return string(or(c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete))
		}},
		{Name: "VolumeBindingMode", Description: classDoc["volumeBindingMode"], Cell: func(c *storagev1.StorageClass, _ time.Time) any {
			return string(or(c.VolumeBindingMode, storagev1.VolumeBindingImmediate))
		}},
		{Name: "AllowVolumeExpansion", Description: classDoc["allowVolumeExpansion"],
			Cell: func(c *storagev1.StorageClass, _ time.Time) any { return or(c.AllowVolumeExpansion, false) }},
		objects.AgeColumn[*storagev1.StorageClass](),
	},
}

var classDoc = storagev1.StorageClass{}.SwaggerDoc()

// IsDefault reports whether the class is the default class.
func IsDefault(c *storagev1.StorageClass) bool {
	return c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" || c.Annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true"
}

// Default returns the name of the newest class that is marked as the default, or "".
func Default(classes []*storagev1.StorageClass) string {
	marked := slices.DeleteFunc(slices.Clone(classes), func(c *storagev1.StorageClass) bool { return !IsDefault(c) })
	if len(marked) == 0 {
		return ""
	}
	return slices.MinFunc(marked, func(a, b *storagev1.StorageClass) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	}).Name
}

func or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

func defaultClass(c *storagev1.StorageClass) {
	if c.ReclaimPolicy == nil {
		c.ReclaimPolicy = new(corev1.PersistentVolumeReclaimDelete)
	}
	if c.VolumeBindingMode == nil {
		c.VolumeBindingMode = new(storagev1.VolumeBindingImmediate)
	}
}

var (
	reclaimPolicies = []corev1.PersistentVolumeReclaimPolicy{corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain}
	bindingModes    = []storagev1.VolumeBindingMode{storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer}
)

func validateClass(c, old *storagev1.StorageClass) field.ErrorList {
	errs := append(check.Meta(c, false, validation.NameIsDNSSubdomain), driver(c.Provisioner, field.NewPath("provisioner"))...)
	errs = append(errs, parameters(c.Parameters, field.NewPath("parameters"))...)
	if p := c.ReclaimPolicy; p != nil && *p != "" {
		errs = append(errs, check.OneOf(*p, reclaimPolicies, field.NewPath("reclaimPolicy"))...)
	}
	if mode := field.NewPath("volumeBindingMode"); c.VolumeBindingMode == nil {
		errs = append(errs, field.Required(mode, ""))
	} else {
		errs = append(errs, check.OneOf(*c.VolumeBindingMode, bindingModes, mode)...)
	}
	errs = append(errs, topologies(c.AllowedTopologies, field.NewPath("allowedTopologies"))...)
	if old == nil {
		return errs
	}
	errs = append(errs, check.MetaUpdate(c, old)...)
	errs = append(errs, check.Immutable(c.Parameters, old.Parameters, field.NewPath("parameters"))...)
	errs = append(errs, check.Immutable(c.Provisioner, old.Provisioner, field.NewPath("provisioner"))...)
	errs = append(errs, check.Immutable(c.ReclaimPolicy, old.ReclaimPolicy, field.NewPath("reclaimPolicy"))...)
	return append(errs, check.Immutable(c.VolumeBindingMode, old.VolumeBindingMode, field.NewPath("volumeBindingMode"))...)
}

// driver checks a provisioner's name.
func driver(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return check.Qualified(strings.ToLower(name), at)
}

// The limits of a class's parameters.
const (
	mostParameters    = 512
	largestParameters = 256 << 10
)

func parameters(params map[string]string, at *field.Path) field.ErrorList {
	if len(params) > mostParameters {
		return field.ErrorList{field.TooLong(at, "", mostParameters)}
	}
	var errs field.ErrorList
	size := 0
	for key, value := range params {
		if key == "" {
			errs = append(errs, field.Invalid(at, key, "field can not be empty."))
		}
		size += len(key) + len(value)
	}
	if size > largestParameters {
		errs = append(errs, field.TooLong(at, "", largestParameters))
	}
	return errs
}

func topologies(terms []corev1.TopologySelectorTerm, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]int{shownTerm(nil): len(terms)} // Kubernetes preallocates empty terms and compares with them, too
	for i := range terms {
		expressions := at.Index(i).Child("matchLabelExpressions")
		requirements := map[string][]string{}
		for j, r := range terms[i].MatchLabelExpressions {
			idx := expressions.Index(j)
			if len(r.Values) == 0 {
				errs = append(errs, field.Required(idx.Child("values"), ""))
			}
			var values check.Seen[string]
			for n, value := range r.Values {
				if values.Again(value) {
					errs = append(errs, field.Duplicate(idx.Child("values").Index(n), value))
				}
			}
			errs = append(errs, metav1validation.ValidateLabelName(r.Key, idx.Child("key"))...)
			if _, twice := requirements[r.Key]; twice {
				errs = append(errs, field.Duplicate(idx.Child("key"), r.Key))
			}
			requirements[r.Key] = slices.Compact(slices.Sorted(slices.Values(r.Values)))
		}
		term := shownTerm(requirements)
		for range min(seen[term], check.Enough) {
			errs = append(errs, field.Duplicate(expressions, ""))
		}
		seen[term]++
		if len(errs) > check.Enough {
			return errs
		}
	}
	return errs
}

// shownTerm returns equal strings for equal terms.
func shownTerm(requirements map[string][]string) string { return fmt.Sprintf("%q", requirements) }

func classWarnings(c, _ *storagev1.StorageClass) []string {
	var out []string
	for i, t := range c.AllowedTopologies {
		for j, r := range t.MatchLabelExpressions {
			if message, ok := podspec.OldLabel(r.Key); ok {
				at := field.NewPath("allowedTopologies").Index(i).Child("matchLabelExpressions").Index(j).Child("key")
				out = append(out, at.String()+": "+message)
			}
		}
	}
	return out
}

// VolumeAttributesClasses is the row of VolumeAttributesClass.
var VolumeAttributesClasses = objects.Def[*storagev1.VolumeAttributesClass]{
	Names: objects.Names{Group: group, Version: version, Kind: "VolumeAttributesClass", Plural: "volumeattributesclasses",
		Short: []string{"vac"}, Cluster: true},
	New:            func() *storagev1.VolumeAttributesClass { return &storagev1.VolumeAttributesClass{} },
	ReturnsDeleted: true,
	NewList:        func() runtime.Object { return &storagev1.VolumeAttributesClassList{} },
	Validate: func(c, old *storagev1.VolumeAttributesClass) field.ErrorList {
		var errs field.ErrorList
		params := field.NewPath("parameters")
		if old != nil {
			errs = check.MetaUpdate(c, old)
			if c.DriverName != old.DriverName {
				errs = append(errs, field.Forbidden(field.NewPath("driverName"), "updates to driverName are forbidden."))
			}
			if !maps.Equal(c.Parameters, old.Parameters) {
				errs = append(errs, field.Forbidden(params, "updates to parameters are forbidden."))
			}
		}
		errs = append(append(errs, check.Meta(c, false, validation.NameIsDNSSubdomain)...), driver(c.DriverName, field.NewPath("driverName"))...)
		errs = append(errs, parameters(c.Parameters, params)...)
		if len(c.Parameters) == 0 {
			errs = append(errs, field.Required(params, "must contain at least one key/value pair"))
		}
		return errs
	},
	Columns: []objects.Column[*storagev1.VolumeAttributesClass]{
		objects.NameColumn[*storagev1.VolumeAttributesClass](),
		{Name: "DriverName", Description: storagev1.VolumeAttributesClass{}.SwaggerDoc()["driverName"],
			Cell: func(c *storagev1.VolumeAttributesClass, _ time.Time) any { return c.DriverName }},
		objects.AgeColumn[*storagev1.VolumeAttributesClass](),
	},
}
