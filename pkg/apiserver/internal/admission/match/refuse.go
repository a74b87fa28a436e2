package match

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Forbidden returns the error of a request that is rejected because of err.
func (q *Request) Forbidden(err error) *apierrors.StatusError {
	name := nameOf(q)
	if name == "" && q.admission.Object != nil {
		name = q.admission.Object.GetGenerateName()
	}
	if name == "" {
		name = "Unknown"
	}
	return apierrors.NewForbidden(q.admission.GVR.GroupResource(), name, err)
}
