package codec

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/objects"
)

// partialKind returns the kind PartialObjectMetadata in a version of its group.
func partialKind(version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: metav1.GroupName, Version: version, Kind: "PartialObjectMetadata"}
}

// Partial returns the metadata of it as an encoded PartialObjectMetadata of a version, in JSON or Protobuf, with apiVersion and
// kind and without a newline. The bytes are shared.
func Partial(it *cache.Item, version string, f Format) ([]byte, error) {
	encode := func(obj objects.Object) ([]byte, error) { return Marshal(partialOf(obj), partialKind(version), f) }
	if version != metav1.SchemeGroupVersion.Version { // older versions are rare and not kept
		obj, err := it.Object()
		if err != nil {
			return nil, err
		}
		return encode(obj)
	}
	kept := cache.Metadata
	if f == Protobuf {
		kept = cache.MetadataProtobuf
	}
	return it.Encoded(kept, encode)
}

// PartialList returns the list of the items' metadata, which shares the bytes of Partial.
func PartialList(items []*cache.Item, meta metav1.ListMeta, version string, f Format) (Pieces, error) {
	encode := func(it *cache.Item) ([]byte, error) { return Partial(it, version, f) }
	if f == Protobuf {
		return protobufList(partialKind(version), meta, items, encode)
	}
	m, err := json.Marshal(meta)
	if err != nil {
		return nil, fmt.Errorf("encode list metadata: %w", err)
	}
	return jsonList(partialKind(version), m, items, encode, nil), nil
}

// partialOf returns the metadata of obj.
func partialOf(obj metav1.Object) *metav1.PartialObjectMetadata {
	if om, ok := obj.(metav1.ObjectMetaAccessor); ok {
		if meta, ok := om.GetObjectMeta().(*metav1.ObjectMeta); ok {
			return &metav1.PartialObjectMetadata{ObjectMeta: *meta}
		}
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(),
		Generation: obj.GetGeneration(), CreationTimestamp: obj.GetCreationTimestamp(), Labels: obj.GetLabels(),
		DeletionTimestamp: obj.GetDeletionTimestamp(), DeletionGracePeriodSeconds: obj.GetDeletionGracePeriodSeconds(),
		Annotations: obj.GetAnnotations(), OwnerReferences: obj.GetOwnerReferences(), Finalizers: obj.GetFinalizers(),
		ManagedFields: obj.GetManagedFields(), GenerateName: obj.GetGenerateName(),
	}}
}
