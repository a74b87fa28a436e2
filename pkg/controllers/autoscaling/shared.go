package autoscaling

import (
	"errors"
	"math"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

// sharedMetric is a metric with one value for all pods: of an object, or external. Values are in thousandths.
type sharedMetric struct {
	value      int64
	target     int64
	tolerances tolerances
}

// desired returns the number of replicas that bring the value to the target. From zero replicas, the ratio alone decides.
func (m sharedMetric) desired(replicas int32, pods []*corev1.Pod) (int32, error) {
	ratio := float64(m.value) / float64(m.target)
	switch {
	case replicas == 0:
		return ceil(ratio), nil
	case m.tolerances.within(ratio):
		return replicas, nil
	case len(pods) == 0:
		return 0, errors.New("unable to calculate ready pods: no pods returned by selector while calculating replica count")
	}
	ready := 0
	for _, p := range pods {
		if p.Status.Phase == corev1.PodRunning && controller.IsPodReady(p) {
			ready++
		}
	}
	return ceil(ratio * float64(ready)), nil
}

// desiredPerPod returns the number of replicas that bring the value per replica to the target, and the value per current replica.
func (m sharedMetric) desiredPerPod(replicas int32) (next int32, average int64) {
	next = replicas
	if !m.tolerances.within(float64(m.value) / (float64(m.target) * float64(replicas))) {
		next = ceil(float64(m.value) / float64(m.target))
	}
	switch perPod := math.Ceil(float64(m.value) / float64(replicas)); {
	case m.value == math.MaxInt64, perPod >= math.MaxInt64:
		return next, math.MaxInt64
	case math.IsNaN(perPod): // value and replicas are 0
		return next, 0
	default:
		return next, int64(perPod)
	}
}

// sum adds values and returns the greatest number where the sum overflows.
func sum(values []int64) int64 {
	var total int64
	for _, v := range values {
		if v > 0 && total > math.MaxInt64-v {
			return math.MaxInt64
		}
		total += v
	}
	return total
}
