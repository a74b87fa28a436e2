// Package autoscaling holds the rows of the group autoscaling.
package autoscaling

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
)

// hpa abbreviates the only kind of this package.
type hpa = autoscalingv2.HorizontalPodAutoscaler

// HorizontalPodAutoscalers is the row of HorizontalPodAutoscaler.
var HorizontalPodAutoscalers = objects.Def[*hpa]{
	Names: objects.Names{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler", Plural: "horizontalpodautoscalers",
		Short: []string{"hpa"}, Categories: []string{"all"}},
	Versions: []objects.Version[*hpa]{{
		Group: "autoscaling", Version: "v1",
		New:     func() runtime.Object { return &autoscalingv1.HorizontalPodAutoscaler{} },
		NewList: func() runtime.Object { return &autoscalingv1.HorizontalPodAutoscalerList{} },
		To:      fromV1,
		From:    toV1,
	}},
	New:        func() *hpa { return &hpa{} },
	Controller: "horizontal-pod-autoscaler",
	NewList:    func() runtime.Object { return &autoscalingv2.HorizontalPodAutoscalerList{} },
	Default:    defaultHPA,
	Prepare: func(h, old *hpa) {
		h.Status = autoscalingv2.HorizontalPodAutoscalerStatus{}
		if old != nil {
			h.Status = old.Status
		}
	},
	Validate: validateHPA,
	Columns:  hpaColumns,
	Reset:    []string{"status"},
	Status: &objects.Status[*hpa]{
		Prepare:  func(h, old *hpa) { h.Spec = old.Spec },
		Validate: validateHPAStatus,
		Reset:    []string{"spec"},
	},
}

func defaultHPA(h *hpa) {
	if h.Spec.MinReplicas == nil {
		h.Spec.MinReplicas = new(int32(1))
	}
	if len(h.Spec.Metrics) == 0 {
		h.Spec.Metrics = []autoscalingv2.MetricSpec{cpuMetric(80)}
	}
	if b := h.Spec.Behavior; b != nil {
		b.ScaleUp = withRules(b.ScaleUp, autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: new(int32(0)),
			Policies: []autoscalingv2.HPAScalingPolicy{
				{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15},
				{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}}})
		b.ScaleDown = withRules(b.ScaleDown, autoscalingv2.HPAScalingRules{
			Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}}})
	}
}

func cpuMetric(utilization int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &utilization}}}
}

// withRules sets defaults of scaling rules.
func withRules(r *autoscalingv2.HPAScalingRules, rest autoscalingv2.HPAScalingRules) *autoscalingv2.HPAScalingRules {
	if r == nil {
		r = &autoscalingv2.HPAScalingRules{}
	}
	if r.StabilizationWindowSeconds == nil {
		r.StabilizationWindowSeconds = rest.StabilizationWindowSeconds
	}
	if r.SelectPolicy == nil {
		r.SelectPolicy = new(autoscalingv2.MaxChangePolicySelect)
	}
	if r.Policies == nil {
		r.Policies = rest.Policies
	}
	return r
}

var (
	hpaSpecDoc   = autoscalingv2.HorizontalPodAutoscalerSpec{}.SwaggerDoc()
	hpaStatusDoc = autoscalingv2.HorizontalPodAutoscalerStatus{}.SwaggerDoc()
)

var hpaColumns = []objects.Column[*hpa]{
	objects.NameColumn[*hpa](),
	{Name: "Reference", Description: hpaSpecDoc["scaleTargetRef"], Cell: func(h *hpa, _ time.Time) any {
		return h.Spec.ScaleTargetRef.Kind + "/" + h.Spec.ScaleTargetRef.Name
	}},
	{Name: "Targets", Description: hpaSpecDoc["metrics"], Cell: func(h *hpa, _ time.Time) any { return targets(h) }},
	{Name: "MinPods", Description: hpaSpecDoc["minReplicas"], Cell: func(h *hpa, _ time.Time) any {
		if h.Spec.MinReplicas == nil {
			return "<unset>"
		}
		return strconv.Itoa(int(*h.Spec.MinReplicas))
	}},
	{Name: "MaxPods", Description: hpaSpecDoc["maxReplicas"], Cell: func(h *hpa, _ time.Time) any { return int64(h.Spec.MaxReplicas) }},
	{Name: "Replicas", Description: hpaStatusDoc["currentReplicas"], Cell: func(h *hpa, _ time.Time) any { return int64(h.Status.CurrentReplicas) }},
	objects.AgeColumn[*hpa](),
}

// targets formats the first two metrics and the number of others.
func targets(h *hpa) string {
	const shown = 2
	if len(h.Spec.Metrics) == 0 {
		return "<none>"
	}
	var out []string
	for i := range min(len(h.Spec.Metrics), shown) {
		current := autoscalingv2.MetricStatus{}
		if i < len(h.Status.CurrentMetrics) {
			current = h.Status.CurrentMetrics[i]
		}
		out = append(out, target(&h.Spec.Metrics[i], &current))
	}
	text := strings.Join(out, ", ")
	if more := len(h.Spec.Metrics) - shown; more > 0 {
		text += fmt.Sprintf(" + %d more...", more)
	}
	return text
}

// target formats the current and the target value of a metric.
func target(m *autoscalingv2.MetricSpec, is *autoscalingv2.MetricStatus) string {
	switch {
	case m.Type == autoscalingv2.ExternalMetricSourceType && m.External != nil:
		return value(current(is.External, func(s *autoscalingv2.ExternalMetricStatus) *autoscalingv2.MetricValueStatus { return &s.Current }), &m.External.Target)
	case m.Type == autoscalingv2.ObjectMetricSourceType && m.Object != nil:
		return value(current(is.Object, func(s *autoscalingv2.ObjectMetricStatus) *autoscalingv2.MetricValueStatus { return &s.Current }), &m.Object.Target)
	case m.Type == autoscalingv2.PodsMetricSourceType && m.Pods != nil:
		now := current(is.Pods, func(s *autoscalingv2.PodsMetricStatus) *autoscalingv2.MetricValueStatus { return &s.Current })
		return average(now) + "/" + m.Pods.Target.AverageValue.String()
	case m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil:
		now := current(is.Resource, func(s *autoscalingv2.ResourceMetricStatus) *autoscalingv2.MetricValueStatus { return &s.Current })
		return fmt.Sprintf("%s: %s", m.Resource.Name, utilization(now, &m.Resource.Target))
	case m.Type == autoscalingv2.ContainerResourceMetricSourceType && m.ContainerResource != nil:
		now := current(is.ContainerResource, func(s *autoscalingv2.ContainerResourceMetricStatus) *autoscalingv2.MetricValueStatus {
			return &s.Current
		})
		return fmt.Sprintf("%s: %s", m.ContainerResource.Name, utilization(now, &m.ContainerResource.Target))
	}
	return "<unknown type>"
}

// current returns the current value in a metric's status.
func current[S any](status *S, of func(*S) *autoscalingv2.MetricValueStatus) *autoscalingv2.MetricValueStatus {
	if status == nil {
		return nil
	}
	return of(status)
}

const unknown = "<unknown>"

// value formats a value, or an average with "(avg)".
func value(now *autoscalingv2.MetricValueStatus, want *autoscalingv2.MetricTarget) string {
	switch {
	case want.AverageValue != nil && (now == nil || now.AverageValue == nil):
		return unknown + "/" + want.AverageValue.String() + " (avg)"
	case want.AverageValue != nil:
		return now.AverageValue.String() + "/" + want.AverageValue.String() + " (avg)"
	case now == nil:
		return unknown + "/" + want.Value.String()
	}
	return now.Value.String() + "/" + want.Value.String()
}

func average(now *autoscalingv2.MetricValueStatus) string {
	if now == nil {
		return unknown
	}
	return now.AverageValue.String()
}

// utilization formats the average value if the target has one, otherwise the utilization in percent.
func utilization(now *autoscalingv2.MetricValueStatus, want *autoscalingv2.MetricTarget) string {
	if want.AverageValue != nil {
		return average(now) + "/" + want.AverageValue.String()
	}
	is, wanted := unknown, "<auto>"
	if now != nil && now.AverageUtilization != nil {
		is = fmt.Sprintf("%d%%", *now.AverageUtilization)
	}
	if want.AverageUtilization != nil {
		wanted = fmt.Sprintf("%d%%", *want.AverageUtilization)
	}
	return is + "/" + wanted
}
