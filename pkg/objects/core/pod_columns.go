package core

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/objects"
)

var (
	podStatusDoc = corev1.PodStatus{}.SwaggerDoc()
	podSpecDoc   = corev1.PodSpec{}.SwaggerDoc()
)

var podColumns = []objects.Column[*corev1.Pod]{
	objects.NameColumn[*corev1.Pod](),
	{Name: "Ready", Description: "The aggregate readiness state of this pod for accepting traffic.",
		Cell: func(p *corev1.Pod, _ time.Time) any {
			s := summarize(p)
			return fmt.Sprintf("%d/%d", s.ready, s.total)
		}},
	{Name: "Status", Description: "The aggregate status of the containers in this pod.",
		Cell: func(p *corev1.Pod, _ time.Time) any { return summarize(p).state }},
	{Name: "Restarts", Description: "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted.",
		Cell: func(p *corev1.Pod, now time.Time) any {
			s := summarize(p)
			if s.restarts.count == 0 || s.restarts.last.IsZero() {
				return fmt.Sprint(s.restarts.count)
			}
			return fmt.Sprintf("%d (%s ago)", s.restarts.count, objects.Age(s.restarts.last, now))
		}},
	objects.AgeColumn[*corev1.Pod](),
	{Name: "IP", Wide: true, Description: podStatusDoc["podIP"],
		Cell: func(p *corev1.Pod, _ time.Time) any { return orNone(podIP(p)) }},
	{Name: "Node", Wide: true, Description: podSpecDoc["nodeName"],
		Cell: func(p *corev1.Pod, _ time.Time) any { return orNone(p.Spec.NodeName) }},
	{Name: "Nominated Node", Wide: true, Description: podStatusDoc["nominatedNodeName"],
		Cell: func(p *corev1.Pod, _ time.Time) any { return orNone(p.Status.NominatedNodeName) }},
	{Name: "Readiness Gates", Wide: true, Description: podSpecDoc["readinessGates"],
		Cell: func(p *corev1.Pod, _ time.Time) any { return readinessGates(p) }},
}

// podCompleted returns the table row condition of a terminated pod.
func podCompleted(p *corev1.Pod) []metav1.TableRowCondition {
	ended := metav1.TableRowCondition{Type: metav1.RowCompleted, Status: metav1.ConditionTrue, Reason: string(p.Status.Phase)}
	switch p.Status.Phase {
	case corev1.PodSucceeded:
		ended.Message = "The pod has completed successfully."
	case corev1.PodFailed:
		ended.Message = "The pod failed."
	default:
		return nil
	}
	return []metav1.TableRowCondition{ended}
}

func orNone(s string) string {
	if s == "" {
		return "<none>"
	}
	return s
}

func readinessGates(p *corev1.Pod) string {
	if len(p.Spec.ReadinessGates) == 0 {
		return "<none>"
	}
	passed := 0
	for _, gate := range p.Spec.ReadinessGates {
		if conditionTrue(p, gate.ConditionType) {
			passed++
		}
	}
	return fmt.Sprintf("%d/%d", passed, len(p.Spec.ReadinessGates))
}

func conditionTrue(p *corev1.Pod, kind corev1.PodConditionType) bool {
	i := nth(p.Status.Conditions, kind, 0)
	return i >= 0 && p.Status.Conditions[i].Status == corev1.ConditionTrue
}
