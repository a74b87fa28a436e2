package apps

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// set describes a ReplicaSet: its size, its available pods, and its size annotations.
type set struct {
	size, available, desired, most int32
}

// rolling returns a rollout of replicas with surge and unavailable as limits; the last of sets is the current one.
func rolling(replicas int32, surge, unavailable string, sets ...set) *rollout {
	s, u := intstr.Parse(surge), intstr.Parse(unavailable)
	deadline := int32(600)
	ro := &rollout{now: noon, deployment: &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 1},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, ProgressDeadlineSeconds: &deadline,
			Strategy: appsv1.DeploymentStrategy{
				Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &s, MaxUnavailable: &u},
			},
		},
	}}
	for i, s := range sets {
		rs := &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("web-%d", i+1), CreationTimestamp: metav1.NewTime(noon.Add(time.Duration(i-10) * time.Minute)),
				Annotations: map[string]string{revisionAnnotation: fmt.Sprint(i + 1)},
			},
			Spec:   appsv1.ReplicaSetSpec{Replicas: &s.size},
			Status: appsv1.ReplicaSetStatus{Replicas: s.size, ReadyReplicas: s.available, AvailableReplicas: s.available},
		}
		if s.desired > 0 {
			setSizeAnnotations(rs, s.desired, s.most)
		}
		if i < len(sets)-1 {
			ro.old = append(ro.old, rs)
		} else {
			ro.current = rs
		}
	}
	return ro
}

func steps(rs ...resize) string {
	var out []string
	for _, r := range rs {
		out = append(out, fmt.Sprintf("%s→%d", r.set.Name, r.to))
	}
	return strings.Join(out, " ")
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		replicas           int32
		surge, unavailable string
		want               string
	}{
		{3, "25%", "25%", "1 0"},
		{10, "25%", "25%", "3 2"},
		{10, "0", "0", "0 1"},
		{1, "0%", "25%", "0 1"},
		{0, "25%", "25%", "0 0"},
		{2, "1", "5", "1 2"},
	} {
		ro := rolling(c.replicas, c.surge, c.unavailable)
		if got := fmt.Sprint(ro.maxSurge(), ro.maxUnavailable()); got != c.want {
			t.Errorf("%d replicas, %s, %s: got %s, want %s", c.replicas, c.surge, c.unavailable, got, c.want)
		}
	}
	recreate := rolling(4, "50%", "50%")
	recreate.deployment.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	if s, u := recreate.maxSurge(), recreate.maxUnavailable(); s != 0 || u != 0 {
		t.Errorf("recreate: got %d, %d", s, u)
	}
}

// TestPlanRolling: each plan is one step of a rolling update.
func TestPlanRolling(t *testing.T) {
	for _, c := range []struct {
		name     string
		ro       *rollout
		new, old string
	}{
		{"room for the surge", rolling(3, "1", "0", set{3, 3, 3, 4}, set{}), "web-2→1", ""},
		{"no room", rolling(3, "1", "0", set{3, 3, 3, 4}, set{1, 0, 3, 4}), "", ""},
		{"the first is available", rolling(3, "1", "0", set{3, 3, 3, 4}, set{1, 1, 3, 4}), "", "web-1→2"},
		{"room again", rolling(3, "1", "0", set{2, 2, 3, 4}, set{1, 1, 3, 4}), "web-2→2", ""},
		{"the last old one", rolling(3, "1", "0", set{1, 1, 3, 4}, set{3, 3, 3, 4}), "", "web-1→0"},
		{"done", rolling(3, "1", "0", set{0, 0, 3, 4}, set{3, 3, 3, 4}), "", ""},
		{"the unhealthy first", rolling(10, "3", "2", set{8, 5, 10, 13}, set{5, 0, 10, 13}), "", ""},
		{"unhealthy old pods do not count", rolling(10, "3", "2", set{10, 4, 10, 13}, set{3, 3, 10, 13}), "", "web-1→5"},
		{"unhealthy, then healthy", rolling(10, "3", "2", set{10, 9, 10, 13}, set{3, 3, 10, 13}), "", "web-1→9 web-1→5"},
		{"two old sets, the older first", rolling(4, "0", "2", set{2, 2, 4, 4}, set{2, 2, 4, 4}, set{0, 0, 4, 4}), "", "web-1→0"},
		{"the new one is too large", rolling(2, "1", "0", set{0, 0, 2, 3}, set{5, 5, 2, 3}), "web-2→2", ""},
		{"the old one still counts pods that it deletes", rolling(3, "2", "2", set{3, 6, 3, 5}, set{2, 0, 3, 5}), "", "web-1→1"},
		{"all at once", rolling(3, "100%", "100%", set{3, 3, 3, 6}, set{}), "web-2→3", "web-1→0"},
	} {
		new := ""
		if step, ok := c.ro.planNew(); ok {
			new = steps(step)
		}
		if old := steps(c.ro.planOld()...); new != c.new || old != c.old {
			t.Errorf("%s: got new %q, old %q, want %q, %q", c.name, new, old, c.new, c.old)
		}
	}
}

// TestPlanRecreate: a changed size is not distributed among several sets, but noted at the current one while the old ones end.
func TestPlanRecreate(t *testing.T) {
	for _, c := range []struct {
		name  string
		ro    *rollout
		want  string
		mixed bool
	}{
		{"only an old set", rolling(3, "", "", set{3, 3, 3, 3}, set{0, 0, 3, 3}), "web-1→0", false},
		{"an old set beside the current one", rolling(3, "", "", set{2, 2, 2, 3}, set{1, 0, 2, 3}), "web-2→1 web-1→0", true},
		{"two old sets", rolling(3, "", "", set{2, 2, 2, 3}, set{1, 0, 2, 3}, set{0, 0, 2, 3}), "web-1→0 web-2→0", true},
		{"only the current one", rolling(3, "", "", set{0, 0, 2, 2}, set{2, 2, 2, 2}), "", false},
	} {
		c.ro.deployment.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		if got := steps(c.ro.planRecreate()...); got != c.want || c.ro.mixed() != c.mixed {
			t.Errorf("%s: got %q, mixed %t, want %q, %t", c.name, got, c.ro.mixed(), c.want, c.mixed)
		}
	}
}

func TestPlanScale(t *testing.T) {
	for _, c := range []struct {
		name string
		ro   *rollout
		want string
	}{
		{"one set", rolling(5, "25%", "25%", set{0, 0, 3, 4}, set{3, 3, 3, 4}), "web-2→5"},
		{"one set, right already", rolling(3, "25%", "25%", set{3, 3, 3, 4}), ""},
		{"only an old set is active", rolling(5, "25%", "25%", set{3, 3, 3, 4}, set{0, 0, 0, 0}), "web-1→5"},
		{"none is active", rolling(5, "25%", "25%", set{0, 0, 0, 0}, set{0, 0, 0, 0}), "web-2→5"},
		{"saturated", rolling(3, "25%", "25%", set{1, 1, 3, 4}, set{3, 3, 3, 4}), "web-1→0"},
		{"up, by their parts", rolling(30, "3", "2", set{5, 5, 10, 13}, set{8, 8, 10, 13}), "web-2→20 web-1→13"},
		{"down, by their parts", rolling(5, "3", "2", set{5, 5, 10, 13}, set{8, 8, 10, 13}), "web-2→5 web-1→3"},
		{"of one size, up: the newer first", rolling(6, "0", "1", set{2, 2, 4, 4}, set{2, 0, 4, 4}), "web-2→3 web-1→3"},
		{"what rounding leaves goes to the largest", rolling(5, "0", "1", set{2, 2, 4, 4}, set{2, 0, 4, 4}), "web-2→3 web-1→2"},
		{"to nothing", rolling(0, "3", "2", set{5, 5, 10, 13}, set{8, 8, 10, 13}), "web-2→0 web-1→0"},
		{"annotations only", rolling(10, "3", "2", set{5, 5, 9, 12}, set{8, 8, 9, 12}), "web-2→8 web-1→5"},
	} {
		if got := steps(c.ro.planScale()...); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	recreate := rolling(5, "3", "2", set{5, 5, 10, 13}, set{8, 8, 10, 13})
	recreate.deployment.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	if got := steps(recreate.planScale()...); got != "" {
		t.Errorf("recreate: got %q", got)
	}
}

// TestPlanScaleKeepsTotal: the new sizes of the sets add up to the new size of the deployment, for any sizes.
func TestPlanScaleKeepsTotal(t *testing.T) {
	for replicas := int32(1); replicas < 40; replicas++ {
		for a := int32(1); a < 12; a++ {
			for b := int32(1); b < 12; b++ {
				ro := rolling(replicas, "25%", "25%", set{a, a, 10, 13}, set{b, 0, 10, 13})
				var total int32
				for _, s := range ro.planProportional() {
					if s.to < 0 {
						t.Fatalf("%d replicas, sets of %d and %d: %s", replicas, a, b, steps(ro.planProportional()...))
					}
					total += s.to
				}
				if total != replicas+ro.maxSurge() {
					t.Fatalf("%d replicas, sets of %d and %d: %s make %d", replicas, a, b, steps(ro.planProportional()...), total)
				}
			}
		}
	}
}

func TestScaled(t *testing.T) {
	for _, c := range []struct {
		name string
		ro   *rollout
		want bool
	}{
		{"no", rolling(3, "1", "0", set{3, 3, 3, 4}), false},
		{"yes", rolling(5, "1", "0", set{3, 3, 3, 4}), true},
		{"an inactive set does not count", rolling(3, "1", "0", set{0, 0, 9, 10}, set{3, 3, 3, 4}), false},
		{"nor one without annotations", rolling(5, "1", "0", set{3, 3, 0, 0}), false},
	} {
		if got := c.ro.scaled(); got != c.want {
			t.Errorf("%s: got %t", c.name, got)
		}
	}
}

func (ro *rollout) with(kind appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason string, updated time.Time) *rollout {
	ro.deployment.Status.Conditions = append(ro.deployment.Status.Conditions, appsv1.DeploymentCondition{
		Type: kind, Status: status, Reason: reason, LastUpdateTime: metav1.NewTime(updated), LastTransitionTime: metav1.NewTime(updated),
	})
	return ro
}

// TestProgress: the condition Progressing after a sync.
func TestProgress(t *testing.T) {
	yes, no, maybe := corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown
	progressing := appsv1.DeploymentProgressing
	long := noon.Add(-time.Hour)
	unlimited := func(ro *rollout) *rollout {
		*ro.deployment.Spec.ProgressDeadlineSeconds = math.MaxInt32
		return ro
	}
	seen := func(ro *rollout) *rollout { // no change since the last sync
		ro.setStatus()
		ro.deployment.Status.Conditions = nil
		return ro
	}
	for _, c := range []struct {
		name string
		ro   *rollout
		want string
	}{
		{"complete", rolling(3, "1", "0", set{3, 3, 3, 4}).with(progressing, yes, "ReplicaSetUpdated", noon),
			`Available=True Progressing=True NewReplicaSetAvailable ReplicaSet "web-1" has successfully progressed.`},
		{"getting on", rolling(3, "1", "0", set{3, 2, 3, 4}).with(progressing, yes, "NewReplicaSetCreated", long),
			`Available=False Progressing=True ReplicaSetUpdated ReplicaSet "web-1" is progressing.`},
		{"stuck for less than the deadline", seen(rolling(3, "1", "0", set{3, 2, 3, 4})).with(progressing, yes, "ReplicaSetUpdated", noon.Add(-599*time.Second)),
			`Progressing=True ReplicaSetUpdated Available=False`},
		{"stuck for longer", seen(rolling(3, "1", "0", set{3, 2, 3, 4})).with(progressing, yes, "ReplicaSetUpdated", noon.Add(-601*time.Second)),
			`Available=False Progressing=False ProgressDeadlineExceeded ReplicaSet "web-1" has timed out progressing.`},
		{"stuck after a pause", seen(rolling(3, "1", "0", set{3, 2, 3, 4})).with(progressing, maybe, "DeploymentResumed", noon.Add(-601*time.Second)),
			`Available=False Progressing=False ProgressDeadlineExceeded ReplicaSet "web-1" has timed out progressing.`},
		{"fewer pods after it was complete", seen(rolling(3, "1", "0", set{3, 1, 3, 4})).with(progressing, yes, "NewReplicaSetAvailable", long),
			`Progressing=True NewReplicaSetAvailable Available=False`},
		{"timed out, and then complete", rolling(3, "1", "0", set{3, 3, 3, 4}).with(progressing, no, "ProgressDeadlineExceeded", long),
			`Available=True Progressing=True NewReplicaSetAvailable ReplicaSet "web-1" has successfully progressed.`},
		{"without a deadline", unlimited(rolling(3, "1", "0", set{3, 3, 3, 4}).with(progressing, yes, "NewReplicaSetAvailable", long)), `Available=True`},
	} {
		c.ro.setProgress()
		var got []string
		for _, cond := range c.ro.deployment.Status.Conditions {
			text := fmt.Sprintf("%s=%s", cond.Type, cond.Status)
			if cond.Type != appsv1.DeploymentAvailable {
				text = strings.TrimSpace(text + " " + cond.Reason + " " + cond.Message)
			}
			got = append(got, text)
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, text, c.want)
		}
	}
}

// TestCheckAgain: a deployment is requeued at its progress deadline, and not at all without a deadline.
func TestCheckAgain(t *testing.T) {
	degraded := set{3, 2, 3, 4}
	progressing := func(reason string, since time.Duration) *rollout {
		return rolling(3, "1", "0", degraded).with(appsv1.DeploymentProgressing, corev1.ConditionTrue, reason, noon.Add(-since))
	}
	deleted := progressing("ReplicaSetUpdated", time.Hour)
	deleted.deployment.DeletionTimestamp = &metav1.Time{Time: noon}
	paused := progressing("ReplicaSetUpdated", time.Hour)
	paused.deployment.Spec.Paused = true
	for _, c := range []struct {
		name string
		ro   *rollout
		want time.Duration
	}{
		{"in progress", progressing("ReplicaSetUpdated", time.Minute), 9*time.Minute + time.Second},
		{"past the deadline", progressing("ReplicaSetUpdated", time.Hour), time.Second},
		{"timed out", progressing("ProgressDeadlineExceeded", time.Minute), 0},
		{"degraded after it was complete", progressing("NewReplicaSetAvailable", time.Minute), 0},
		{"degraded for longer than the deadline", progressing("NewReplicaSetAvailable", time.Hour), 0},
		{"being deleted", deleted, 0},
		{"paused", paused, 0},
		{"without the condition", rolling(3, "1", "0", degraded), 0},
	} {
		if got := c.ro.checkAgain(); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestAnnotate(t *testing.T) {
	for _, c := range []struct {
		name      string
		have      map[string]string
		next      int64
		want      string
		unchanged bool
	}{
		{name: "a new set", next: 1, want: "map[cause:because deployment.kubernetes.io/revision:1]"},
		{
			name: "the newest already", have: map[string]string{revisionAnnotation: "3", "cause": "because"}, next: 3,
			want: "map[cause:because deployment.kubernetes.io/revision:3]", unchanged: true,
		},
		{
			name: "others were deleted", have: map[string]string{revisionAnnotation: "3", "cause": "because"}, next: 2,
			want: "map[cause:because deployment.kubernetes.io/revision:3]", unchanged: true,
		},
		{
			name: "rolled back to", have: map[string]string{revisionAnnotation: "9"}, next: 10,
			want: "map[cause:because deployment.kubernetes.io/revision:10 deployment.kubernetes.io/revision-history:9]",
		},
		{
			name: "again", have: map[string]string{revisionAnnotation: "4", historyAnnotation: "1,2"}, next: 5,
			want: "map[cause:because deployment.kubernetes.io/revision:5 deployment.kubernetes.io/revision-history:1,2,4]",
		},
	} {
		ro := rolling(1, "1", "0")
		ro.deployment.Annotations = map[string]string{"cause": "because", revisionAnnotation: "77", corev1.LastAppliedConfigAnnotation: "{}"}
		s := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Annotations: c.have}}
		changed := ro.annotate(s, c.next)
		if got := fmt.Sprint(s.Annotations); got != c.want || changed == c.unchanged {
			t.Errorf("%s: got %s, changed %t", c.name, got, changed)
		}
	}
	history := ""
	for i := range 2000 {
		history = addToHistory(history, fmt.Sprint(i))
	}
	if len(history) > maxHistory || !strings.HasSuffix(history, ",1998,1999") {
		t.Errorf("a long history has %d characters and ends with %s", len(history), history[len(history)-20:])
	}
}

func TestSuperfluous(t *testing.T) {
	sets := []set{{}, {1, 1, 0, 0}, {}, {}, {3, 3, 3, 4}}
	for limit, want := range map[int32]string{0: "[web-1 web-3 web-4]", 1: "[web-1 web-3]", 3: "[web-1]", 4: "[]", math.MaxInt32: "[]"} {
		ro := rolling(3, "1", "0", sets...)
		ro.deployment.Spec.RevisionHistoryLimit = &limit
		names := []string{}
		for _, s := range ro.setsToDelete() {
			names = append(names, s.Name)
		}
		if got := fmt.Sprint(names); got != want {
			t.Errorf("limit %d: got %s, want %s", limit, got, want)
		}
	}
}
