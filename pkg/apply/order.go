package apply

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/minikctl/minikctl/pkg/objects/builtin"
	"github.com/minikctl/minikctl/pkg/objects/feature"
)

// Sort orders manifests by the ApplyPriority of their resources, so that objects come before the objects that need them. Those
// of equal priority keep their order. It uses only Object of each Info.
func Sort(infos []*resource.Info) {
	priorities := map[schema.GroupKind]int{}
	for _, r := range builtin.ResourcesWith(feature.All) {
		priorities[schema.GroupKind{Group: r.Names.Group, Kind: r.Names.Kind}] = r.ApplyPriority
	}
	slices.SortStableFunc(infos, func(a, b *resource.Info) int {
		return cmp.Compare(priorities[kindOf(b).GroupKind()], priorities[kindOf(a).GroupKind()])
	})
}

func kindOf(info *resource.Info) schema.GroupVersionKind {
	return info.Object.GetObjectKind().GroupVersionKind()
}
