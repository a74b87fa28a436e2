package volume

import (
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

// NoBacksteps checks that no part of a path is "..".
func NoBacksteps(p string, at *field.Path, child ...string) field.ErrorList {
	if !strings.Contains(p, "..") || !slices.Contains(strings.Split(p, "/"), "..") {
		return nil
	}
	return field.ErrorList{field.Invalid(check.Below(at, child), p, "must not contain '..'")}
}

// Descending checks that a path is relative and leads only downwards.
func Descending(p string, at *field.Path, child ...string) field.ErrorList {
	var errs field.ErrorList
	if path.IsAbs(p) {
		errs = append(errs, field.Invalid(check.Below(at, child), p, "must be a relative path"))
	}
	return append(errs, NoBacksteps(p, at, child...)...)
}

// NotReserved is Descending, and rejects paths that begin with "..", which kubelets reserve.
func NotReserved(p string, at *field.Path, child ...string) field.ErrorList {
	errs := Descending(p, at, child...)
	if strings.HasPrefix(p, "..") && !strings.HasPrefix(p, "../") {
		errs = append(errs, field.Invalid(check.Below(at, child), p, "must not start with '..'"))
	}
	return errs
}

// mode checks a file mode.
func mode(m *int32, at *field.Path, name string) field.ErrorList {
	if m == nil || 0 <= *m && *m <= 0o777 {
		return nil
	}
	return field.ErrorList{field.Invalid(at.Child(name), *m, "must be a number between 0 and 0777 (octal), both inclusive")}
}
