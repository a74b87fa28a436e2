// Package custom makes rows of the objects table out of CustomResourceDefinitions. The objects of such a row are
// unstructured: what their fields are is said by the definition's schemas, one for each version, and not by a Go type.
//
// A row is made whenever a definition comes or changes, for many that nobody will ever use, so making one only looks at
// names; what needs a version's schema (pruning, defaults, validation, CEL programs, merging, OpenAPI) is made when it is
// needed first, once. Schemas are Kubernetes' own library's to interpret (apiextensions-apiserver), which also words what
// is wrong with an object; this package decides when what is asked of it, and in which version.
package custom

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Converter converts objects between versions of a kind whose definition says that a webhook does.
type Converter interface {
	// Convert returns objs in the version to, in their order. It changes none of objs; what it returns is the caller's.
	// It is safe for concurrent use, and bounds its time itself.
	Convert(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, objs []*unstructured.Unstructured, to schema.GroupVersion) ([]*unstructured.Unstructured, error)
}

// kind is what a definition describes.
type kind struct {
	crd      *apiextensionsv1.CustomResourceDefinition // shared: never changed
	names    apiextensionsv1.CustomResourceDefinitionNames
	webhook  Converter
	versions map[string]*version // all, also those that are not served
	stored   *version
}

// Row returns the row of what crd describes, under the names that were accepted, the stored version first. Those that are not
// served are in it too: managedFields may be of them. crd must not be changed after. webhook converts where crd says that a
// webhook does.
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
		NeedsVersion: true, Undecoded: true,
		Verbs:    []string{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"},
		Revision: fmt.Sprintf("%s/%d/%v", crd.UID, crd.Generation, k.names),
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

// addSubresources adds those that a version has that anybody can see, or the stored one.
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
