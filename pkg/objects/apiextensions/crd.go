// Package apiextensions has the row of the resource that describes other resources. What a definition may say is checked by
// Kubernetes' own library, which knows definitions in a form of its own; nothing of it is touched before the first one comes.
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

// CustomResourceDefinitions is the row of CustomResourceDefinition. The conditions, and with them whether the resource is
// served, are for the API server to set.
var CustomResourceDefinitions = objects.Def[*apiextensionsv1.CustomResourceDefinition]{
	Names: objects.Names{
		Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Plural: "customresourcedefinitions",
		Short: []string{"crd", "crds"}, Categories: []string{"api-extensions"}, Cluster: true, Hashed: "v1beta1",
	},
	Versions: oldDefinitions,
	New:      func() *apiextensionsv1.CustomResourceDefinition { return &apiextensionsv1.CustomResourceDefinition{} },
	NewList:  func() runtime.Object { return &apiextensionsv1.CustomResourceDefinitionList{} },
	Default:  setDefaults,
	Prepare:  prepare,
	Validate: validate,
	Warnings: warnings,
	Deleting: terminate,
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

// setDefaults fills in what was left out, and brings the values in schemas (defaults, enums, examples) into the form that
// they have after Kubernetes has decoded them.
func setDefaults(crd *apiextensionsv1.CustomResourceDefinition) {
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(crd)
	normalized, err := internal(crd)
	if err != nil {
		return // the validation says so
	}
	var spec apiextensionsv1.CustomResourceDefinitionSpec
	if apiextensionsv1.Convert_apiextensions_CustomResourceDefinitionSpec_To_v1_CustomResourceDefinitionSpec(&normalized.Spec, &spec, nil) == nil {
		crd.Spec = spec
	}
}

// prepare resets what clients may not set. Versions in which objects were ever stored are kept until somebody says, in the
// status, that there are none of them anymore.
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

// terminate begins a deletion, which ends when the API server has deleted the custom resources.
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

// internal returns a definition in the form that the library checks. It shares what it can with crd and must not be changed.
func internal(crd *apiextensionsv1.CustomResourceDefinition) (*apiextensions.CustomResourceDefinition, error) {
	out := &apiextensions.CustomResourceDefinition{}
	err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, out, nil)
	return out, err
}
