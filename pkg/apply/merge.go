package apply

import (
	"bytes"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubectl/pkg/util"
)

type patch struct {
	kind types.PatchType
	data []byte
}

func (p patch) empty() bool { return bytes.Equal(bytes.TrimSpace(p.data), []byte("{}")) }

// merge returns the patch that changes current to modified. It removes the fields that are in current's last-applied
// annotation and not in modified. Lists of built-in types are merged by key; those of other types are replaced.
func merge(gvk schema.GroupVersionKind, modified []byte, current runtime.Object, overwrite bool) (patch, error) {
	now, err := runtime.Encode(unstructured.UnstructuredJSONScheme, current)
	if err != nil {
		return patch{}, fmt.Errorf("serializing current configuration: %w", err)
	}
	original, err := util.GetOriginalConfiguration(current)
	if err != nil {
		return patch{}, fmt.Errorf("retrieving original configuration: %w", err)
	}
	return threeWay(gvk, original, modified, now, overwrite)
}

// threeWay does the work of merge on JSON. original is the last-applied configuration, which may be empty.
func threeWay(gvk schema.GroupVersionKind, original, modified, current []byte, overwrite bool) (patch, error) {
	if typed, err := scheme.Scheme.New(gvk); err == nil {
		lookup, err := strategicpatch.NewPatchMetaFromStruct(typed)
		if err != nil {
			return patch{}, err
		}
		data, err := strategicpatch.CreateThreeWayMergePatch(original, modified, current, lookup, overwrite)
		return patch{types.StrategicMergePatchType, data}, err
	}
	same := true
	unchanged := func(kept mergepatch.PreconditionFunc) mergepatch.PreconditionFunc {
		return func(p any) bool {
			same = same && kept(p)
			return true // the library's error for this has no type
		}
	}
	data, err := jsonmergepatch.CreateThreeWayJSONMergePatch(original, modified, current, unchanged(mergepatch.RequireKeyUnchanged("apiVersion")),
		unchanged(mergepatch.RequireKeyUnchanged("kind")), unchanged(mergepatch.RequireMetadataKeyUnchanged("name")))
	if !same {
		return patch{}, errors.New("At least one of apiVersion, kind and name was changed") //nolint:staticcheck // kubectl's words
	}
	return patch{types.MergePatchType, data}, err
}
