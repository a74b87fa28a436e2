package autoscaling

import (
	"context"
	"errors"
	"fmt"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// proposal is the number of replicas that one metric requires.
type proposal struct {
	replicas int32
	metric   string // its description in conditions and Events
	status   autoscalingv2.MetricStatus
}

// metricError is why a metric requires no number of replicas.
type metricError struct {
	reason string // of the Event and the condition
	err    error  // their message
	all    error  // err with the name of the metric, for the message about all metrics
}

func (m *metricError) Error() string { return m.all.Error() }

// evaluation is one look at an autoscaler's metrics.
type evaluation struct {
	hpa      *autoscalingv2.HorizontalPodAutoscaler
	scale    *autoscalingv1.Scale
	selector labels.Selector // of the target's pods
	source   source
	pods     func() []*corev1.Pod // that selector matches
	now      time.Time
}

// tolerances returns those of the autoscaler.
func (e *evaluation) tolerances() tolerances {
	t := tolerances{defaultTolerance, defaultTolerance}
	b := e.hpa.Spec.Behavior
	if b == nil {
		return t
	}
	if b.ScaleDown != nil && b.ScaleDown.Tolerance != nil {
		t.down = b.ScaleDown.Tolerance.AsApproximateFloat64()
	}
	if b.ScaleUp != nil && b.ScaleUp.Tolerance != nil {
		t.up = b.ScaleUp.Tolerance.AsApproximateFloat64()
	}
	return t
}

// defaultTolerance is that of an autoscaler without its own.
const defaultTolerance = 0.1

// propose computes the replicas that a metric requires. Its errors are *metricError.
func (e *evaluation) propose(ctx context.Context, m *autoscalingv2.MetricSpec) (proposal, error) {
	switch m.Type {
	case autoscalingv2.ObjectMetricSourceType:
		return named("FailedGetObjectMetric", "object")(e.object(m.Object))
	case autoscalingv2.PodsMetricSourceType:
		return named("FailedGetPodsMetric", "pods")(e.perPod(m.Pods))
	case autoscalingv2.ResourceMetricSourceType:
		return named("FailedGetResourceMetric", string(m.Resource.Name)+" resource")(e.resource(ctx, m.Resource))
	case autoscalingv2.ContainerResourceMetricSourceType:
		return named("FailedGetContainerResourceMetric", m.ContainerResource.Container+" container")(e.container(ctx, m.ContainerResource))
	case autoscalingv2.ExternalMetricSourceType:
		return named("FailedGetExternalMetric", m.External.Metric.Name+" external")(e.external(m.External))
	}
	err := fmt.Errorf("unknown metric source type %q", string(m.Type))
	return proposal{}, &metricError{"InvalidMetricSourceType", err, err}
}

// named adds the reason and the name of a metric to its error.
func named(reason, name string) func(proposal, error) (proposal, error) {
	return func(p proposal, err error) (proposal, error) {
		if err == nil {
			return p, nil
		}
		shown := err
		if p, ok := errors.AsType[prefixed](err); ok {
			shown = p.error
		}
		return proposal{}, &metricError{reason, shown, fmt.Errorf("failed to get %s metric value: %w", name, err)}
	}
}

// prefixed is an error with a prefix that the Event and the condition of the metric don't have.
type prefixed struct {
	prefix string
	error
}

func (p prefixed) Error() string { return p.prefix + p.error.Error() }

func (p prefixed) Unwrap() error { return p.error }

// resource handles a metric of all containers of each pod.
func (e *evaluation) resource(ctx context.Context, m *autoscalingv2.ResourceMetricSource) (proposal, error) {
	replicas, current, name, err := e.compute(ctx, m.Name, "", &m.Target)
	return proposal{replicas, name, autoscalingv2.MetricStatus{
		Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricStatus{Name: m.Name, Current: current},
	}}, err
}

// container handles a metric of one container of each pod.
func (e *evaluation) container(ctx context.Context, m *autoscalingv2.ContainerResourceMetricSource) (proposal, error) {
	replicas, current, name, err := e.compute(ctx, m.Name, m.Container, &m.Target)
	return proposal{replicas, name, autoscalingv2.MetricStatus{
		Type:              autoscalingv2.ContainerResourceMetricSourceType,
		ContainerResource: &autoscalingv2.ContainerResourceMetricStatus{Name: m.Name, Container: m.Container, Current: current},
	}}, err
}

// compute computes the replicas for a resource of the pods, or of one of their containers.
func (e *evaluation) compute(ctx context.Context, name corev1.ResourceName, container string, target *autoscalingv2.MetricTarget) (
	replicas int32, current autoscalingv2.MetricValueStatus, metric string, err error,
) {
	what := "utilization"
	switch {
	case target.AverageValue != nil:
		what = "usage"
	case target.AverageUtilization == nil:
		return 0, current, "", errors.New("invalid resource metric source: neither an average utilization target nor an average value (usage) target was set")
	}
	values, err := e.source.resource(ctx, name, e.hpa.Namespace, e.selector, container)
	if err != nil {
		return 0, current, "", fmt.Errorf("failed to get %s %s: unable to get metrics for resource %s: %w", name, what, name, err)
	}
	m := e.podMetric(values)
	m.resource = name
	m.target = func() (podTarget, error) {
		if target.AverageValue != nil {
			return averageTarget(target.AverageValue.MilliValue()), nil
		}
		requests, err := requestsOf(m.pods, container, name)
		return utilizationTarget{*target.AverageUtilization, requests}, err
	}
	replicas, seen, err := m.desired()
	if err != nil {
		return 0, current, "", fmt.Errorf("failed to get %s %s: %w", name, what, err)
	}
	current.AverageValue = quantityOf(name, seen.average)
	switch {
	case target.AverageValue != nil:
		return replicas, current, fmt.Sprintf("%s resource", name), nil
	case container != "":
		metric = fmt.Sprintf("%s container resource utilization (percentage of request)", name)
	default:
		metric = fmt.Sprintf("%s resource utilization (percentage of request)", name)
	}
	current.AverageUtilization = &seen.utilization
	return replicas, current, metric, nil
}

// quantityOf returns a quantity of thousandths in the format that the resource has in the API of metrics.
func quantityOf(name corev1.ResourceName, milli int64) *resource.Quantity {
	if name == corev1.ResourceMemory {
		return resource.NewMilliQuantity(milli, resource.BinarySI)
	}
	return decimal(milli)
}

func decimal(milli int64) *resource.Quantity {
	return resource.NewMilliQuantity(milli, resource.DecimalSI)
}

// perPod handles a metric of the custom metrics API that each pod has.
func (e *evaluation) perPod(m *autoscalingv2.PodsMetricSource) (proposal, error) {
	selector, err := metav1.LabelSelectorAsSelector(m.Metric.Selector)
	if err != nil {
		return proposal{}, err
	}
	values, err := e.source.ofPods(m.Metric.Name, e.hpa.Namespace, e.selector, selector)
	if err != nil {
		return proposal{}, fmt.Errorf("unable to get metric %s: %w", m.Metric.Name, err)
	}
	metric := e.podMetric(values)
	metric.target = func() (podTarget, error) { return averageTarget(m.Target.AverageValue.MilliValue()), nil }
	replicas, seen, err := metric.desired()
	return proposal{replicas, "pods metric " + m.Metric.Name, autoscalingv2.MetricStatus{
		Type: autoscalingv2.PodsMetricSourceType,
		Pods: &autoscalingv2.PodsMetricStatus{Metric: m.Metric, Current: autoscalingv2.MetricValueStatus{AverageValue: decimal(seen.average)}},
	}}, err
}

// podMetric returns a metric of the target's pods without its target.
func (e *evaluation) podMetric(values samples) podMetric {
	return podMetric{replicas: e.scale.Spec.Replicas, pods: e.pods(), samples: values, tolerances: e.tolerances(), now: e.now}
}

// object handles a metric of one object.
func (e *evaluation) object(m *autoscalingv2.ObjectMetricSource) (proposal, error) {
	selector, err := metav1.LabelSelectorAsSelector(m.Metric.Selector)
	if err != nil {
		return proposal{}, err
	}
	byValue := m.Target.Type == autoscalingv2.ValueMetricType && m.Target.Value != nil
	if !byValue && (m.Target.Type != autoscalingv2.AverageValueMetricType || m.Target.AverageValue == nil) {
		return proposal{}, errors.New("invalid object metric source: neither a value target nor an average value target was set")
	}
	object := m.DescribedObject
	value, err := e.source.ofObject(m.Metric.Name, e.hpa.Namespace, object, selector)
	if err != nil {
		err = fmt.Errorf("unable to get metric %s: %s on %s %s/%w", m.Metric.Name, object.Kind, e.hpa.Namespace, object.Name, err)
	}
	shared := sharedMetric{value: value, tolerances: e.tolerances()}
	status := &autoscalingv2.ObjectMetricStatus{DescribedObject: object, Metric: m.Metric}
	p := proposal{status: autoscalingv2.MetricStatus{Type: autoscalingv2.ObjectMetricSourceType, Object: status}}
	if byValue {
		if err != nil {
			return proposal{}, err
		}
		shared.target = m.Target.Value.MilliValue()
		p.metric, status.Current.Value = fmt.Sprintf("%s metric %s", object.Kind, m.Metric.Name), decimal(value)
		p.replicas, err = shared.desired(e.scale.Spec.Replicas, e.pods())
		return p, err
	}
	if err != nil {
		return proposal{}, prefixed{fmt.Sprintf("failed to get %s object metric: ", m.Metric.Name), err}
	}
	shared.target = m.Target.AverageValue.MilliValue()
	var average int64
	p.replicas, average = shared.desiredPerPod(e.scale.Status.Replicas)
	p.metric, status.Current.AverageValue = fmt.Sprintf("external metric %s(%+v)", m.Metric.Name, m.Metric.Selector), decimal(average)
	return p, nil
}

// external handles a metric that is not of the cluster.
func (e *evaluation) external(m *autoscalingv2.ExternalMetricSource) (proposal, error) {
	average, value := m.Target.AverageValue, m.Target.Value
	if average == nil && value == nil {
		return proposal{}, errors.New("invalid external metric source: neither a value target nor an average value target was set")
	}
	total, err := e.externalTotal(&m.Metric)
	shared := sharedMetric{value: total, tolerances: e.tolerances()}
	status := &autoscalingv2.ExternalMetricStatus{Metric: m.Metric}
	p := proposal{
		metric: fmt.Sprintf("external metric %s(%+v)", m.Metric.Name, m.Metric.Selector),
		status: autoscalingv2.MetricStatus{Type: autoscalingv2.ExternalMetricSourceType, External: status},
	}
	if average != nil {
		if err != nil {
			return proposal{}, prefixed{fmt.Sprintf("failed to get %s external metric: ", m.Metric.Name), err}
		}
		shared.target = average.MilliValue()
		var perPod int64
		p.replicas, perPod = shared.desiredPerPod(e.scale.Status.Replicas)
		status.Current.AverageValue = decimal(perPod)
		return p, nil
	}
	if err == nil {
		shared.target = value.MilliValue()
		status.Current.Value = decimal(total)
		p.replicas, err = shared.desired(e.scale.Spec.Replicas, e.pods())
	}
	if err != nil {
		return proposal{}, prefixed{fmt.Sprintf("failed to get external metric %s: ", m.Metric.Name), err}
	}
	return p, nil
}

// externalTotal returns the sum of the values of an external metric.
func (e *evaluation) externalTotal(m *autoscalingv2.MetricIdentifier) (int64, error) {
	selector, err := metav1.LabelSelectorAsSelector(m.Selector)
	if err != nil {
		return 0, err
	}
	values, err := e.source.external(m.Name, e.hpa.Namespace, selector)
	if err != nil {
		return 0, fmt.Errorf("unable to get external metric %s/%s/%+v: %w", e.hpa.Namespace, m.Name, m.Selector, err)
	}
	return sum(values), nil
}
