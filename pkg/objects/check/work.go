package check

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxWork bounds the sum of the lengths of an object's CEL expressions, where each counts minExpression at least. Compiling an
// expression takes some hundred microseconds, whatever its length, and then some per byte. Kubernetes bounds neither.
const (
	maxWork       = 256 << 10
	minExpression = 64
)

// Work is what remains of the work that may go into compiling the expressions of one object.
type Work struct{ left int }

// NewWork returns the work for one object.
func NewWork() *Work { return &Work{left: maxWork} }

// Compile reports whether an expression may be compiled. The first time it may not, it returns an error, too.
func (w *Work) Compile(source string, at *field.Path) (ok bool, errs field.ErrorList) {
	before := w.left
	w.left -= max(len(source), minExpression)
	if w.left < 0 && before >= 0 {
		errs = field.ErrorList{field.Forbidden(at, fmt.Sprintf(
			"this and the expressions before it take too long to compile: together they may have %d bytes, where each counts at least %d", maxWork, minExpression))}
	}
	return w.left >= 0, errs
}
