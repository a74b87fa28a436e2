package autoscaling

import (
	"encoding/json"
	"fmt"
	"maps"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

// autoscaling/v1 has only a CPU target. It keeps everything else in annotations.
const (
	metricsNote    = "autoscaling.alpha.kubernetes.io/metrics"
	currentNote    = "autoscaling.alpha.kubernetes.io/current-metrics"
	conditionsNote = "autoscaling.alpha.kubernetes.io/conditions"
	behaviorNote   = "autoscaling.alpha.kubernetes.io/behavior"
)

// shownBehavior is the encoding of a behavior in its annotation, which has the names of Go fields.
type shownBehavior struct{ ScaleUp, ScaleDown *shownRules }

type shownRules struct {
	StabilizationWindowSeconds *int32
	SelectPolicy               *autoscalingv2.ScalingPolicySelect
	Policies                   []shownPolicy
	Tolerance                  *resource.Quantity `json:",omitempty"`
}

type shownPolicy struct {
	Type          autoscalingv2.HPAScalingPolicyType
	Value         int32
	PeriodSeconds int32
}

func showRules(r *autoscalingv2.HPAScalingRules) *shownRules {
	if r == nil {
		return nil
	}
	out := &shownRules{StabilizationWindowSeconds: r.StabilizationWindowSeconds, SelectPolicy: r.SelectPolicy, Tolerance: r.Tolerance}
	for _, p := range r.Policies {
		out.Policies = append(out.Policies, shownPolicy(p))
	}
	return out
}

// note sets an annotation to the JSON of v.
func note(annotations map[string]string, name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode annotation %s: %w", name, err)
	}
	annotations[name] = string(b)
	return nil
}

// take decodes an annotation into v and removes it. It reports false for a missing or malformed one.
func take(annotations map[string]string, name string, v any) bool {
	text, ok := annotations[name]
	delete(annotations, name)
	return ok && json.Unmarshal([]byte(text), v) == nil
}

func toV1(h *hpa) (runtime.Object, error) {
	out := &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: *h.ObjectMeta.DeepCopy()}
	out.Spec.ScaleTargetRef = autoscalingv1.CrossVersionObjectReference(h.Spec.ScaleTargetRef)
	h = h.DeepCopy()
	out.Spec.MinReplicas, out.Spec.MaxReplicas = h.Spec.MinReplicas, h.Spec.MaxReplicas
	out.Status = autoscalingv1.HorizontalPodAutoscalerStatus{ObservedGeneration: h.Status.ObservedGeneration, LastScaleTime: h.Status.LastScaleTime,
		CurrentReplicas: h.Status.CurrentReplicas, DesiredReplicas: h.Status.DesiredReplicas}
	notes := map[string]string{}
	metrics := []autoscalingv1.MetricSpec{}
	for i := range h.Spec.Metrics {
		m := &h.Spec.Metrics[i]
		if isCPU(m) && out.Spec.TargetCPUUtilizationPercentage == nil {
			out.Spec.TargetCPUUtilizationPercentage = m.Resource.Target.AverageUtilization
			continue
		}
		metrics = append(metrics, metricToV1(m))
	}
	current := []autoscalingv1.MetricStatus{}
	for i := range h.Status.CurrentMetrics {
		m := &h.Status.CurrentMetrics[i]
		if m.Resource != nil && m.Resource.Name == corev1.ResourceCPU && m.Resource.Current.AverageUtilization != nil {
			out.Status.CurrentCPUUtilizationPercentage = m.Resource.Current.AverageUtilization
		}
		current = append(current, statusToV1(m))
	}
	var errs [4]error
	if len(metrics) > 0 {
		errs[0] = note(notes, metricsNote, metrics)
	}
	if len(current) > 0 {
		errs[1] = note(notes, currentNote, current)
	}
	if len(h.Status.Conditions) > 0 {
		errs[2] = note(notes, conditionsNote, h.Status.Conditions)
	}
	if b := h.Spec.Behavior; b != nil {
		errs[3] = note(notes, behaviorNote, shownBehavior{showRules(b.ScaleUp), showRules(b.ScaleDown)})
	}
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	if len(notes) > 0 {
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		maps.Copy(out.Annotations, notes)
	}
	return out, nil
}

func isCPU(m *autoscalingv2.MetricSpec) bool {
	return m.Resource != nil && m.Resource.Name == corev1.ResourceCPU && m.Resource.Target.AverageUtilization != nil
}

func fromV1(obj runtime.Object) (*hpa, error) {
	in, ok := obj.(*autoscalingv1.HorizontalPodAutoscaler)
	if !ok {
		return nil, fmt.Errorf("convert %T to autoscaling/v2: not a HorizontalPodAutoscaler of v1", obj)
	}
	in = in.DeepCopy()
	out := &hpa{ObjectMeta: in.ObjectMeta}
	out.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{MinReplicas: in.Spec.MinReplicas, MaxReplicas: in.Spec.MaxReplicas,
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference(in.Spec.ScaleTargetRef)}
	out.Status = autoscalingv2.HorizontalPodAutoscalerStatus{ObservedGeneration: in.Status.ObservedGeneration, LastScaleTime: in.Status.LastScaleTime,
		CurrentReplicas: in.Status.CurrentReplicas, DesiredReplicas: in.Status.DesiredReplicas}
	if cpu := in.Spec.TargetCPUUtilizationPercentage; cpu != nil {
		out.Spec.Metrics = append(out.Spec.Metrics, cpuMetric(*cpu))
	}
	var metrics []autoscalingv1.MetricSpec
	if take(out.Annotations, metricsNote, &metrics) {
		for i := range metrics {
			out.Spec.Metrics = append(out.Spec.Metrics, metricFromV1(&metrics[i]))
		}
	}
	var current []autoscalingv1.MetricStatus
	if take(out.Annotations, currentNote, &current) {
		for i := range current {
			out.Status.CurrentMetrics = append(out.Status.CurrentMetrics, statusFromV1(&current[i]))
		}
	} else if cpu := in.Status.CurrentCPUUtilizationPercentage; cpu != nil {
		out.Status.CurrentMetrics = append(out.Status.CurrentMetrics, autoscalingv2.MetricStatus{Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricStatus{Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageUtilization: cpu}}})
	}
	take(out.Annotations, conditionsNote, &out.Status.Conditions)
	var behavior autoscalingv2.HorizontalPodAutoscalerBehavior // its names differ from the annotation's only in case
	if take(out.Annotations, behaviorNote, &behavior) {
		out.Spec.Behavior = &behavior
	}
	if len(out.Annotations) == 0 {
		out.Annotations = nil
	}
	return out, nil
}
