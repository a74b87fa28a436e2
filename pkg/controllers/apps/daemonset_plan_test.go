package apps

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// daemonPods returns pods written as "NODE TRAITS…": old or new, ready, deleted, failed, succeeded, unbound. Their names are the texts, and each is a
// second younger than the one before.
func daemonPods(texts ...string) []*corev1.Pod {
	var out []*corev1.Pod
	for i, text := range texts {
		traits := strings.Fields(text)
		p := runningPod(text, func(p *corev1.Pod) {
			p.CreationTimestamp = metav1.NewTime(noon.Add(time.Duration(i) * time.Second))
			p.Spec.NodeName = traits[0]
			p.Labels = map[string]string{hashLabel: "old"}
		})
		has := func(trait string) bool { return slices.Contains(traits, trait) }
		if has("new") {
			p.Labels[hashLabel] = "new"
		}
		if !has("ready") {
			p.Status.Conditions = nil
		}
		if has("deleted") {
			p.DeletionTimestamp = &metav1.Time{Time: noon}
		}
		if has("failed") {
			p.Status.Phase = corev1.PodFailed
		}
		if has("succeeded") {
			p.Status.Phase = corev1.PodSucceeded
		}
		if has("unbound") {
			p.Spec.NodeName = ""
			bindTo(&p.Spec, traits[0])
		}
		out = append(out, p)
	}
	return out
}

// daemonNodes returns nodes written as "NAME TAINT": a taint noschedule or noexecute, or none.
func daemonNodes(texts ...string) []*corev1.Node {
	var out []*corev1.Node
	for _, text := range texts {
		name, taint, _ := strings.Cut(text, " ")
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if effect := map[string]corev1.TaintEffect{"noschedule": "NoSchedule", "noexecute": "NoExecute"}[taint]; effect != "" {
			n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: effect}}
		}
		out = append(out, n)
	}
	return out
}

func rollingSet(maxUnavailable, maxSurge string) *appsv1.DaemonSet {
	u, s := intstr.Parse(maxUnavailable), intstr.Parse(maxSurge)
	return &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
		Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &u, MaxSurge: &s},
	}}}
}

// planText returns what a plan creates and deletes, sorted.
func planText(p daemonPlan) string {
	var out []string
	for _, n := range p.create {
		out = append(out, "+"+n)
	}
	for _, pod := range p.remove {
		out = append(out, "-"+pod.Name)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func TestPlanNodes(t *testing.T) {
	for _, c := range []struct {
		name, surge string
		nodes, pods []string
		inBackoff   bool
		want        string
	}{
		{"new nodes", "0", []string{"a", "b"}, nil, false, "+a, +b"},
		{"complete", "0", []string{"a"}, []string{"a new ready"}, false, ""},
		{"not before the pod is gone", "0", []string{"a"}, []string{"a new deleted"}, false, ""},
		{"with surge before the pod is gone", "1", []string{"a"}, []string{"a new deleted"}, false, "+a"},
		{"pod that ended while it was deleted", "0", []string{"a"}, []string{"a new deleted failed"}, false, "+a"},
		{"surplus pods, the oldest stays", "0", []string{"a"}, []string{"a new ready", "a new"}, false, "-a new"},
		{"bound pod stays", "0", []string{"a"}, []string{"a new unbound", "a new ready"}, false, "-a new unbound"},
		{"failed", "0", []string{"a"}, []string{"a new failed"}, false, "-a new failed"},
		{"failed, in back-off", "0", []string{"a"}, []string{"a new failed"}, true, ""},
		{"succeeded, in back-off", "0", []string{"a"}, []string{"a new succeeded"}, true, "-a new succeeded"},
		{"tainted nodes", "0", []string{"a noschedule", "b noexecute"}, nil, false, ""},
		{"NoSchedule keeps pods", "0", []string{"a noschedule"}, []string{"a new ready"}, false, ""},
		{"NoExecute deletes pods", "0", []string{"a noexecute"}, []string{"a new ready", "a new deleted"}, false, "-a new ready"},
		{"node is gone", "0", nil, []string{"a new ready", "b new unbound"}, false, "-b new unbound"},
		{"surge keeps a ready old pod beside a new one", "1", []string{"a"}, []string{"a old ready", "a new"}, false, ""},
		{"surge deletes an old pod that is not ready", "1", []string{"a"}, []string{"a old", "a new"}, false, "-a old"},
		{"surge deletes an old pod beside an available one", "1", []string{"a"}, []string{"a old ready", "a new ready"}, false, "-a old ready"},
		{"surge deletes further pods", "1", []string{"a"}, []string{"a old ready", "a new", "a new x"}, false, "-a new x"},
	} {
		s := newDaemonSync(rollingSet("1", c.surge), "new", daemonNodes(c.nodes...), daemonPods(c.pods...))
		s.now = noon
		plan := s.planNodes(func(string) time.Duration {
			if c.inBackoff {
				return time.Minute
			}
			return 0
		})
		if got := planText(plan); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
		if waits := plan.wait == time.Minute; waits != (c.name == "failed, in back-off") {
			t.Errorf("%s: waits %v", c.name, plan.wait)
		}
	}
}

func TestPlanUpdate(t *testing.T) {
	four := []string{"a", "b", "c", "d"}
	for _, c := range []struct {
		name, unavailable, surge string
		nodes, pods              []string
		want                     string
	}{
		{"one", "1", "0", four, []string{"a old ready", "b old ready", "c old ready", "d new ready"}, "-a old ready"},
		{"half", "50%", "0", four, []string{"a old ready", "b old ready", "c old ready", "d old ready"}, "-a old ready, -b old ready"},
		{"percentages round up", "26%", "0", four, []string{"a old ready", "b old ready", "c old ready", "d old ready"}, "-a old ready, -b old ready"},
		{"neither is one", "0", "0", four, []string{"a old ready", "b old ready", "c old ready", "d old ready"}, "-a old ready"},
		{"new pod not ready", "1", "0", four, []string{"a new", "b old ready", "c old ready", "d old ready"}, ""},
		{"pod being deleted", "1", "0", four, []string{"a old deleted", "b old ready", "c old ready", "d old ready"}, ""},
		{"node without a pod", "1", "0", four, []string{"b old ready", "c old ready", "d old ready"}, ""},
		{"all that are not available", "1", "0", four, []string{"a old", "b old", "c old ready", "d old ready"}, "-a old, -b old"},
		{"done", "1", "0", four, []string{"a new ready", "b new ready", "c new ready", "d new ready"}, ""},
		{"surge of one", "0", "1", four, []string{"a old ready", "b old ready", "c old ready", "d new ready"}, "+a"},
		{"surge of half", "0", "50%", four, []string{"a old ready", "b old ready", "c old ready", "d old ready"}, "+a, +b"},
		{"surge waits", "0", "1", four, []string{"a old ready", "a new", "b old ready", "c old ready", "d old ready"}, ""},
		{"surge goes on", "0", "1", four, []string{"a old ready", "a new ready", "b old ready", "c old ready", "d old ready"}, "+b, -a old ready"},
		{"surge beside all that are not available", "0", "1", four, []string{"a old", "b old", "c old ready", "d old ready"}, "+a, +b, +c"},
		{"misplaced pod stays until another is available", "0", "1", []string{"a noschedule", "b"}, []string{"a old ready", "b new"}, ""},
		{"misplaced pod", "0", "1", []string{"a noschedule", "b"}, []string{"a old ready", "b new ready"}, "-a old ready"},
		{"misplaced pod that is not available", "0", "1", []string{"a noschedule", "b"}, []string{"a old", "b new"}, "-a old"},
		{"pod of a node that is gone", "0", "1", []string{"b"}, []string{"a old ready", "b new ready"}, ""},
	} {
		s := newDaemonSync(rollingSet(c.unavailable, c.surge), "new", daemonNodes(c.nodes...), daemonPods(c.pods...))
		s.now = noon
		plan, err := s.planUpdate()
		if got := planText(plan); err != nil || got != c.want {
			t.Errorf("%s: got %q, %v, want %q", c.name, got, err, c.want)
		}
	}
}

func TestDaemonSetStatus(t *testing.T) {
	set := rollingSet("1", "0")
	set.Generation, set.Spec.MinReadySeconds = 5, 3605 // ready since an hour
	s := newDaemonSync(set, "new", daemonNodes("a", "b", "c", "d noschedule", "e noexecute"), daemonPods("a new ready", "b old", "d new ready"))
	s.now = noon
	got, again := s.status()
	want := appsv1.DaemonSetStatus{
		DesiredNumberScheduled: 3, CurrentNumberScheduled: 2, NumberMisscheduled: 1, NumberReady: 1, UpdatedNumberScheduled: 1, NumberUnavailable: 3, ObservedGeneration: 5,
	}
	if got.String() != want.String() || again != 5*time.Second {
		t.Errorf("got %v again after %v\nwant %v", got.String(), again, want.String())
	}
}

func TestDaemonTolerations(t *testing.T) {
	seconds := int64(5)
	spec := &corev1.PodSpec{HostNetwork: true, Tolerations: []corev1.Toleration{
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds},
	}}
	got := daemonTolerations(spec)
	if len(got) != 7 || got[0].TolerationSeconds != nil || got[6].Key != corev1.TaintNodeNetworkUnavailable {
		t.Errorf("got %+v", got)
	}
	if again := daemonTolerations(&corev1.PodSpec{HostNetwork: true, Tolerations: got}); fmt.Sprint(again) != fmt.Sprint(got) {
		t.Errorf("not idempotent: %+v", again)
	}
	if spec.Tolerations[0].TolerationSeconds == nil {
		t.Error("the template was changed")
	}
}

func TestExcessRevisions(t *testing.T) {
	var old []*appsv1.ControllerRevision
	for i := range 4 {
		old = append(old, &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), Labels: map[string]string{hashLabel: fmt.Sprint(i)}}})
	}
	inUse := runningPod("p", func(p *corev1.Pod) { p.Labels = map[string]string{hashLabel: "0"} })
	for limit, want := range map[int]string{0: "123", 2: "12", 3: "1", 4: "", 9: ""} {
		got := ""
		for _, rev := range excessRevisions(old, []*corev1.Pod{inUse}, limit) {
			got += rev.Name
		}
		if got != want {
			t.Errorf("limit %d: deletes %s, want %s", limit, got, want)
		}
	}
}

func TestTargetNode(t *testing.T) {
	p := &corev1.Pod{}
	if _, err := targetNode(p); err == nil {
		t.Error("a node for a pod without affinity")
	}
	bindTo(&p.Spec, "a")
	if got, err := targetNode(p); got != "a" || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
	p.Spec.NodeName = "b"
	if got, _ := targetNode(p); got != "b" {
		t.Errorf("got %s for a bound pod", got)
	}
}
