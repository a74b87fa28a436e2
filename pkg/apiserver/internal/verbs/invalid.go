package verbs

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxJoinedErrors bounds the errors that apierrors joins: its time grows with the square of their number.
const maxJoinedErrors = 64

// newInvalid returns the same error as apierrors.NewInvalid, in time linear in the number of errors.
func newInvalid(kind schema.GroupKind, name string, errs field.ErrorList) *apierrors.StatusError {
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
