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

// coercion are the options of fit.
type coercion struct {
	// unknown requests the paths of dropped fields.
	unknown bool
	// stored is set for an object from the store: invalid metadata is dropped instead of rejected, and a
	// missing generation is set.
	stored bool
}

// coerce drops fields of decoded JSON that the schema of the version does not specify, and returns their paths.
func (v *version) coerce(obj runtime.Object) (unknown []string, err error) {
	return v.fit(obj.(*unstructured.Unstructured), coercion{unknown: true})
}

// fit does for an unstructured object what decoding into a Go type implies: it checks the fields and types of the metadata, and
// drops unknown fields and nulls that the schema does not allow.
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

// fitMeta returns an object's metadata after a round trip through ObjectMeta, and the paths of unknown fields. It returns nil without
// metadata.
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

// isMine reports whether an object is of the version's kind or has none. The callers reject others.
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

// fitSchema drops fields that the schema does not specify, and fits the metadata of embedded objects.
func (v *version) fitSchema(u *unstructured.Unstructured, c coercion) (unknown []string, err error) {
	s, err := v.schema()
	if err != nil {
		return nil, err
	}
	shape := v.shape()
	if !v.crd.Spec.PreserveUnknownFields && !shape.covers(u.Object) {
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
