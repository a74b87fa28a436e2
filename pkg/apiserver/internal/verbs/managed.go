package verbs

import (
	"github.com/minikctl/minikctl/pkg/apiserver/internal/track"
	"github.com/minikctl/minikctl/pkg/objects"
)

// track updates obj's managedFields with the changes of the request from old (nil on create) to obj. It runs before
// admission, so that no manager owns the fields that admission sets. If the row sets objects.Resource.DefaultsUnowned,
// track sets the stored version's defaults only afterwards, so that no manager owns these either.
func (w *write) track(old, obj objects.Object) error {
	if err := w.tracker.Update(w.tracked(), old, obj); err != nil {
		return err
	}
	if s := w.req.Version; w.r.DefaultsUnowned && s != nil && s.To != nil && w.req.Subresource != "scale" {
		w.r.Default(obj)
	}
	return nil
}

func (w *write) tracked() track.Write {
	return track.Write{Resource: w.r, Version: w.req.Version, Subresource: w.req.Subresource, Manager: w.req.Manager}
}
