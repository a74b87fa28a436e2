package verbs

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/store"
)

// Messages about resourceVersions that are compacted, and about conflicts.
const (
	listExpired          = "The resourceVersion for the provided list is too old."
	watchExpired         = "The resourceVersion for the provided watch is too old."
	inconsistentContinue = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, " +
		"or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - " +
		"objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list."
	objectModified = "the object has been modified; please apply your changes to the latest version and try again"
)

// toStatus turns an error of the store or of the program into a status of the API; no other function does. A store that takes
// no writes (full disk, or after a failed commit) results in 503 ServiceUnavailable, which clients retry, with the reason in
// the message. Reads continue.
func toStatus(r schema.GroupResource, name string, err error) error {
	var status apierrors.APIStatus
	var corrupt *cache.Corrupt
	switch {
	case err == nil:
		return nil
	case errors.As(err, &corrupt):
		return &corruptError{apierrors.NewInternalError(corrupt), corrupt}
	case errors.As(err, &status):
		return err
	case errors.Is(err, store.ErrNotFound):
		return apierrors.NewNotFound(r, name)
	case errors.Is(err, store.ErrConflict):
		return apierrors.NewConflict(r, name, errors.New(objectModified))
	case errors.Is(err, store.ErrCompacted):
		return apierrors.NewResourceExpired(listExpired)
	case errors.Is(err, store.ErrTooLarge):
		return plainStatus(errors.New("etcdserver: request is too large")) // Kubernetes' message
	case errors.Is(err, store.ErrNoSpace), errors.Is(err, store.ErrReadOnly):
		return apierrors.NewServiceUnavailable("the store takes no writes: " + err.Error())
	case errors.Is(err, cache.ErrReplaced):
		return apierrors.NewServiceUnavailable(err.Error() + ", try again")
	case errors.Is(err, store.ErrClosed):
		return apierrors.NewServiceUnavailable("the server is shutting down")
	case errors.Is(err, context.DeadlineExceeded):
		return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
	case errors.Is(err, context.Canceled):
		return err // the front end decides whether a client is left that gets the error
	}
	return plainStatus(err)
}

// corruptError is the error of a request for an object that cannot be decoded.
type corruptError struct {
	*apierrors.StatusError
	corrupt *cache.Corrupt
}

func (e *corruptError) Unwrap() []error { return []error{e.StatusError, e.corrupt} }

// plainStatus returns the Status of an error without a reason of the API: its text, with code 500.
func plainStatus(err error) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error(),
	}}
}

// versionTooLarge returns the error of a request for a resourceVersion that does not exist yet.
func versionTooLarge(requested, current store.Revision) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", requested, current), 1)
	err.ErrStatus.Code = http.StatusGatewayTimeout
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version",
	}}
	return err
}

// preconditionFailed is the error of Kubernetes' storage about an object with another UID or version.
func preconditionFailed(what string, r schema.GroupResource, namespace, name, requested, current string) error {
	key := "/registry/" + r.Resource + "/"
	if namespace != "" {
		key += namespace + "/"
	}
	return fmt.Errorf("StorageError: invalid object, Code: 4, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: %s in precondition: %s, %s in object meta: %s",
		key+name, what, requested, what, current)
}
