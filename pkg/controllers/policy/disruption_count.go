package policy

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

// deletionTimeout is how long a pod whose eviction was allowed counts as disrupted although it is not being deleted.
const deletionTimeout = 2 * time.Minute

// needsScale reports whether the scale of the pods' owners decides how many pods a budget expects. Otherwise it expects the pods
// that exist.
func needsScale(spec *policyv1.PodDisruptionBudgetSpec) bool {
	return spec.MaxUnavailable != nil || spec.MinAvailable != nil && spec.MinAvailable.Type == intstr.String
}

// desiredHealthy returns how many of the expected pods must be healthy. Percentages are rounded up.
func desiredHealthy(spec *policyv1.PodDisruptionBudgetSpec, expected int32) (int32, error) {
	if spec.MaxUnavailable != nil {
		n, err := intstr.GetScaledValueFromIntOrPercent(spec.MaxUnavailable, int(expected), true)
		return max(expected-int32(n), 0), err
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(spec.MinAvailable, int(expected), true)
	return int32(n), err
}

// disruptions are the pods whose eviction was allowed and that are not being deleted yet.
type disruptions struct {
	pending    map[string]metav1.Time // by name, with the time of the eviction
	notDeleted []*corev1.Pod          // whose deletionTimeout is over
	recheck    time.Duration          // until the first of the pending ones times out; 0: there are none
}

// disruptedPods returns what remains of recorded, the disruptedPods of a budget's status.
func disruptedPods(pods []*corev1.Pod, recorded map[string]metav1.Time, now time.Time) disruptions {
	var d disruptions
	for _, p := range pods {
		at, ok := recorded[p.Name]
		if !ok || p.DeletionTimestamp != nil {
			continue
		}
		left := at.Add(deletionTimeout).Sub(now)
		if left <= 0 {
			d.notDeleted = append(d.notDeleted, p)
			continue
		}
		if d.pending == nil {
			d.pending = map[string]metav1.Time{}
		}
		d.pending[p.Name] = at
		if d.recheck == 0 || left < d.recheck {
			d.recheck = left
		}
	}
	return d
}

// countHealthy counts the pods that are Ready and neither being deleted nor about to be.
func countHealthy(pods []*corev1.Pod, pending map[string]metav1.Time) int32 {
	var n int32
	for _, p := range pods {
		if _, evicted := pending[p.Name]; !evicted && p.DeletionTimestamp == nil && controller.IsPodReady(p) {
			n++
		}
	}
	return n
}

// counts are the numbers of a budget's pods.
type counts struct{ healthy, desired, expected int32 }

// allowed returns how many pods may be disrupted. A budget that expects no pods allows none, or its first pods could be evicted
// before they are counted.
func (c counts) allowed() int32 {
	if c.expected <= 0 {
		return 0
	}
	return max(c.healthy-c.desired, 0)
}

// budgetStatus returns the status of a budget with these counts.
func budgetStatus(b *policyv1.PodDisruptionBudget, c counts, pending map[string]metav1.Time, now time.Time) policyv1.PodDisruptionBudgetStatus {
	status := policyv1.PodDisruptionBudgetStatus{
		CurrentHealthy: c.healthy, DesiredHealthy: c.desired, ExpectedPods: c.expected, DisruptionsAllowed: c.allowed(),
		DisruptedPods: pending, ObservedGeneration: b.Generation,
		Conditions: b.Status.DeepCopy().Conditions,
	}
	condition := metav1.Condition{Status: metav1.ConditionFalse, Reason: policyv1.InsufficientPodsReason}
	if status.DisruptionsAllowed > 0 {
		condition = metav1.Condition{Status: metav1.ConditionTrue, Reason: policyv1.SufficientPodsReason}
	}
	setAllowed(&status, condition, now)
	return status
}

// failedStatus returns the status of a budget whose pods can't be counted. It allows no disruption.
func failedStatus(b *policyv1.PodDisruptionBudget, err error, now time.Time) policyv1.PodDisruptionBudgetStatus {
	status := *b.Status.DeepCopy()
	status.DisruptionsAllowed = 0
	setAllowed(&status, metav1.Condition{Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason, Message: err.Error()}, now)
	return status
}

// setAllowed sets the condition DisruptionAllowed, whose transition time is that of the last change of its status.
func setAllowed(s *policyv1.PodDisruptionBudgetStatus, c metav1.Condition, now time.Time) {
	c.Type, c.ObservedGeneration, c.LastTransitionTime = policyv1.DisruptionAllowedCondition, s.ObservedGeneration, controller.WholeSeconds(now)
	meta.SetStatusCondition(&s.Conditions, c)
}

func sameStatus(a, b *policyv1.PodDisruptionBudgetStatus) bool {
	return equality.Semantic.DeepEqual(a, b)
}
