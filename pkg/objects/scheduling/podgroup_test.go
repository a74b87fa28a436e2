package scheduling_test

import (
	"testing"

	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/scheduling"
)

func gangOf(n int32) schedulingv1alpha2.PodGroupSchedulingPolicy {
	return schedulingv1alpha2.PodGroupSchedulingPolicy{Gang: &schedulingv1alpha2.GangSchedulingPolicy{MinCount: n}}
}

// TestPodGroup checks the validation of PodGroups, with Kubernetes' messages.
func TestPodGroup(t *testing.T) {
	row := objects.Row(scheduling.PodGroups())
	both := gangOf(1)
	both.Basic = &schedulingv1alpha2.BasicSchedulingPolicy{}
	for _, x := range []struct {
		name string
		spec schedulingv1alpha2.PodGroupSpec
		want string // "" is valid
	}{
		{"gang", schedulingv1alpha2.PodGroupSpec{SchedulingPolicy: gangOf(1)}, ""},
		{"no policy", schedulingv1alpha2.PodGroupSpec{}, "spec.schedulingPolicy: Invalid value: \"\": must specify one of: `basic`, `gang`"},
		{"both", schedulingv1alpha2.PodGroupSpec{SchedulingPolicy: both}, "spec.schedulingPolicy: Invalid value: \"{basic, gang}\": must specify exactly one of: `basic`, `gang`"},
		{"zero", schedulingv1alpha2.PodGroupSpec{SchedulingPolicy: gangOf(0)}, "spec.schedulingPolicy.gang.minCount: Required value"},
		{"negative", schedulingv1alpha2.PodGroupSpec{SchedulingPolicy: gangOf(-1)}, "spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1"},
		{"no workload", schedulingv1alpha2.PodGroupSpec{SchedulingPolicy: gangOf(1), PodGroupTemplateRef: &schedulingv1alpha2.PodGroupTemplateReference{}},
			"spec.podGroupTemplateRef: Invalid value: \"\": must specify one of: `workload`"},
	} {
		g := &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "g", Namespace: "ns"}, Spec: x.spec}
		got := ""
		if errs := row.Validate(g, nil); len(errs) > 0 {
			got = errs.ToAggregate().Error()
		}
		if got != x.want {
			t.Errorf("%s: got %s, want %s", x.name, got, x.want)
		}
	}
	old := &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "g", Namespace: "ns", ResourceVersion: "1"}, Spec: schedulingv1alpha2.PodGroupSpec{SchedulingPolicy: gangOf(1)}}
	changed := old.DeepCopy()
	changed.Spec.SchedulingPolicy = gangOf(2)
	if errs := row.Validate(changed, old); len(errs) != 1 || errs[0].Field != "spec.schedulingPolicy" || errs[0].Detail != "field is immutable" {
		t.Errorf("a changed policy: %v", errs)
	}
}

// TestGatedFields checks that the fields of feature gates that are off are dropped, and that the disruption mode has its default.
func TestGatedFields(t *testing.T) {
	row := objects.Row(scheduling.PodGroups())
	g := &schedulingv1alpha2.PodGroup{Spec: schedulingv1alpha2.PodGroupSpec{
		SchedulingPolicy: gangOf(1), PriorityClassName: "high", Priority: new(int32(1)),
		SchedulingConstraints: &schedulingv1alpha2.PodGroupSchedulingConstraints{}, DisruptionMode: new(schedulingv1alpha2.DisruptionModePodGroup),
	}}
	row.Default(g)
	row.Prepare(g, nil)
	if s := g.Spec; s.PriorityClassName != "" || s.Priority != nil || s.SchedulingConstraints != nil || *s.DisruptionMode != schedulingv1alpha2.DisruptionModePod {
		t.Errorf("got %+v", s)
	}
}
