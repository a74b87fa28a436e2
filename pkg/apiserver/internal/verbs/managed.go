package verbs

import (
	"github.com/minikctl/minikctl/pkg/apiserver/internal/track"
	"github.com/minikctl/minikctl/pkg/objects"
)

// track notes in obj's managedFields what the request changes in old (nil: obj is new). It comes before admission: what
// the server itself fills in belongs to nobody. That goes for the stored version's defaults of a custom resource, too, which
// obj has not got yet when it came in another version.
func (w *write) track(old, obj objects.Object) error {
	if err := w.tracker.Update(w.tracked(), old, obj); err != nil {
		return err
	}
	if s := w.req.Served; w.r.Custom() && s != nil && s.To != nil && w.req.Subresource != "scale" {
		w.r.Default(obj)
	}
	return nil
}

func (w *write) tracked() track.Write {
	return track.Write{Resource: w.r, Served: w.req.Served, Subresource: w.req.Subresource, Manager: w.req.Manager}
}
