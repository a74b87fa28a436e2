package verbs

import (
	"github.com/minikctl/minikctl/pkg/apiserver/internal/track"
	"github.com/minikctl/minikctl/pkg/objects"
)

// track updates obj's managedFields with the changes of the request from old (nil: obj is new) to obj. It precedes
// admission, so that no manager owns a field that the server fills in. The row decides whether that includes the stored
// version's defaults (objects.Resource.DefaultsUnowned).
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
