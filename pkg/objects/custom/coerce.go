package custom

import (
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// coercion says how an object is made fit for its version.
type coercion struct {
	// unknown asks for the paths of the fields that are dropped.
	unknown bool
	// stored says that the object comes from the store: what is wrong with its metadata is dropped, not refused, and a
	// generation is given to what was stored before there were any.
	stored bool
}

// coerce drops from decoded JSON what the version does not know, and returns the paths of that.
func (v *version) coerce(obj runtime.Object) (unknown []string, err error) {
	return v.fit(obj.(*unstructured.Unstructured), coercion{unknown: true})
}

// fit does to an object what decoding into a Go type does by itself: metadata has its fields and types, what is unknown is
// dropped, and so is a null where none is allowed.
func (v *version) fit(u *unstructured.Unstructured, c coercion) (unknown []string, err error) {
	mine, err := v.isMine(u)
	if err != nil {
		return nil, err
	}
	metadata, fits := u.Object["metadata"].(map[string]any)
	if fits = fits && canonical(metadata); !fits {
		if metadata, unknown, err = fitMeta(u, c); err != nil {
			return nil, err
		}
	}
	if mine {
		more, err := v.fitSchema(u, c)
		if err != nil {
			return nil, err
		}
		unknown = append(unknown, more...)
	}
	if metadata == nil {
		return unknown, nil
	}
	if mine && c.stored && metadata["generation"] == nil {
		metadata["generation"] = int64(1)
	}
	u.Object["metadata"] = metadata
	return unknown, nil
}

// fitMeta returns what an ObjectMeta makes of an object's metadata, and the paths of what it does not know; nil where there is
// none.
func fitMeta(u *unstructured.Unstructured, c coercion) (metadata map[string]any, unknown []string, err error) {
	meta, found, unknown, err := objectmeta.GetObjectMetaWithOptions(u.Object, objectmeta.ObjectMetaOptions{
		DropMalformedFields: c.stored, ReturnUnknownFieldPaths: c.unknown,
	})
	if err != nil || !found {
		return nil, nil, err
	}
	metadata, err = runtime.DefaultUnstructuredConverter.ToUnstructured(meta)
	return metadata, unknown, err
}

// isMine reports whether an object is of the version's kind, as far as it says what it is. Others are refused by those who
// have asked for this kind.
func (v *version) isMine(u *unstructured.Unstructured) (bool, error) {
	name, found, err := unstructured.NestedString(u.Object, "kind")
	if err != nil {
		return false, err
	}
	if found && name != v.gvk.Kind {
		return false, nil
	}
	apiVersion, found, err := unstructured.NestedString(u.Object, "apiVersion")
	if err != nil || !found {
		return err == nil, err
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	return err == nil && gv.Group == v.gvk.Group, err
}

// fitSchema drops what the schema does not know, and fits the metadata of the objects within the object.
func (v *version) fitSchema(u *unstructured.Unstructured, c coercion) (unknown []string, err error) {
	s, err := v.schema()
	if err != nil {
		return nil, err
	}
	shape := v.shape()
	if !v.crd.Spec.PreserveUnknownFields && !shape.knows(u.Object) {
		unknown = pruning.PruneWithOptions(u.Object, s, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: c.unknown})
		defaulting.PruneNonNullableNullsWithoutDefaults(u.Object, s)
	}
	if !shape.embeds {
		return unknown, nil
	}
	bad, more := objectmeta.CoerceWithOptions(nil, u.Object, s, false, objectmeta.CoerceOptions{
		DropInvalidFields: c.stored, ReturnUnknownFieldPaths: c.unknown,
	})
	if bad != nil {
		return nil, bad
	}
	return append(unknown, more...), nil
}
