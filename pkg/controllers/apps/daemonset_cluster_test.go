package apps_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controllertest"
)

// daemonSet returns the DaemonSet of a recording.
func daemonSet(name string, change ...func(*appsv1.DaemonSetSpec)) *appsv1.DaemonSet {
	labels := map[string]string{"app": name}
	ds := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "busybox"}}},
			},
		},
	}
	for _, f := range change {
		f(&ds.Spec)
	}
	return ds
}

// addNodes creates nodes with the label kubernetes.io/hostname.
func addNodes(c *controllertest.Cluster, names ...string) {
	c.Helper()
	for _, name := range names {
		controllertest.Create(c, client.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}})
	}
}

// daemons returns "NODE IMAGE" of each live pod of a DaemonSet, sorted. Pods that are ready have the suffix " ready".
func daemons(c *controllertest.Cluster, name string) []string {
	c.Helper()
	var out []string
	for _, p := range livePods(c) {
		if p.Labels["app"] != name {
			continue
		}
		s := "?"
		if a := p.Spec.Affinity; a != nil {
			s = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]
		}
		s += " " + p.Spec.Containers[0].Image
		if p.Status.Phase == corev1.PodRunning {
			s += " ready"
		}
		out = append(out, s)
	}
	slices.Sort(out)
	return out
}

// waitDaemons waits until daemons returns want, and the status is observed.
func waitDaemons(c *controllertest.Cluster, name string, want ...string) *appsv1.DaemonSet {
	c.Helper()
	var ds *appsv1.DaemonSet
	var got []string
	c.Until(name+" has pods "+strings.Join(want, ", "), func() bool {
		ds, _ = controllertest.Get[*appsv1.DaemonSet](c, client.DaemonSets, name)
		got = daemons(c, name)
		return ds.Status.ObservedGeneration == ds.Generation && slices.Equal(got, want)
	})
	return ds
}

// waitDaemonStatus makes new pods ready until the status of a DaemonSet has counts, written as "desired current misscheduled ready updated
// available unavailable".
func waitDaemonStatus(c *controllertest.Cluster, name, want string) *appsv1.DaemonSet {
	c.Helper()
	return waitDaemonStatusAfter(c, name, want, c.MakePodsReady)
}

// waitDaemonStatusAfter is waitDaemonStatus with what happens before each look.
func waitDaemonStatusAfter(c *controllertest.Cluster, name, want string, before func()) *appsv1.DaemonSet {
	c.Helper()
	var ds *appsv1.DaemonSet
	c.Until(name+" has status "+want, func() bool {
		before()
		ds, _ = controllertest.Get[*appsv1.DaemonSet](c, client.DaemonSets, name)
		s := ds.Status
		return s.ObservedGeneration == ds.Generation && want == fmt.Sprint(s.DesiredNumberScheduled, s.CurrentNumberScheduled,
			s.NumberMisscheduled, s.NumberReady, s.UpdatedNumberScheduled, s.NumberAvailable, s.NumberUnavailable)
	})
	return ds
}

func setImage(c *controllertest.Cluster, name, image string) {
	c.Helper()
	c.Merge(controllertest.At(client.DaemonSets, name), `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"`+image+`"}]}}}}`)
}

func makeReady(c *controllertest.Cluster, p *corev1.Pod) {
	c.Helper()
	c.Merge(controllertest.At(client.Pods, p.Name).Sub("status"), fmt.Sprintf(
		`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":%q}]}}`, p.CreationTimestamp.UTC().Format("2006-01-02T15:04:05Z")))
}

// revisions returns "NUMBER NAME" of the ControllerRevisions, sorted.
func revisions(c *controllertest.Cluster) []string {
	c.Helper()
	var out []string
	for _, r := range controllertest.List[*appsv1.ControllerRevision](c, client.ControllerRevisions) {
		out = append(out, fmt.Sprint(r.Revision, " ", r.Name))
	}
	slices.Sort(out)
	return out
}

// TestDaemonSet compares pods and the revision with a recording of a real cluster, and follows nodes that are added, labelled, tainted and
// deleted.
func TestDaemonSet(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		addNodes(c, "n1", "n2")
		controllertest.Create(c, client.DaemonSets, daemonSet("ds"))
		waitDaemonStatus(c, "ds", "2 2 0 2 2 2 0")
		waitDaemons(c, "ds", "n1 busybox ready", "n2 busybox ready")
		controllertest.Want(c, "revisions", revisions(c), []string{"1 ds-7dbf6948fd"})
		for _, p := range livePods(c) {
			controllertest.Want(c, "labels", p.Labels, map[string]string{
				"app": "ds", "controller-revision-hash": "7dbf6948fd", "pod-template-generation": "1",
			})
			var tolerations []string
			for _, t := range p.Spec.Tolerations {
				tolerations = append(tolerations, fmt.Sprint(t.Key, " ", t.Operator, " ", t.Effect))
			}
			controllertest.Want(c, "tolerations", tolerations, []string{
				"node.kubernetes.io/not-ready Exists NoExecute", "node.kubernetes.io/unreachable Exists NoExecute",
				"node.kubernetes.io/disk-pressure Exists NoSchedule", "node.kubernetes.io/memory-pressure Exists NoSchedule",
				"node.kubernetes.io/pid-pressure Exists NoSchedule", "node.kubernetes.io/unschedulable Exists NoSchedule",
			})
		}
		addNodes(c, "n3")
		waitDaemonStatus(c, "ds", "3 3 0 3 3 3 0")

		node := func(name, patch string) { c.Merge(controllertest.At(client.Nodes, "/"+name), patch) }
		node("n1", `{"spec":{"unschedulable":true,"taints":[{"key":"node.kubernetes.io/unschedulable","effect":"NoSchedule"}]}}`)
		node("n2", `{"spec":{"taints":[{"key":"mine","effect":"NoExecute"}]}}`)
		waitDaemons(c, "ds", "n1 busybox ready", "n3 busybox ready") // a cordoned node keeps its pod
		waitDaemonStatus(c, "ds", "2 2 0 2 2 2 0")
		node("n2", `{"spec":{"taints":null}}`)
		waitDaemonStatus(c, "ds", "3 3 0 3 3 3 0")

		c.Merge(controllertest.At(client.DaemonSets, "ds"), `{"spec":{"template":{"spec":{"nodeSelector":{"disk":"ssd"}}}}}`)
		waitDaemonStatus(c, "ds", "0 0 0 0 0 0 0")
		node("n3", `{"metadata":{"labels":{"disk":"ssd"}}}`)
		waitDaemonStatus(c, "ds", "1 1 0 1 1 1 0")
		node("n3", `{"metadata":{"labels":{"disk":null}}}`)
		waitDaemons(c, "ds")
		node("n3", `{"metadata":{"labels":{"disk":"ssd"}}}`)
		waitDaemons(c, "ds", "n3 busybox")
		c.Remove(client.Nodes, "/n3", metav1.DeletePropagationBackground)
		waitDaemons(c, "ds") // it is not bound, so that only the controller deletes it
		waitDaemonStatus(c, "ds", "0 0 0 0 0 0 0")
	})
}

// TestDaemonSetTaint checks that a pod stays on a node with a NoSchedule taint, and is counted as misscheduled.
func TestDaemonSetTaint(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		addNodes(c, "n1", "n2")
		controllertest.Create(c, client.DaemonSets, daemonSet("ds"))
		waitDaemonStatus(c, "ds", "2 2 0 2 2 2 0")
		c.Merge(controllertest.At(client.Nodes, "/n1"), `{"spec":{"taints":[{"key":"mine","effect":"NoSchedule"}]}}`)
		n := 0
		waitDaemonStatusAfter(c, "ds", "1 1 1 1 1 1 0", func() { // a taint alone needs no sync, and one may come before the controller has the taint
			if n++; n%50 == 1 {
				c.Merge(controllertest.At(client.DaemonSets, "ds"), fmt.Sprintf(`{"metadata":{"annotations":{"a":"%d"}}}`, n))
			}
		})
		c.Merge(controllertest.At(client.DaemonSets, "ds"), `{"spec":{"template":{"spec":{"tolerations":[{"operator":"Exists"}]}}}}`)
		waitDaemonStatus(c, "ds", "2 2 0 2 2 2 0")
	})
}

// TestDaemonSetUpdate replaces one pod at a time, rolls back, and cleans up.
func TestDaemonSetUpdate(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		addNodes(c, "n1", "n2", "n3")
		controllertest.Create(c, client.DaemonSets, daemonSet("ds"))
		waitDaemonStatus(c, "ds", "3 3 0 3 3 3 0")
		setImage(c, "ds", "busybox:1.36")
		ds := waitDaemons(c, "ds", "n1 busybox:1.36", "n2 busybox ready", "n3 busybox ready") // waits until n1 is available
		controllertest.Want(c, "template generation", ds.Annotations[appsv1.DeprecatedTemplateGeneration], "2")
		waitDaemonStatus(c, "ds", "3 3 0 3 3 3 0")
		waitDaemons(c, "ds", "n1 busybox:1.36 ready", "n2 busybox:1.36 ready", "n3 busybox:1.36 ready")
		two := revisions(c)
		controllertest.Want(c, "revisions", len(two), 2)
		setImage(c, "ds", "busybox") // as rollout undo does
		waitDaemons(c, "ds", "n1 busybox", "n2 busybox:1.36 ready", "n3 busybox:1.36 ready")
		waitDaemonStatus(c, "ds", "3 3 0 3 3 3 0")
		waitDaemons(c, "ds", "n1 busybox ready", "n2 busybox ready", "n3 busybox ready")
		controllertest.Want(c, "revisions after the rollback", revisions(c), []string{two[1], "3 ds-7dbf6948fd"})
		c.Merge(controllertest.At(client.DaemonSets, "ds"), `{"spec":{"revisionHistoryLimit":0}}`)
		c.Until("old revisions deleted", func() bool { return slices.Equal(revisions(c), []string{"3 ds-7dbf6948fd"}) })
	})
}

// TestDaemonSetSurge creates the new pod first, and deletes the old one once the new one is available.
func TestDaemonSetSurge(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		addNodes(c, "n1", "n2", "n3")
		surge, none := intstr.FromString("40%"), intstr.FromInt32(0) // 2 of 3
		controllertest.Create(c, client.DaemonSets, daemonSet("ds", func(s *appsv1.DaemonSetSpec) {
			s.UpdateStrategy.Type = appsv1.RollingUpdateDaemonSetStrategyType
			s.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxSurge: &surge, MaxUnavailable: &none}
		}))
		waitDaemonStatus(c, "ds", "3 3 0 3 3 3 0")
		setImage(c, "ds", "busybox:2")
		waitDaemons(c, "ds", "n1 busybox ready", "n1 busybox:2", "n2 busybox ready", "n2 busybox:2", "n3 busybox ready")
		for _, p := range livePods(c) {
			if p.Status.Phase == corev1.PodPending {
				makeReady(c, p)
				break
			}
		}
		c.Until("surge goes on to n3", func() bool {
			return slices.Contains(daemons(c, "ds"), "n3 busybox:2") && len(daemons(c, "ds")) == 5
		})
		waitDaemonStatus(c, "ds", "3 3 0 3 3 3 0")
		waitDaemons(c, "ds", "n1 busybox:2 ready", "n2 busybox:2 ready", "n3 busybox:2 ready")
	})
}

// TestDaemonSetOnDelete replaces the pods that a user deletes.
func TestDaemonSetOnDelete(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		addNodes(c, "n1", "n2")
		controllertest.Create(c, client.DaemonSets, daemonSet("ds", func(s *appsv1.DaemonSetSpec) {
			s.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
		}))
		waitDaemonStatus(c, "ds", "2 2 0 2 2 2 0")
		setImage(c, "ds", "busybox:2")
		waitDaemonStatus(c, "ds", "2 2 0 2 0 2 0")
		c.Remove(client.Pods, livePods(c)[0].Name, metav1.DeletePropagationBackground)
		waitDaemonStatus(c, "ds", "2 2 0 2 1 2 0")
	})
}

// waitPodCache waits until the controllers have seen all changes of pods so far: a ReplicaSet without replicas deletes a later pod.
func waitPodCache(c *controllertest.Cluster) {
	c.Helper()
	labels := map[string]string{"app": "barrier"}
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}, AutomountServiceAccountToken: new(bool)}
	controllertest.Create(c, client.ReplicaSets, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "barrier", Namespace: "default"},
		Spec: appsv1.ReplicaSetSpec{Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}},
	})
	controllertest.Create(c, client.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "barrier", Namespace: "default", Labels: labels}, Spec: spec})
	c.Until("the pod of the barrier is deleted", func() bool { return !c.Exists(client.Pods, "barrier") })
}

// TestDaemonSetOrphanAndAdopt: a DaemonSet adopts the pods and revisions that an earlier one has left behind.
func TestDaemonSetOrphanAndAdopt(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		addNodes(c, "n1", "n2")
		controllertest.Create(c, client.DaemonSets, daemonSet("ds"))
		waitDaemonStatus(c, "ds", "2 2 0 2 2 2 0")
		uids := func() (out []types.UID) {
			for _, p := range livePods(c) {
				out = append(out, p.UID)
			}
			slices.Sort(out)
			return out
		}
		before := uids()
		c.Remove(client.DaemonSets, "ds", metav1.DeletePropagationOrphan)
		c.Until("gone", func() bool { return !c.Exists(client.DaemonSets, "ds") })
		waitPodCache(c)
		ds := controllertest.Create(c, client.DaemonSets, daemonSet("ds"))
		waitDaemonStatus(c, "ds", "2 2 0 2 2 2 0")
		controllertest.Want(c, "pods", uids(), before)
		for _, p := range livePods(c) {
			controllertest.Want(c, "owner", metav1.IsControlledBy(p, ds), true)
		}
		controllertest.Want(c, "revisions", revisions(c), []string{"1 ds-7dbf6948fd"})
		c.Until("the revision is adopted", func() bool { // maybe after the status: its cache may still have the old owner before
			rev, ok := controllertest.Get[*appsv1.ControllerRevision](c, client.ControllerRevisions, "ds-7dbf6948fd")
			return ok && metav1.IsControlledBy(rev, ds)
		})

		c.Merge(controllertest.At(client.Pods, livePods(c)[0].Name), `{"metadata":{"labels":{"app":"lost"}}}`)
		c.Until("released and replaced", func() bool { return len(livePods(c)) == 3 })
		c.Remove(client.DaemonSets, "ds", metav1.DeletePropagationForeground)
		c.Until("only the released pod is left", func() bool {
			return len(livePods(c)) == 1 && livePods(c)[0].Labels["app"] == "lost" && len(revisions(c)) == 0
		})
	})
}

// TestDaemonSetFailedPod replaces failed and succeeded pods and records why.
func TestDaemonSetFailedPod(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		addNodes(c, "n1", "n2")
		controllertest.Create(c, client.DaemonSets, daemonSet("ds"))
		waitDaemonStatus(c, "ds", "2 2 0 2 2 2 0")
		pods := livePods(c)
		var want []string
		for i, phase := range []string{"Failed", "Succeeded"} {
			p := pods[i]
			c.Merge(controllertest.At(client.Pods, p.Name).Sub("status"), `{"status":{"phase":"`+phase+`"}}`)
			reason, verb := "FailedDaemonPod: Found failed", "kill"
			if phase == "Succeeded" {
				reason, verb = "SucceededDaemonPod: Found succeeded", "delete"
			}
			node := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]
			want = append(want, fmt.Sprintf("%s daemon pod default/%s on node %s, will try to %s it", reason, p.Name, node, verb), "SuccessfulDelete: Deleted pod: "+p.Name)
		}
		waitDaemonStatus(c, "ds", "2 2 0 2 2 2 0")
		c.Until("replaced", func() bool { return !c.Exists(client.Pods, pods[0].Name) && !c.Exists(client.Pods, pods[1].Name) })
		for _, event := range want {
			c.Until(event, func() bool { return slices.Contains(c.EventsOf("ds"), event) })
		}
	})
}

// TestDaemonSetCollision: another revision has the name of the DaemonSet's.
func TestDaemonSetCollision(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		addNodes(c, "n1")
		taken := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "ds-7dbf6948fd", Namespace: "default"}, Revision: 9}
		taken.Data.Raw = []byte(`{"a":"b"}`)
		controllertest.Create(c, client.ControllerRevisions, taken)
		controllertest.Create(c, client.DaemonSets, daemonSet("ds"))
		ds := waitDaemonStatus(c, "ds", "1 1 0 1 1 1 0")
		controllertest.Want(c, "collisionCount", ds.Status.CollisionCount, new(int32(1)))
		controllertest.Want(c, "revisions", len(revisions(c)), 2)
	})
}
