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
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
)

// hpa is short for the long name of the only kind here.
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
	New:     func() *hpa { return &hpa{} },
	NewList: func() runtime.Object { return &autoscalingv2.HorizontalPodAutoscalerList{} },
	Default: defaultHPA,
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

// withRules fills what rules leave out.
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

// targets shows the first two metrics and how many there are besides.
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

// target shows what is and what shall be of one metric.
func target(m *autoscalingv2.MetricSpec, is *autoscalingv2.MetricStatus) string {
	var current *autoscalingv2.MetricValueStatus
	switch {
	case m.Pods != nil:
		if is.Pods != nil {
			current = &is.Pods.Current
		}
		return pair(current, &m.Pods.Target, false)
	case m.Object != nil:
		if is.Object != nil {
			current = &is.Object.Current
		}
		return pair(current, &m.Object.Target, true)
	case m.External != nil:
		if is.External != nil {
			current = &is.External.Current
		}
		return pair(current, &m.External.Target, true)
	case m.Resource != nil:
		if is.Resource != nil {
			current = &is.Resource.Current
		}
		return fmt.Sprintf("%s: %s", m.Resource.Name, pair(current, &m.Resource.Target, false))
	case m.ContainerResource != nil:
		if is.ContainerResource != nil {
			current = &is.ContainerResource.Current
		}
		return fmt.Sprintf("%s: %s", m.ContainerResource.Name, pair(current, &m.ContainerResource.Target, false))
	}
	return "<unknown type>"
}

// pair shows the average per pod, the utilization, or, where marked, that the value is an average.
func pair(current *autoscalingv2.MetricValueStatus, want *autoscalingv2.MetricTarget, marked bool) string {
	is, average := "<unknown>", ""
	switch {
	case want.AverageValue != nil:
		if current != nil && current.AverageValue != nil {
			is = current.AverageValue.String()
		}
		if marked {
			average = " (avg)"
		}
		return is + "/" + want.AverageValue.String() + average
	case want.AverageUtilization != nil:
		if current != nil && current.AverageUtilization != nil {
			is = fmt.Sprintf("%d%%", *current.AverageUtilization)
		}
		return fmt.Sprintf("%s/%d%%", is, *want.AverageUtilization)
	}
	if current != nil && current.Value != nil {
		is = current.Value.String()
	}
	return is + "/" + quantity(want.Value)
}

func quantity(q *resource.Quantity) string {
	if q == nil {
		return "<auto>"
	}
	return q.String()
}
