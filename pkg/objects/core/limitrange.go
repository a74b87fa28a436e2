package core

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
)

// LimitRanges is the row of LimitRange.
var LimitRanges = objects.Def[*corev1.LimitRange]{
	Names:         objects.Names{Version: "v1", Kind: "LimitRange", Plural: "limitranges", Short: []string{"limits"}},
	ApplyPriority: 60,
	New:           func() *corev1.LimitRange { return &corev1.LimitRange{} },
	NewList:       func() runtime.Object { return &corev1.LimitRangeList{} },
	Default:       defaultLimitRange,
	Prepare:       prepareLimitRange,
	Validate:      validateLimitRange,
	Columns: []objects.Column[*corev1.LimitRange]{
		objects.NameColumn[*corev1.LimitRange](),
		{Name: "Created At", Type: "date", Description: "CreationTimestamp is a timestamp representing the server time when this object was created.",
			Cell: func(l *corev1.LimitRange, _ time.Time) any { return l.CreationTimestamp.UTC().Format(time.RFC3339) }},
	},
	CreateOnUpdate: true,
}

// defaultLimitRange sets the default limits of containers to the maximum, and the default requests to the default
// limits or the minimum.
func defaultLimitRange(l *corev1.LimitRange) {
	for i := range l.Spec.Limits {
		item := &l.Spec.Limits[i]
		if item.Type != corev1.LimitTypeContainer {
			continue
		}
		if item.Default == nil {
			item.Default = corev1.ResourceList{}
		}
		if item.DefaultRequest == nil {
			item.DefaultRequest = corev1.ResourceList{}
		}
		fillResources(item.Default, item.Max)
		fillResources(item.DefaultRequest, item.Default)
		fillResources(item.DefaultRequest, item.Min)
	}
}

// fillResources adds the resources of from that list lacks.
func fillResources(list, from corev1.ResourceList) {
	for name, q := range from {
		if _, ok := list[name]; !ok {
			list[name] = q.DeepCopy()
		}
	}
}

// prepareLimitRange names an object without a name by its UID.
func prepareLimitRange(l, old *corev1.LimitRange) {
	if old == nil && l.Name == "" {
		l.Name = string(l.UID)
	}
}
