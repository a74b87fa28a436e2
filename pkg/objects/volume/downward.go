package volume

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

// podFields are the pod fields that a fieldRef may have.
var podFields = []string{
	"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
	"spec.restartPolicy", "spec.serviceAccountName", "spec.schedulerName", "status.phase", "status.hostIP",
	"status.hostIPs", "status.podIP", "status.podIPs", "spec.host",
}

// FieldRef checks a reference to a field of the pod. allowed lists the fields.
func FieldRef(ref *corev1.ObjectFieldSelector, allowed []string, at *field.Path) field.ErrorList {
	if ref.APIVersion == "" {
		return field.ErrorList{field.Required(at.Child("apiVersion"), "")}
	}
	if ref.FieldPath == "" {
		return field.ErrorList{field.Required(at.Child("fieldPath"), "")}
	}
	path, subscript, ok := subscripted(ref.FieldPath)
	switch {
	case ref.APIVersion != "v1":
		return unknownField(ref, "unsupported pod version: "+ref.APIVersion, at)
	case ok && path == "metadata.annotations":
		return check.Qualified(strings.ToLower(subscript), at)
	case ok && path == "metadata.labels":
		return check.Qualified(subscript, at)
	case ok:
		return unknownField(ref, "field label does not support subscript: "+ref.FieldPath, at)
	case !slices.Contains(podFields, path):
		return unknownField(ref, "field label not supported: "+ref.FieldPath, at)
	}
	if path == "spec.host" {
		path = "spec.nodeName" // its deprecated name
	}
	return check.OneOf(path, allowed, at, "fieldPath")
}

func unknownField(ref *corev1.ObjectFieldSelector, why string, at *field.Path) field.ErrorList {
	return field.ErrorList{field.Invalid(at.Child("fieldPath"), ref.FieldPath, "error converting fieldPath: "+why)}
}

// subscripted splits metadata.labels['key'] into path and key.
func subscripted(path string) (string, string, bool) {
	rest, ok := strings.CutSuffix(path, "']")
	if !ok {
		return path, "", false
	}
	before, key, ok := strings.Cut(rest, "['")
	if !ok || before == "" {
		return path, "", false
	}
	return before, key, true
}

var resourceFields = []string{
	"limits.cpu", "limits.ephemeral-storage", "limits.memory",
	"requests.cpu", "requests.ephemeral-storage", "requests.memory",
}

// ResourceFieldRef checks a reference to a container's request or limit. In a volume it must name the
// container.
func ResourceFieldRef(ref *corev1.ResourceFieldSelector, volume bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case volume && ref.ContainerName == "":
		errs = append(errs, field.Required(at.Child("containerName"), ""))
	case ref.Resource == "":
		errs = append(errs, field.Required(at.Child("resource"), ""))
	case !isHugePages(ref.Resource):
		errs = append(errs, check.OneOf(ref.Resource, resourceFields, at, "resource")...)
	}
	return append(errs, divisor(ref, at)...)
}

func isHugePages(resource string) bool {
	return strings.HasPrefix(resource, "requests.hugepages-") || strings.HasPrefix(resource, "limits.hugepages-")
}

var byteDivisors = []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}

func divisor(ref *corev1.ResourceFieldSelector, at *field.Path) field.ErrorList {
	if ref.Divisor.IsZero() {
		return nil
	}
	allowed, what := byteDivisors, ""
	switch {
	case ref.Resource == "limits.cpu" || ref.Resource == "requests.cpu":
		if d := ref.Divisor.String(); d == "1m" || d == "1" {
			return nil
		}
		return field.ErrorList{field.Invalid(at.Child("divisor"), ref.Resource,
			"only divisor's values 1m and 1 are supported with the cpu resource")}
	case ref.Resource == "limits.memory" || ref.Resource == "requests.memory":
		what = "memory"
	case ref.Resource == "limits.ephemeral-storage" || ref.Resource == "requests.ephemeral-storage":
		what = "local ephemeral storage"
	case isHugePages(ref.Resource):
		what = "hugepages"
	default:
		return nil
	}
	if slices.Contains(allowed, ref.Divisor.String()) {
		return nil
	}
	return field.ErrorList{field.Invalid(at.Child("divisor"), ref.Resource,
		"only divisor's values "+strings.Join(allowed, ", ")+" are supported with the "+what+" resource")}
}
