package autoscaling

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slices"
)

// setCondition sets a condition of the status. Its time is that of the last change of the condition's value.
func setCondition(st *autoscalingv2.HorizontalPodAutoscalerStatus, kind autoscalingv2.HorizontalPodAutoscalerConditionType, holds bool,
	reason, message string, now metav1.Time,
) {
	status := corev1.ConditionFalse
	if holds {
		status = corev1.ConditionTrue
	}
	i := slices.IndexFunc(st.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool { return c.Type == kind })
	if i < 0 {
		i = len(st.Conditions)
		st.Conditions = append(st.Conditions, autoscalingv2.HorizontalPodAutoscalerCondition{Type: kind})
	}
	c := &st.Conditions[i]
	if c.Status != status {
		c.LastTransitionTime = now
	}
	c.Status, c.Reason, c.Message = status, reason, message
}

// dropScaledToZero removes the condition ScaledToZero, which only an optional feature of Kubernetes sets.
func dropScaledToZero(st *autoscalingv2.HorizontalPodAutoscalerStatus) {
	st.Conditions = slices.DeleteFunc(st.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool {
		return c.Type == autoscalingv2.ScaledToZero
	})
}
