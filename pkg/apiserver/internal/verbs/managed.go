package verbs

import (
	"github.com/minikctl/minikctl/pkg/apiserver/internal/track"
	"github.com/minikctl/minikctl/pkg/objects"
)

// track notes in obj's managedFields what the request changes in old (nil: obj is new). It comes before admission: what
// the server itself fills in belongs to nobody.
func (w *write) track(old, obj objects.Object) error {
	return w.tracker.Update(w.tracked(), old, obj)
}

func (w *write) tracked() track.Write {
	return track.Write{Resource: w.r, Served: w.req.Served, Subresource: w.req.Subresource, Manager: w.req.Manager}
}
