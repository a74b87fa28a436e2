package apply

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
)

// first are the kinds that others need, in the order in which they are needed. Everything else follows, in the order of
// the files.
var first = []string{
	"Namespace", "CustomResourceDefinition", "PriorityClass", "StorageClass", "IngressClass", "RuntimeClass",
	"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ResourceQuota", "LimitRange",
	"ConfigMap", "Secret", "PersistentVolume", "PersistentVolumeClaim", "Service",
}

// Sort puts manifests into an order in which each finds what it needs. It looks at their objects alone.
func Sort(infos []*resource.Info) {
	rank := map[string]int{}
	for i, kind := range first {
		rank[kind] = i - len(first)
	}
	slices.SortStableFunc(infos, func(a, b *resource.Info) int {
		return cmp.Compare(rank[kindOf(a).Kind], rank[kindOf(b).Kind])
	})
}

func kindOf(info *resource.Info) schema.GroupVersionKind {
	return info.Object.GetObjectKind().GroupVersionKind()
}
