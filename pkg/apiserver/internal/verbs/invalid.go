package verbs

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// maxJoinedErrors bounds the errors that apierrors joins: its time grows with the square of their number.
	maxJoinedErrors = 64

	// maxErrors and maxShown bound what a response contains: the number of errors, and the bytes of a string that is not valid.
	// Kubernetes bounds neither.
	maxErrors = 5000
	maxShown  = 64 << 10
)

// newInvalid returns the same error as apierrors.NewInvalid, in time linear in the number of errors and within the bounds.
func newInvalid(kind schema.GroupKind, name string, errs field.ErrorList) *apierrors.StatusError {
	errs = errs[:min(len(errs), maxErrors)]
	for _, err := range errs {
		if s, ok := err.BadValue.(string); ok && len(s) > maxShown {
			err.BadValue = strings.ToValidUTF8(s[:maxShown], "") + "…"
		}
	}
	if len(errs) <= maxJoinedErrors {
		return apierrors.NewInvalid(kind, name, errs)
	}
	out := apierrors.NewInvalid(kind, name, nil)
	seen := make(map[string]bool, len(errs))
	var texts []string
	for _, err := range errs {
		out.ErrStatus.Details.Causes = append(out.ErrStatus.Details.Causes, metav1.StatusCause{
			Type: metav1.CauseType(err.Type), Message: err.ErrorBody(), Field: err.Field,
		})
		if text := err.Error(); !seen[text] {
			seen[text] = true
			texts = append(texts, text)
		}
	}
	text := strings.Join(texts, ", ")
	if len(texts) > 1 {
		text = "[" + text + "]"
	}
	out.ErrStatus.Message = fmt.Sprintf("%s %q is invalid: %s", kind.String(), name, text)
	return out
}
