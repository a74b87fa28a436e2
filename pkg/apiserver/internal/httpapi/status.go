package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/codec"
)

// statusKind is the kind of the body of every error.
var statusKind = schema.GroupVersionKind{Version: "v1", Kind: "Status"}

// statusClientClosed is the code in logs and metrics for a request whose client has disconnected.
const statusClientClosed = 499

// statusOf converts any error to the Status in the response. An error without a status becomes an internal error.
func statusOf(err error) *metav1.Status {
	var st metav1.Status
	var api apierrors.APIStatus
	switch {
	case errors.As(err, &api):
		st = api.Status()
	case errors.Is(err, context.DeadlineExceeded):
		st = apierrors.NewTimeoutError("request did not complete within the requested timeout - "+err.Error(), 0).ErrStatus
	case errors.Is(err, context.Canceled):
		st = metav1.Status{Reason: metav1.StatusReasonUnknown, Code: statusClientClosed, Message: "the client has closed the request"}
	case errors.Is(err, codec.ErrNoProtobuf):
		st = metav1.Status{Reason: metav1.StatusReasonNotAcceptable, Code: http.StatusNotAcceptable, Message: err.Error()}
	default:
		st = metav1.Status{Code: http.StatusInternalServerError, Message: err.Error()}
	}
	if st.Status == "" {
		st.Status = metav1.StatusFailure
	}
	if st.Code == 0 {
		st.Code = http.StatusInternalServerError
	}
	return &st
}

// generic returns the error of a request for a path without a resource or method.
func generic(code int) error {
	return apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", "", 0, false)
}

var (
	errNoResource = generic(http.StatusNotFound)
	errNoMethod   = generic(http.StatusMethodNotAllowed)
)

// fail responds with an error, in a format that the client accepts, else in JSON.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, context.Canceled) {
		err = context.Cause(r.Context()) // the deadline, unless the client has disconnected
	}
	st := statusOf(err)
	media, bad := codec.Negotiate(r, codec.Offer{})
	if bad != nil {
		media.Format = codec.JSON
	}
	if d := st.Details; d != nil && d.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	writeObject(w, r, media, int(st.Code), st, statusKind)
}
