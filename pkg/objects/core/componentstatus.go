package core

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
)

// ComponentStatuses is the row of ComponentStatus. It is not stored: the server checks the components on each request.
var ComponentStatuses = objects.Def[*corev1.ComponentStatus]{
	Names: objects.Names{Version: "v1", Kind: "ComponentStatus", Plural: "componentstatuses", Short: []string{"cs"},
		Cluster: true},
	New:        func() *corev1.ComponentStatus { return &corev1.ComponentStatus{} },
	NewList:    func() runtime.Object { return &corev1.ComponentStatusList{} },
	Deprecated: "v1 ComponentStatus is deprecated in v1.19+",
	Verbs:      []string{"get", "list"},
	Columns: []objects.Column[*corev1.ComponentStatus]{
		objects.NameColumn[*corev1.ComponentStatus](),
		{Name: "Status", Description: "Status of the component conditions", Cell: func(s *corev1.ComponentStatus, _ time.Time) any {
			switch c := healthy(s); {
			case c == nil:
				return "Unknown"
			case c.Status == corev1.ConditionTrue:
				return "Healthy"
			}
			return "Unhealthy"
		}},
		{Name: "Message", Description: "Message of the component conditions", Cell: func(s *corev1.ComponentStatus, _ time.Time) any {
			if c := healthy(s); c != nil {
				return c.Message
			}
			return ""
		}},
		{Name: "Error", Description: "Error of the component conditions", Cell: func(s *corev1.ComponentStatus, _ time.Time) any {
			if c := healthy(s); c != nil {
				return c.Error
			}
			return ""
		}},
	},
}

func healthy(s *corev1.ComponentStatus) *corev1.ComponentCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == corev1.ComponentHealthy {
			return &s.Conditions[i]
		}
	}
	return nil
}
