package storage

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/minikctl/minikctl/pkg/objects"
)

// bestVolume returns the volume for a claim that names none, or nil: of the volumes with the fewest access modes that include
// the claim's, the one that names the claim, or the smallest one that is large enough. With delay only a volume that names
// the claim is returned: the scheduler chooses among the others.
func bestVolume(claim *corev1.PersistentVolumeClaim, volumes []*corev1.PersistentVolume, delay bool) (*corev1.PersistentVolume, error) {
	groups := map[string][]*corev1.PersistentVolume{}
	for _, v := range volumes {
		if volume.CheckAccessModes(claim, v) {
			modes := modesOf(v)
			groups[modes] = append(groups[modes], v)
		}
	}
	order := make([]string, 0, len(groups))
	for modes := range groups {
		order = append(order, modes)
	}
	slices.SortFunc(order, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	for _, modes := range order {
		group := groups[modes]
		slices.SortFunc(group, func(a, b *corev1.PersistentVolume) int { return cmp.Compare(a.Name, b.Name) })
		v, err := volume.FindMatchingVolume(claim, group, nil, nil, delay, true)
		if v != nil || err != nil {
			return v, err
		}
	}
	return nil, nil
}

// modesOf returns the access modes of a volume as one letter each, so that a longer string has more modes.
func modesOf(v *corev1.PersistentVolume) string {
	letters := map[corev1.PersistentVolumeAccessMode]string{
		corev1.ReadWriteOnce: "a", corev1.ReadOnlyMany: "b", corev1.ReadWriteMany: "c", corev1.ReadWriteOncePod: "d",
	}
	var modes []string
	for _, m := range v.Spec.AccessModes {
		modes = append(modes, letters[m])
	}
	slices.Sort(modes)
	return strings.Join(slices.Compact(modes), "")
}

func compareKeys(a, b objects.Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
