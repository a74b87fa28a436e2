package core

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
)

// ResourceQuotas is the row of ResourceQuota.
var ResourceQuotas = objects.Def[*corev1.ResourceQuota]{
	Names:          objects.Names{Version: "v1", Kind: "ResourceQuota", Plural: "resourcequotas", Short: []string{"quota"}},
	ApplyPriority:  70,
	New:            func() *corev1.ResourceQuota { return &corev1.ResourceQuota{} },
	ReturnsDeleted: true,
	NewList:        func() runtime.Object { return &corev1.ResourceQuotaList{} },
	Prepare:        prepareQuota,
	Validate:       validateQuota,
	Columns: []objects.Column[*corev1.ResourceQuota]{
		objects.NameColumn[*corev1.ResourceQuota](),
		{Name: "Request", Description: "Request represents a minimum amount of cpu/memory that a container may consume.",
			Cell: func(q *corev1.ResourceQuota, _ time.Time) any { return quotaUse(q, false) }},
		{Name: "Limit", Description: "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.",
			Cell: func(q *corev1.ResourceQuota, _ time.Time) any { return quotaUse(q, true) }},
		objects.AgeColumn[*corev1.ResourceQuota](),
	},
	Warnings: quotaWarnings,
	Reset:    []string{"status"},
	Status: &objects.Status[*corev1.ResourceQuota]{
		Prepare:  func(q, old *corev1.ResourceQuota) { q.Spec = old.Spec },
		Validate: validateQuotaStatus,
		Reset:    []string{"spec"},
	},
}

func prepareQuota(q, old *corev1.ResourceQuota) {
	q.Status = corev1.ResourceQuotaStatus{}
	if old != nil {
		q.Status = old.Status
	}
}

// quotaWarnings warns about a new quota whose limits are lower than its requests.
func quotaWarnings(q, old *corev1.ResourceQuota) []string {
	if old != nil {
		return nil
	}
	var out []string
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		requestName := corev1.DefaultResourceRequestsPrefix + name
		request, ok := q.Spec.Hard[requestName]
		if !ok && name != corev1.ResourceEphemeralStorage {
			requestName = name
			request, ok = q.Spec.Hard[requestName]
		}
		limit, limited := q.Spec.Hard["limits."+name]
		if ok && limited && request.Cmp(limit) > 0 {
			out = append(out, fmt.Sprintf("ResourceQuota %s (%s) should be less than limits.%s (%s)", requestName, request.String(), name, limit.String()))
		}
	}
	return out
}

// quotaUse formats used and hard quantities, of limits or of all others.
func quotaUse(q *corev1.ResourceQuota, limits bool) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(q.Status.Hard)) {
		if strings.HasPrefix(string(name), "limits") != limits {
			continue
		}
		used, hard := q.Status.Used[name], q.Status.Hard[name]
		parts = append(parts, fmt.Sprintf("%s: %s/%s", name, used.String(), hard.String()))
	}
	return strings.Join(parts, ", ")
}
