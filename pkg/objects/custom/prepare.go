package custom

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/minikctl/minikctl/pkg/objects"
)

// hasStatus reports whether the kind has the status subresource.
func (k *kind) hasStatus() bool {
	for _, v := range k.versions {
		if (v.spec.Served || v.spec.Storage) && v.spec.Subresources != nil && v.spec.Subresources.Status != nil {
			return true
		}
	}
	return false
}

// prepare keeps the old status if it is a subresource, and increments the generation after changes outside the metadata.
func (k *kind) prepare(obj, old objects.Object) {
	now := content(obj)
	if old == nil {
		if k.hasStatus() {
			delete(now, "status")
		}
		obj.SetGeneration(1)
		return
	}
	was := content(old)
	if k.hasStatus() {
		keepStatus(now, was)
	}
	if !equality.Semantic.DeepEqual(withoutMetadata(now), withoutMetadata(was)) {
		obj.SetGeneration(old.GetGeneration() + 1)
	}
}

func keepStatus(now, was map[string]any) {
	if status, ok := was["status"]; ok {
		now["status"] = status
	} else {
		delete(now, "status")
	}
}

func withoutMetadata(fields map[string]any) map[string]any {
	out := maps.Clone(fields)
	delete(out, "metadata")
	return out
}

// prepareStatus restores all but the status and managedFields from old.
func prepareStatus(obj, old objects.Object) {
	u := obj.(*unstructured.Unstructured)
	status, ok := u.Object["status"]
	managers := u.GetManagedFields()
	u.Object = maps.Clone(content(old))
	if metadata, ok := u.Object["metadata"].(map[string]any); ok {
		u.Object["metadata"] = runtime.DeepCopyJSON(metadata)
	}
	u.SetManagedFields(managers)
	if ok {
		u.Object["status"] = status
	} else {
		delete(u.Object, "status")
	}
}

// warnings warns about new finalizers without a domain.
func warnings(obj, old objects.Object) []string {
	names := slices.Clone(obj.GetFinalizers())
	if old != nil {
		was := old.GetFinalizers()
		names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(was, name) })
	}
	slices.Sort(names)
	var out []string
	for _, name := range slices.Compact(names) {
		out = append(out, finalizerWarnings(name)...)
	}
	return out
}

func finalizerWarnings(name string) []string {
	const at = "metadata.finalizers"
	var out []string
	for _, msg := range validation.IsQualifiedName(name) {
		out = append(out, fmt.Sprintf("%s: %q: %s", at, name, msg))
	}
	switch name {
	case metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents, string(corev1.FinalizerKubernetes):
		return out
	}
	if strings.Contains(name, "/") {
		return out
	}
	advice := "prefer a domain-qualified finalizer name"
	if strings.Contains(name, ".") {
		advice += " including a path (/)"
	}
	return append(out, fmt.Sprintf("%s: %q: %s to avoid accidental conflicts with other finalizer writers", at, name, advice))
}
