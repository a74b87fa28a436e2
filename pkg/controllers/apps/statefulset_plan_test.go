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
	"k8s.io/apimachinery/pkg/types"
)

var setNow = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// stateful returns a set web with a claim template data.
func stateful(replicas int32, change ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	labels := map[string]string{"app": "web"}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", UID: "set", Generation: 4},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, ServiceName: "headless",
			PodManagementPolicy: appsv1.OrderedReadyPodManagement,
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{
				Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32)},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Volumes: []corev1.Volume{
					{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
					{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				}},
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data", Labels: map[string]string{"disk": "fast"}, Annotations: map[string]string{"a": "b"}},
			}},
		},
	}
	for _, f := range change {
		f(set)
	}
	return set
}

func parallel(set *appsv1.StatefulSet) {
	set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
}
func onDelete(set *appsv1.StatefulSet) {
	set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
}
func withoutPartition(current int32) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) {
		set.Spec.UpdateStrategy.RollingUpdate = nil
		set.Status.CurrentReplicas = current
	}
}
func partition(n int32) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) { set.Spec.UpdateStrategy.RollingUpdate.Partition = &n }
}
func startAt(n int32) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) { set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: n} }
}
func minReady(seconds int32) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) { set.Spec.MinReadySeconds = seconds }
}
func retain(whenDeleted, whenScaled string) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) {
		set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenDeleted: appsv1.PersistentVolumeClaimRetentionPolicyType(whenDeleted),
			WhenScaled:  appsv1.PersistentVolumeClaimRetentionPolicyType(whenScaled),
		}
	}
}

// setPods returns the pods that words describe, e.g. "0/old 1 2:terminating": the ordinal, a revision (default new), and a
// state: ready for a minute (default), fresh (ready now), pending, unready, failed, succeeded, terminating.
func setPods(set *appsv1.StatefulSet, words string) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, w := range strings.Fields(words) {
		w, state, _ := strings.Cut(w, ":")
		w, revision, ok := strings.Cut(w, "/")
		if !ok {
			revision = "new"
		}
		var n int
		fmt.Sscan(w, &n)
		p := newStatefulPod(set, revision, n)
		p.UID = types.UID("pod-" + w)
		p.Status.Phase = corev1.PodRunning
		since := setNow.Add(-time.Minute)
		ready := corev1.ConditionTrue
		switch state {
		case "fresh":
			since = setNow
		case "pending":
			p.Status.Phase, ready = corev1.PodPending, corev1.ConditionFalse
		case "unready":
			ready = corev1.ConditionFalse
		case "failed":
			p.Status.Phase, ready = corev1.PodFailed, corev1.ConditionFalse
		case "succeeded":
			p.Status.Phase, ready = corev1.PodSucceeded, corev1.ConditionFalse
		case "terminating":
			p.DeletionTimestamp = &metav1.Time{Time: setNow}
		}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(since)}}
		pods = append(pods, p)
	}
	return pods
}

// setSteps returns what a sync does, with the pods of a set at revision old that is updated to new.
func setSteps(set *appsv1.StatefulSet, pods []*corev1.Pod, claim claimReader) string {
	m := newStatefulPods(set, set, set, "old", "new", pods, setNow)
	var out []string
	note := func(p *corev1.Pod, s podStep) (bool, error) {
		for verb, did := range map[string]bool{"create": s.create, "delete": s.delete, "claims": s.claims, "update": s.update} {
			if did && verb == "create" {
				verb += "@" + p.Labels[appsv1.StatefulSetRevisionLabel]
			}
			if did {
				out = append(out, fmt.Sprintf("%s %d", verb, ordinalOf(p)))
			}
		}
		return s.wait, nil
	}
	each := func(pods []*corev1.Pod, f func(*corev1.Pod) podStep) (done bool) {
		for _, p := range pods {
			if wait, _ := note(p, f(p)); wait && m.ordered() {
				return true
			}
		}
		return false
	}
	if !each(m.replicas, func(p *corev1.Pod) podStep { return m.replicaStep(p, claim) }) && !each(m.condemned, m.condemnedStep) {
		if p := m.outdated(); p != nil {
			out = append(out, fmt.Sprintf("update %d", ordinalOf(p)))
		}
	}
	return strings.Join(out, ", ")
}

func noClaims(string) *corev1.PersistentVolumeClaim { return nil }

func TestStatefulSetSteps(t *testing.T) {
	for _, c := range []struct {
		name string
		set  *appsv1.StatefulSet
		pods string
		want string
	}{
		{"first pod", stateful(3), "", "create@new 0"},
		{"first pending", stateful(3), "0:pending", "claims 0"},
		{"first not ready", stateful(3), "0:unready", ""},
		{"second pod", stateful(3), "0", "create@new 1"},
		{"first not available yet", stateful(3, minReady(30)), "0:fresh", ""},
		{"first available", stateful(3, minReady(30)), "0", "create@new 1"},
		{"first terminating", stateful(3), "0:terminating", ""},
		{"missing in between", stateful(3), "0 2", "create@new 1"},
		{"failed", stateful(3), "0 1:failed 2", "delete 1"},
		{"succeeded", stateful(3), "0 1:succeeded", "delete 1"},
		{"scale down", stateful(1), "0 1 2", "delete 2"},
		{"scale down waits for the pod that terminates", stateful(1), "0 1 2:terminating", ""},
		{"scale down waits for a replica", stateful(2), "0 1:unready 2", ""},
		{"scale down deletes the unhealthy one", stateful(1), "0 1 2:unready", "delete 2"},
		{"scale down waits for a lower unhealthy one", stateful(1), "0 1:unready 2:unready", ""},
		{"scale down with a lower unhealthy one", stateful(1), "0 1:unready 2", "delete 2"},
		{"scale down waits for a pod not available", stateful(1, minReady(30)), "0 1:fresh 2:fresh", ""},
		{"scale to zero", stateful(0), "0 1", "delete 1"},
		{"scale before update", stateful(2), "0/old 1/old 2/old", "delete 2"},

		{"update from the top", stateful(3), "0/old 1/old 2/old", "update 2"},
		{"update waits for the new pod", stateful(3), "0/old 1/old 2:unready", ""},
		{"update continues", stateful(3), "0/old 1/old 2", "update 1"},
		{"update waits until available", stateful(3, minReady(30)), "0/old 1/old 2:fresh", ""},
		{"update is complete", stateful(3), "0 1 2", ""},
		{"update of a broken pod waits for it", stateful(2), "0/old 1/old:unready", ""},
		{"a pod of a third revision", stateful(2), "0/older 1", "update 0"},
		{"partition", stateful(3, partition(1)), "0/old 1/old 2", "update 1"},
		{"partition done", stateful(3, partition(1)), "0/old 1 2", ""},
		{"partition above all", stateful(3, partition(5)), "0/old 1/old 2/old", ""},
		{"pod below the partition is created at the current revision", stateful(3, partition(1)), "1 2", "create@old 0"},
		{"pod above the partition is created at the update revision", stateful(3, partition(1)), "0/old", "create@new 1"},
		{"partition counts from the first ordinal", stateful(3, partition(1), startAt(5)), "5/old 6/old 7/old", "update 7"},
		{"partition with ordinals", stateful(2, partition(1), startAt(5)), "5/old", "create@new 6"},
		{"without a partition, the first pods stay at the current revision", stateful(3, withoutPartition(1)), "", "create@old 0"},
		{"without a partition", stateful(3, withoutPartition(1)), "0/old", "create@new 1"},
		{"without a partition, update", stateful(2, withoutPartition(2)), "0/old 1/old", "update 1"},
		{"OnDelete updates none", stateful(2, onDelete), "0/old 1/old", ""},
		{"OnDelete creates at the update revision", stateful(2, onDelete), "1/old", "create@new 0"},

		{"first ordinal", stateful(2, startAt(3)), "", "create@new 3"},
		{"moved ordinals create before they delete", stateful(2, startAt(1)), "0 1", "create@new 2"},
		{"moved ordinals", stateful(2, startAt(1)), "0 1 2", "delete 0"},

		{"parallel creates all", stateful(3, parallel), "", "create@new 0, create@new 1, create@new 2"},
		{"parallel does not wait", stateful(3, parallel), "0:pending 1:terminating", "claims 0, create@new 2"},
		{"parallel replaces", stateful(3, parallel), "0:failed 1:succeeded 2", "delete 0, delete 1"},
		{"parallel scales down at once", stateful(1, parallel), "0:unready 1:unready 2 3:terminating", "delete 2, delete 1"},
		{"parallel updates one at a time", stateful(3, parallel), "0/old 1/old 2/old", "update 2"},
		{"parallel update waits", stateful(3, parallel), "0/old 1/old 2:unready", ""},
		{"parallel updates a broken lower pod later", stateful(3, parallel), "0/old:unready 1/old 2", "update 1"},
		{"parallel update waits for a missing pod", stateful(2, parallel), "0/old", "create@new 1"},
	} {
		if got := setSteps(c.set, setPods(c.set, c.pods), noClaims); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestStatefulSetRepair(t *testing.T) {
	set := stateful(2)
	owned := func(name string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: name, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, statefulSetKind)},
		}}
	}
	for _, c := range []struct {
		name   string
		change func(*corev1.Pod)
		claim  claimReader
		want   string
	}{
		{"nothing", func(*corev1.Pod) {}, noClaims, ""},
		{"another pod name label", func(p *corev1.Pod) { p.Labels[appsv1.StatefulSetPodNameLabel] = "x" }, noClaims, "update 0"},
		{"another index label alone", func(p *corev1.Pod) { p.Labels[appsv1.PodIndexLabel] = "7" }, noClaims, ""},
		{"another volume", func(p *corev1.Pod) { p.Spec.Volumes = p.Spec.Volumes[1:] }, noClaims, "update 0"},
		{"another claim", func(p *corev1.Pod) { p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "x" }, noClaims, "update 0"},
		{"owners that the policy does not want", func(*corev1.Pod) {}, owned, "update 0, update 1"},
	} {
		pods := setPods(set, "0 1")
		c.change(pods[0])
		if got := setSteps(set, pods, c.claim); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-7"}}
	setIdentity(set, p)
	setStorage(set, p)
	if !identityMatches(set, p) || !storageMatches(set, p) {
		t.Errorf("updated, and still different: %+v", p)
	}
}

func TestNewStatefulPod(t *testing.T) {
	p := newStatefulPod(stateful(1), "web-1", 3)
	if p.Name != "web-3" || p.GenerateName != "web-" || p.Namespace != "ns" || p.Spec.Hostname != "web-3" || p.Spec.Subdomain != "headless" {
		t.Errorf("got %+v", p)
	}
	var got []string
	for k, v := range p.Labels {
		got = append(got, k+"="+v)
	}
	slices.Sort(got)
	want := "app=web apps.kubernetes.io/pod-index=3 controller-revision-hash=web-1 statefulset.kubernetes.io/pod-name=web-3"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got labels %s, want %s", s, want)
	}
	if v := p.Spec.Volumes; len(v) != 2 || v[0].PersistentVolumeClaim == nil || v[0].PersistentVolumeClaim.ClaimName != "data-web-3" || v[1].Name != "tmp" {
		t.Errorf("got volumes %+v", v)
	}
	set := stateful(1)
	c := claimsFor(set, p)[0]
	if c.Name != "data-web-3" || c.Namespace != "ns" || c.Labels["app"] != "web" || c.Labels["disk"] != "fast" || c.Annotations["a"] != "b" || len(c.OwnerReferences) > 0 {
		t.Errorf("got claim %+v", c.ObjectMeta)
	}
	if len(set.Spec.VolumeClaimTemplates[0].Labels) != 1 {
		t.Error("the template has the claim's labels")
	}
}

func TestParentAndOrdinal(t *testing.T) {
	for name, want := range map[string]string{
		"web-0": "web 0", "a-b-12": "a-b 12", "web-01": "web 1", "web": " -1", "web-x": " -1", "-3": " 3", "web-99999999999": "web -1",
	} {
		set, n := parentAndOrdinal(name)
		if got := fmt.Sprintf("%s %d", set, n); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
