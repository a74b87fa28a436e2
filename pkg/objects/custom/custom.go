// Package custom makes rows of the resource table from CustomResourceDefinitions. The objects of such a row are
// unstructured. Their fields are described by the definition's schemas, one for each version.
//
// A row is made for every new or changed definition, also for those that are never used, so making one reads only
// names. What needs a version's schema (pruning, defaults, validation, CEL programs, merging, OpenAPI) is built on first
// use. The library apiextensions-apiserver interprets the schemas and returns the errors. This package decides when to call it,
// and in which version.
package custom

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Converter converts objects between versions of a kind whose definition names a conversion webhook.
type Converter interface {
	// Convert returns objs in the version to, in their order. It does not change objs; the caller owns the result.
	// It is safe for concurrent use, and has its own timeout.
	Convert(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, objs []*unstructured.Unstructured, to schema.GroupVersion) ([]*unstructured.Unstructured, error)
}

// kind is the kind that a definition describes.
type kind struct {
	crd      *apiextensionsv1.CustomResourceDefinition // shared: never changed
	names    apiextensionsv1.CustomResourceDefinitionNames
	webhook  Converter
	versions map[string]*version // including those that are not served
	stored   *version
}

// Row returns the row of a definition, with its accepted names and the storage version first. It includes versions that are not
// served, since managedFields may refer to them. crd must not be changed afterwards. webhook converts objects if crd names a
// conversion webhook.
func Row(crd *apiextensionsv1.CustomResourceDefinition, webhook Converter) (objects.Resource, error) {
	k := &kind{crd: crd, names: crd.Status.AcceptedNames, webhook: webhook, versions: map[string]*version{}}
	if n := k.names; n.Plural == "" || n.Singular == "" || n.Kind == "" || n.ListKind == "" {
		return objects.Resource{}, fmt.Errorf("the names of %s are not accepted", crd.Name)
	}
	for i := range crd.Spec.Versions {
		v := newVersion(k, &crd.Spec.Versions[i])
		k.versions[v.spec.Name] = v
		if v.spec.Storage {
			k.stored = v
		}
	}
	if k.stored == nil {
		return objects.Resource{}, fmt.Errorf("%s has no version that is stored", crd.Name)
	}
	r := objects.Resource{
		Names: objects.Names{
			Group: crd.Spec.Group, Version: k.stored.spec.Name, Kind: k.names.Kind, Plural: k.names.Plural, Singular: k.names.Singular,
			Short: k.names.ShortNames, Categories: k.names.Categories, Cluster: crd.Spec.Scope == apiextensionsv1.ClusterScoped,
		},
		New: func() objects.Object { return k.stored.new() }, NewList: k.stored.newList,
		ValidName: validation.NameIsDNSSubdomain,
		Default:   func(obj objects.Object) { k.stored.setDefaults(obj) },
		Prepare:   k.prepare, Validate: k.validateMeta, Warnings: warnings,
		Grace:        func(objects.Object, *int64) int64 { return -1 },
		Read:         k.read,
		Selectable:   k.stored.selectable(),
		Unselectable: "field label not supported: %s",
		NeedsVersion: true, Undecoded: true, DefaultsUnowned: true, Versionless: true,
		Complete:   func(obj objects.Object) { k.stored.setDefaults(obj) }, // sets the defaults of a status that a write has added
		PatchTypes: []types.PatchType{types.JSONPatchType, types.MergePatchType, types.ApplyYAMLPatchType},
		Verbs:      []string{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"},
		Revision:   fmt.Sprintf("%s/%d/%v", crd.UID, crd.Generation, k.names),
	}
	k.addSubresources(&r)
	r.Versions = append(r.Versions, k.stored.serve())
	for i := range crd.Spec.Versions {
		if v := k.versions[crd.Spec.Versions[i].Name]; v != k.stored {
			r.Versions = append(r.Versions, v.serve())
		}
	}
	return r, nil
}

// addSubresources adds the subresources of served versions and of the storage version.
func (k *kind) addSubresources(r *objects.Resource) {
	if k.hasStatus() {
		r.Reset = []string{"status"}
		r.Status = &objects.StatusOf{Prepare: prepareStatus, Validate: k.validateMeta, Reset: []string{"metadata", "spec"}}
	}
	r.Scale = k.scale()
}

func (k *kind) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: k.crd.Spec.Group, Kind: k.names.Kind}
}

// content returns an object's fields.
func content(obj runtime.Object) map[string]any { return obj.(*unstructured.Unstructured).Object }
