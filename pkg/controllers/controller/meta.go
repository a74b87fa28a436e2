package controller

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/objects"
)

// KeyOf returns the key of an object: its namespace and name.
func KeyOf(obj metav1.Object) objects.Key {
	return objects.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// WholeSeconds returns t truncated to whole seconds, the precision that metav1.Time has in JSON.
func WholeSeconds(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

// Sooner returns the shorter of two durations until a reconcile, where 0 is none.
func Sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// IgnoreNotFound returns nil for NotFound errors, and any other error unchanged.
func IgnoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// IgnoreReplaced returns nil for the errors of a request with a UID precondition whose object is gone: NotFound, and
// Conflict when another object of the same name exists.
func IgnoreReplaced(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
