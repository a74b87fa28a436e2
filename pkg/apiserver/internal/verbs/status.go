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

// What the API says when a version that was asked for is gone, and about writes that came too late.
const (
	listExpired          = "The resourceVersion for the provided list is too old."
	watchExpired         = "The resourceVersion for the provided watch is too old."
	inconsistentContinue = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, " +
		"or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - " +
		"objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list."
	objectModified = "the object has been modified; please apply your changes to the latest version and try again"
)

// toStatus is the only place where the store's and the program's own errors become answers of the API. A store that
// takes no more writes (full disk, or after a failed commit) answers 503 ServiceUnavailable, which clients try again,
// with the reason in the message; reads go on.
func toStatus(r schema.GroupResource, name string, err error) error {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return nil
	case errors.As(err, &status):
		return err
	case errors.Is(err, store.ErrNotFound):
		return apierrors.NewNotFound(r, name)
	case errors.Is(err, store.ErrConflict):
		return apierrors.NewConflict(r, name, errors.New(objectModified))
	case errors.Is(err, store.ErrCompacted):
		return apierrors.NewResourceExpired(listExpired)
	case errors.Is(err, store.ErrTooLarge):
		return plain(errors.New("etcdserver: request is too large")) // as Kubernetes passes it on
	case errors.Is(err, store.ErrNoSpace), errors.Is(err, store.ErrReadOnly):
		return apierrors.NewServiceUnavailable("the store takes no writes: " + err.Error())
	case errors.Is(err, cache.ErrReplaced):
		return apierrors.NewServiceUnavailable(err.Error() + ", try again")
	case errors.Is(err, store.ErrClosed):
		return apierrors.NewServiceUnavailable("the server is shutting down")
	case errors.Is(err, context.DeadlineExceeded):
		return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
	case errors.Is(err, context.Canceled):
		return err // there is no answer: the coat knows whether anybody is there to hear of it
	}
	return plain(err)
}

// plain is the answer for errors that the API gives no reason: the words as they are, with 500.
func plain(err error) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error(),
	}}
}

// tooLarge is the answer to a resourceVersion that does not exist yet.
func tooLarge(asked, current store.Revision) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", asked, current), 1)
	err.ErrStatus.Code = http.StatusGatewayTimeout
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version",
	}}
	return err
}

// preconditionFailed is what a storage says of an object that is not the one that was meant.
func preconditionFailed(what string, r schema.GroupResource, namespace, name, asked, current string) error {
	key := "/registry/" + r.Resource + "/"
	if namespace != "" {
		key += namespace + "/"
	}
	return fmt.Errorf("StorageError: invalid object, Code: 4, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: %s in precondition: %s, %s in object meta: %s",
		key+name, what, asked, what, current)
}
