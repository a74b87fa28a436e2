package verbs

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/track"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/store"
)

// track updates obj's managedFields with the changes of the request from old (nil on create) to obj. It runs before
// admission, so that no manager owns the fields that admission sets. If the row sets objects.Resource.DefaultsUnowned,
// track sets the stored version's defaults only afterwards, so that no manager owns these either.
//
// An object that is too large to be stored gets no managedFields, which may take seconds for hundreds of thousands of fields, and
// commit refuses it.
func (w *write) track(old, obj objects.Object) error {
	if w.tooLarge = leastSize(obj) > store.MaxValue; w.tooLarge {
		return nil
	}
	if err := w.tracker.Update(w.tracked(), old, obj); err != nil {
		return err
	}
	if s := w.req.Version; w.r.DefaultsUnowned && s != nil && s.To != nil && w.req.Subresource != "scale" {
		w.r.Default(obj)
	}
	return nil
}

// leastSize returns the size of an object's stored form, or less.
func leastSize(obj objects.Object) int {
	switch obj := obj.(type) {
	case interface{ Size() int }: // a protobuf message, which is stored as such
		return obj.Size()
	case *unstructured.Unstructured:
		return leastJSON(obj.Object)
	}
	return 0
}

// leastJSON returns the size of a value's JSON form, or less.
func leastJSON(v any) int {
	size := 1
	switch v := v.(type) {
	case string:
		size = len(v) + len(`""`)
	case []any:
		for _, item := range v {
			size += leastJSON(item) + len(`,`)
		}
	case map[string]any:
		for key, part := range v {
			size += len(key) + len(`"":,`) + leastJSON(part)
		}
	}
	return size
}

func (w *write) tracked() track.Write {
	return track.Write{Resource: w.r, Version: w.req.Version, Subresource: w.req.Subresource, Manager: w.req.Manager}
}
