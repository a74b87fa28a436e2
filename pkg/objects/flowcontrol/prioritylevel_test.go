package flowcontrol

import (
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestLevels(t *testing.T) {
	level := func(change func(*flowcontrolv1.PriorityLevelConfiguration)) *flowcontrolv1.PriorityLevelConfiguration {
		l := &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "l"}, Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: "Limited", Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{LimitResponse: flowcontrolv1.LimitResponse{Type: "Queue"}},
		}}
		change(l)
		defaultLevel(l)
		return l
	}
	for name, c := range map[string]struct {
		change func(*flowcontrolv1.PriorityLevelConfiguration)
		want   string
	}{
		"plain": {func(l *flowcontrolv1.PriorityLevelConfiguration) {
			l.Spec.Limited.LimitResponse.Queuing = &flowcontrolv1.QueuingConfiguration{}
		}, ""},
		"annotation": {func(l *flowcontrolv1.PriorityLevelConfiguration) {
			l.Spec.Limited.LimitResponse.Type = "Reject"
			l.Annotations = map[string]string{keepZero: ""}
		}, "metadata.annotations: Forbidden: annotation 'flowcontrol.k8s.io/preserve-zero-concurrency-shares' is forbidden"},
		"exempt by another name": {func(l *flowcontrolv1.PriorityLevelConfiguration) {
			l.Spec = flowcontrolv1.PriorityLevelConfigurationSpec{Type: "Exempt"}
		}, "spec.type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'"},
		"hands": {func(l *flowcontrolv1.PriorityLevelConfiguration) {
			l.Spec.Limited.LimitResponse.Queuing = &flowcontrolv1.QueuingConfiguration{Queues: 4, HandSize: 5, QueueLengthLimit: 1}
		}, "spec.limited.limitResponse.queuing.handSize: Invalid value: 5: should not be greater than queues (4)"},
	} {
		got := ""
		if err := validateLevel(level(c.change), nil).ToAggregate(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
