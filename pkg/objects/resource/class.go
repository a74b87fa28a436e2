package resource

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

// DeviceClasses is the row of DeviceClass.
var DeviceClasses = objects.Def[*resourcev1.DeviceClass]{
	Names:          objects.Names{Group: group, Version: version, Kind: "DeviceClass", Plural: "deviceclasses", Cluster: true},
	New:            func() *resourcev1.DeviceClass { return &resourcev1.DeviceClass{} },
	ReturnsDeleted: true,
	NewList:        func() runtime.Object { return &resourcev1.DeviceClassList{} },
	ValidName:      validClassName,
	Prepare: func(c, old *resourcev1.DeviceClass) {
		if old == nil {
			c.Generation = 1
			return
		}
		check.Generation(c, old, func() bool { return !check.Same(&c.Spec, &old.Spec) })
	},
	Validate: validateClass,
}

// validClassName ignores prefixes: it checks complete, also generated, names.
func validClassName(name string, prefix bool) []string {
	if prefix {
		return nil
	}
	return content.IsDNS1123Subdomain(name)
}

func validateClass(c, old *resourcev1.DeviceClass) field.ErrorList {
	errs := check.Meta(c, false, validClassName)
	storedSelectors, storedConfig := false, false
	if old != nil {
		errs = append(errs, check.MetaUpdate(c, old)...)
		storedSelectors = equality.Semantic.DeepEqual(c.Spec.Selectors, old.Spec.Selectors)
		storedConfig = equality.Semantic.DeepEqual(c.Spec.Config, old.Spec.Config)
	}
	errs = append(errs, selectors(c.Spec.Selectors, storedSelectors, check.Spec.Child("selectors"))...)
	errs = append(errs, items(c.Spec.Config, resourcev1.DeviceConfigMaxSize, check.Spec.Child("config"),
		func(config *resourcev1.DeviceClassConfiguration, at *field.Path) field.ErrorList {
			return configuration(&config.DeviceConfiguration, storedConfig, at)
		})...)
	if name := c.Spec.ExtendedResourceName; name != nil && !podspec.IsExtended(corev1.ResourceName(*name)) {
		errs = append(errs, field.Invalid(check.Spec.Child("extendedResourceName"), *name, "must be a valid extended resource name"))
	}
	return errs
}
