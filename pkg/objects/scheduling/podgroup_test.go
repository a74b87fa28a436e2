package scheduling_test

import (
	"testing"

	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/feature"
	"github.com/minikctl/minikctl/pkg/objects/scheduling"
)

func gangOf(n int32) schedulingv1alpha2.PodGroupSchedulingPolicy {
	return schedulingv1alpha2.PodGroupSchedulingPolicy{Gang: &schedulingv1alpha2.GangSchedulingPolicy{MinCount: n}}
}

func byTopology(keys ...string) *schedulingv1alpha2.PodGroupSchedulingConstraints {
	c := &schedulingv1alpha2.PodGroupSchedulingConstraints{}
	for _, key := range keys {
		c.Topology = append(c.Topology, schedulingv1alpha2.TopologyConstraint{Key: key})
	}
	return c
}

// TestPodGroup checks the validation of PodGroups, with Kubernetes' messages.
func TestPodGroup(t *testing.T) {
	row := objects.Row(scheduling.PodGroups(feature.All))
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
		{"topology", schedulingv1alpha2.PodGroupSpec{SchedulingPolicy: gangOf(1), SchedulingConstraints: byTopology("example.com/rack")}, ""},
		{"no topology", schedulingv1alpha2.PodGroupSpec{SchedulingPolicy: gangOf(1), SchedulingConstraints: byTopology()}, ""},
		{"two topologies", schedulingv1alpha2.PodGroupSpec{SchedulingPolicy: gangOf(1), SchedulingConstraints: byTopology("rack", "zone")},
			"spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item"},
		{"no key", schedulingv1alpha2.PodGroupSpec{SchedulingPolicy: gangOf(1), SchedulingConstraints: byTopology("")},
			"spec.schedulingConstraints.topology[0].key: Required value"},
		{"no label key", schedulingv1alpha2.PodGroupSpec{SchedulingPolicy: gangOf(1), SchedulingConstraints: byTopology("a/b/c")},
			"spec.schedulingConstraints.topology[0].key: Invalid value: \"a/b/c\": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"},
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
	row := objects.Row(scheduling.PodGroups(feature.Gates{GenericWorkload: true}))
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

// TestConstraintsOfUpdates checks what an update may do with the constraints of a PodGroup, while their gate is on and while it is off.
func TestConstraintsOfUpdates(t *testing.T) {
	on, off := feature.All, feature.Gates{GenericWorkload: true}
	rack, zone := byTopology("rack"), byTopology("zone")
	const immutable, forbidden = "spec.schedulingConstraints: Invalid value: null: field is immutable", "spec.schedulingConstraints: Forbidden"
	for _, x := range []struct {
		name     string
		gates    feature.Gates
		old, now *schedulingv1alpha2.PodGroupSchedulingConstraints
		stored   *schedulingv1alpha2.PodGroupSchedulingConstraints
		want     string
	}{
		{"on: same", on, rack, rack, rack, ""},
		{"on: added", on, nil, rack, rack, immutable},
		{"on: changed", on, rack, zone, zone, immutable},
		{"on: removed", on, rack, nil, nil, immutable},
		{"off: same", off, rack, rack, rack, ""},
		{"off: added", off, nil, rack, nil, ""},
		{"off: changed", off, rack, zone, zone, forbidden},
		{"off: removed", off, rack, nil, nil, ""},
	} {
		row := objects.Row(scheduling.PodGroups(x.gates))
		group := func(c *schedulingv1alpha2.PodGroupSchedulingConstraints) *schedulingv1alpha2.PodGroup {
			return &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "g", Namespace: "ns", ResourceVersion: "1"},
				Spec: schedulingv1alpha2.PodGroupSpec{SchedulingPolicy: gangOf(1), SchedulingConstraints: c.DeepCopy()}}
		}
		old, now := group(x.old), group(x.now)
		row.Prepare(now, old)
		got := ""
		if errs := row.Validate(now, old); len(errs) > 0 {
			got = errs.ToAggregate().Error()
		}
		if got != x.want || !equality.Semantic.DeepEqual(now.Spec.SchedulingConstraints, x.stored) {
			t.Errorf("%s: got %q and %v, want %q and %v", x.name, got, now.Spec.SchedulingConstraints, x.want, x.stored)
		}
	}
}

// TestConstraintsOfTemplates checks the constraints of the templates of a Workload.
func TestConstraintsOfTemplates(t *testing.T) {
	workload := func(c *schedulingv1alpha2.PodGroupSchedulingConstraints) *schedulingv1alpha2.Workload {
		return &schedulingv1alpha2.Workload{ObjectMeta: metav1.ObjectMeta{Name: "w", Namespace: "ns", ResourceVersion: "1"}, Spec: schedulingv1alpha2.WorkloadSpec{
			PodGroupTemplates: []schedulingv1alpha2.PodGroupTemplate{{Name: "t", SchedulingPolicy: gangOf(1), SchedulingConstraints: c}}}}
	}
	constraintsOf := func(w *schedulingv1alpha2.Workload) *schedulingv1alpha2.PodGroupSchedulingConstraints {
		return w.Spec.PodGroupTemplates[0].SchedulingConstraints
	}
	on, off := objects.Row(scheduling.Workloads(feature.All)), objects.Row(scheduling.Workloads(feature.Gates{GenericWorkload: true}))
	w := workload(byTopology("rack"))
	if on.Prepare(w, nil); constraintsOf(w) == nil {
		t.Error("constraints are dropped while their gate is on")
	}
	if off.Prepare(w, workload(byTopology("rack"))); constraintsOf(w) == nil {
		t.Error("constraints that the Workload had are dropped")
	}
	if off.Prepare(w, nil); constraintsOf(w) != nil {
		t.Error("constraints are stored while their gate is off")
	}
	errs := on.Validate(workload(byTopology("rack", "zone")), nil)
	if len(errs) != 1 || errs[0].Error() != "spec.podGroupTemplates[0].schedulingConstraints.topology: Too many: 2: must have at most 1 item" {
		t.Errorf("two topologies: %v", errs)
	}
}
