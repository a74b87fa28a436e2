package track

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/minikctl/minikctl/pkg/objects"
)

// scales is the kind of scale subresources. A write through one is tracked on the Scale, and then on the object.
var scales = objects.Row(objects.Def[*autoscalingv1.Scale]{
	Names:   objects.Names{Group: "autoscaling", Version: "v1", Kind: "Scale", Plural: "scales"},
	New:     func() *autoscalingv1.Scale { return new(autoscalingv1.Scale) },
	NewList: func() runtime.Object { return new(autoscalingv1.Scale) },
})

// scale is the name of the scale subresource.
const scale = "scale"

// Scaled converts between the managedFields of an object and those of its Scale.
type Scaled struct{ handler *managedfields.ScaleHandler }

// ScaleOf returns the conversion for a write through the scale of old.
func ScaleOf(w Write, old objects.Object) Scaled {
	paths := managedfields.ResourcePathMappings{}
	for i := range w.Resource.Versions {
		v := &w.Resource.Versions[i]
		paths[schema.GroupVersion{Group: v.Group, Version: v.Version}.String()] = replicasPath(w.Resource, v)
	}
	served := w.requestedVersion()
	gv := schema.GroupVersion{Group: served.Group, Version: served.Version}
	return Scaled{managedfields.NewScaleHandler(old.GetManagedFields(), gv, paths)}
}

// replicasPath returns the path of the replicas in a version; nil: the version has none.
func replicasPath(r *objects.Resource, v *objects.VersionOf) fieldpath.Path {
	if r.Scale == nil {
		return nil
	}
	names := []string{"spec", "replicas"}
	if r.Scale.Path != nil {
		names = r.Scale.Path(v.Version)
	}
	var path fieldpath.Path
	for _, name := range names {
		path = append(path, fieldpath.PathElement{FieldName: &name})
	}
	return path
}

// Entries returns the managedFields of the Scale.
func (s Scaled) Entries() ([]metav1.ManagedFieldsEntry, error) { return s.handler.ToSubresource() }

// Back returns the managedFields of the object for those of its Scale.
func (s Scaled) Back(entries []metav1.ManagedFieldsEntry) ([]metav1.ManagedFieldsEntry, error) {
	return s.handler.ToParent(entries)
}
