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

// scales describes what every subresource scale takes. Writes through one are tracked on the Scale, not on the object
// that it scales.
var scales = objects.Row(objects.Def[*autoscalingv1.Scale]{
	Names:   objects.Names{Group: "autoscaling", Version: "v1", Kind: "Scale", Plural: "scales"},
	New:     func() *autoscalingv1.Scale { return new(autoscalingv1.Scale) },
	NewList: func() runtime.Object { return new(autoscalingv1.Scale) },
})

// scale is the subresource's name.
const scale = "scale"

// Scaled is the view of an object's managedFields that its Scale has, and the way back.
type Scaled struct{ handler *managedfields.ScaleHandler }

// ScaleOf returns the view for a write through the subresource scale of old.
func ScaleOf(w Write, old objects.Object) Scaled {
	paths := managedfields.ResourcePathMappings{}
	for i := range w.Resource.Versions {
		v := &w.Resource.Versions[i]
		paths[schema.GroupVersion{Group: v.Group, Version: v.Version}.String()] = replicasPath(w.Resource, v)
	}
	served := w.served()
	gv := schema.GroupVersion{Group: served.Group, Version: served.Version}
	return Scaled{managedfields.NewScaleHandler(old.GetManagedFields(), gv, paths)}
}

// replicasPath is where a version keeps what the scale sets; nil: it has no such place.
func replicasPath(r *objects.Resource, v *objects.Served) fieldpath.Path {
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

// Entries are the managedFields of the Scale.
func (s Scaled) Entries() ([]metav1.ManagedFieldsEntry, error) { return s.handler.ToSubresource() }

// Back returns the object's managedFields when its Scale has these.
func (s Scaled) Back(entries []metav1.ManagedFieldsEntry) ([]metav1.ManagedFieldsEntry, error) {
	return s.handler.ToParent(entries)
}
