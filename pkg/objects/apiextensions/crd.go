// Package apiextensions holds the row of CustomResourceDefinition. Definitions are validated by
// Kubernetes' library, which takes its internal type. The library is initialised with the first definition.
package apiextensions

import (
	"slices"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
)

// CustomResourceDefinitions is the row of CustomResourceDefinition. The API server sets its conditions, and serves the resource
// accordingly.
var CustomResourceDefinitions = objects.Def[*apiextensionsv1.CustomResourceDefinition]{
	Names: objects.Names{
		Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Plural: "customresourcedefinitions",
		Short: []string{"crd", "crds"}, Categories: []string{"api-extensions"}, Cluster: true, Hashed: "v1beta1",
	},
	ApplyPriority: 170,
	Versions:      oldDefinitions,
	New:           func() *apiextensionsv1.CustomResourceDefinition { return &apiextensionsv1.CustomResourceDefinition{} },
	NewList:       func() runtime.Object { return &apiextensionsv1.CustomResourceDefinitionList{} },
	Default:       setDefaults,
	Prepare:       prepare,
	Validate:      validate,
	Warnings:      warnings,
	Deleting:      terminate,
	Columns: []objects.Column[*apiextensionsv1.CustomResourceDefinition]{
		objects.NameColumn[*apiextensionsv1.CustomResourceDefinition](),
		{Name: "Created At", Type: "date", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"],
			Cell: func(crd *apiextensionsv1.CustomResourceDefinition, _ time.Time) any {
				return crd.CreationTimestamp.UTC().Format(time.RFC3339)
			}},
	},
	Reset: []string{"status"},
	Status: &objects.Status[*apiextensionsv1.CustomResourceDefinition]{
		Prepare:  func(crd, old *apiextensionsv1.CustomResourceDefinition) { crd.Spec = old.Spec },
		Validate: validateStatus,
		Reset:    []string{"spec"},
	},
	NeedsVersion: true,
}

// setDefaults sets defaults, and converts the values in schemas (defaults, enums, examples) to the form that
// Kubernetes decodes them to.
func setDefaults(crd *apiextensionsv1.CustomResourceDefinition) {
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(crd)
	if !hasValues(crd) {
		return // validation reports too many
	}
	normalized, err := internal(crd)
	if err != nil {
		return // validation reports it
	}
	var spec apiextensionsv1.CustomResourceDefinitionSpec
	if apiextensionsv1.Convert_apiextensions_CustomResourceDefinitionSpec_To_v1_CustomResourceDefinitionSpec(&normalized.Spec, &spec, nil) == nil {
		crd.Spec = spec
	}
}

// prepare resets fields that clients may not set. A version stays in storedVersions until a client removes it there with a write of
// the status.
func prepare(crd, old *apiextensionsv1.CustomResourceDefinition) {
	if old == nil {
		crd.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
		crd.Generation = 1
	} else {
		crd.Status = *old.Status.DeepCopy()
		check.Generation(crd, old, func() bool { return !equality.Semantic.DeepEqual(&crd.Spec, &old.Spec) })
	}
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			if !slices.Contains(crd.Status.StoredVersions, v.Name) {
				crd.Status.StoredVersions = append(crd.Status.StoredVersions, v.Name)
			}
			return
		}
	}
}

// terminate starts the deletion, which ends once the API server has deleted the custom resources.
func terminate(crd *apiextensionsv1.CustomResourceDefinition, now time.Time) {
	at := metav1.NewTime(now)
	crd.DeletionTimestamp = &at
	if !slices.Contains(crd.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer) {
		crd.Finalizers = append(crd.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer)
	}
	terminating := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue, LastTransitionTime: at, Reason: "InstanceDeletionPending",
		Message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
	}
	conditions := crd.Status.Conditions
	i := slices.IndexFunc(conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool { return c.Type == terminating.Type })
	if i < 0 {
		crd.Status.Conditions = append(conditions, terminating)
		return
	}
	if conditions[i].Status == terminating.Status && !conditions[i].LastTransitionTime.IsZero() {
		terminating.LastTransitionTime = conditions[i].LastTransitionTime
	}
	terminating.ObservedGeneration = conditions[i].ObservedGeneration
	conditions[i] = terminating
}

// internal converts a definition to the library's type. The result shares memory with crd and must not be changed.
func internal(crd *apiextensionsv1.CustomResourceDefinition) (*apiextensions.CustomResourceDefinition, error) {
	out := &apiextensions.CustomResourceDefinition{}
	err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, out, nil)
	return out, err
}
