package core

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
)

// ConfigMaps is the row of ConfigMap.
var ConfigMaps = objects.Def[*corev1.ConfigMap]{
	Names:         objects.Names{Version: "v1", Kind: "ConfigMap", Plural: "configmaps", Short: []string{"cm"}},
	ApplyPriority: 50,
	New:           func() *corev1.ConfigMap { return &corev1.ConfigMap{} },
	NewList:       func() runtime.Object { return &corev1.ConfigMapList{} },
	Default:       defaultConfigMap,
	Validate:      validateConfigMap,
	Columns: []objects.Column[*corev1.ConfigMap]{
		objects.NameColumn[*corev1.ConfigMap](),
		{Name: "Data", Description: corev1.ConfigMap{}.SwaggerDoc()["data"],
			Cell: func(cm *corev1.ConfigMap, _ time.Time) any { return int64(len(cm.Data) + len(cm.BinaryData)) }},
		objects.AgeColumn[*corev1.ConfigMap](),
	},
}

func defaultConfigMap(cm *corev1.ConfigMap) {
	if cm.Data == nil {
		cm.Data = map[string]string{}
	}
}

func validateConfigMap(cm, old *corev1.ConfigMap) field.ErrorList {
	whole := append(check.Meta(cm, true, apivalidation.NameIsDNSSubdomain), validateConfigMapData(cm)...)
	if old == nil {
		return whole
	}
	errs := check.MetaUpdate(cm, old)
	if old.Immutable != nil && *old.Immutable {
		if cm.Immutable == nil || !*cm.Immutable {
			errs = append(errs, field.Forbidden(field.NewPath("immutable"), "field is immutable when `immutable` is set"))
		}
		if !maps.Equal(cm.Data, old.Data) {
			errs = append(errs, field.Forbidden(field.NewPath("data"), "field is immutable when `immutable` is set"))
		}
		if !sameBytes(cm.BinaryData, old.BinaryData) {
			errs = append(errs, field.Forbidden(field.NewPath("binaryData"), "field is immutable when `immutable` is set"))
		}
	}
	return append(errs, whole...)
}

func validateConfigMapData(cm *corev1.ConfigMap) field.ErrorList {
	var errs field.ErrorList
	total := 0
	data, binary := field.NewPath("data"), field.NewPath("binaryData")
	for key, value := range cm.Data {
		if check.ConfigKey(key, nil) != nil {
			errs = append(errs, check.ConfigKey(key, data.Key(key))...)
		}
		if _, ok := cm.BinaryData[key]; ok {
			errs = append(errs, field.Invalid(data.Key(key), key, "duplicate of key present in binaryData"))
		}
		total += len(value)
	}
	for key, value := range cm.BinaryData {
		if check.ConfigKey(key, nil) != nil {
			errs = append(errs, check.ConfigKey(key, binary.Key(key))...)
		}
		total += len(value)
	}
	if total > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(field.NewPath(""), "", corev1.MaxSecretSize))
	}
	return errs
}
