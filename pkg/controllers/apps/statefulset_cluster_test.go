package apps_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/controllertest"
)

// statefulSet returns a set whose pods each have a claim data.
func statefulSet(name string, replicas int32, change ...func(*appsv1.StatefulSetSpec)) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: labels},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, ServiceName: name,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: new(int64),
					Containers:                    []corev1.Container{{Name: "c", Image: "redis:7"}},
				},
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				},
			}},
		},
	}
	for _, f := range change {
		f(&set.Spec)
	}
	return set
}

// podsOf returns the pods of a set with their images, sorted.
func podsOf(c *controllertest.Cluster, name string) []string {
	var out []string
	for _, p := range controllertest.List[*corev1.Pod](c, client.Pods) {
		if p.Labels["app"] == name && p.DeletionTimestamp == nil {
			out = append(out, p.Name+" "+p.Spec.Containers[0].Image)
		}
	}
	slices.Sort(out)
	return out
}

// claims returns the claims of a set with the kinds of their owners, sorted.
func claims(c *controllertest.Cluster, name string) []string {
	var out []string
	for _, p := range controllertest.List[*corev1.PersistentVolumeClaim](c, client.PersistentVolumeClaims) {
		if p.Labels["app"] != name || p.DeletionTimestamp != nil {
			continue
		}
		s := p.Name
		for _, ref := range p.OwnerReferences {
			s += " " + ref.Kind
		}
		out = append(out, s)
	}
	slices.Sort(out)
	return out
}

// revisionsOf returns the numbers and names of a set's revisions, sorted.
func revisionsOf(c *controllertest.Cluster, name string) []string {
	var out []string
	for _, r := range controllertest.List[*appsv1.ControllerRevision](c, client.ControllerRevisions) {
		if r.Labels["app"] == name {
			out = append(out, fmt.Sprintf("%d %s", r.Revision, r.Name))
		}
	}
	slices.Sort(out)
	return out
}

// untilReplicas makes pods ready until the set has n updated and available ones.
func untilReplicas(c *controllertest.Cluster, name string, n int32) *appsv1.StatefulSet {
	c.Helper()
	var set *appsv1.StatefulSet
	c.Until(fmt.Sprintf("%d replicas of %s", n, name), func() bool {
		c.MakePodsReady()
		set, _ = controllertest.Get[*appsv1.StatefulSet](c, client.StatefulSets, name)
		s := set.Status
		return s.ObservedGeneration == set.Generation && s.Replicas == n && s.AvailableReplicas == n && s.UpdatedReplicas == n &&
			s.CurrentRevision == s.UpdateRevision
	})
	return set
}

func scaleSet(c *controllertest.Cluster, name string, n int) {
	c.Helper()
	c.Merge(controllertest.At(client.StatefulSets, name), fmt.Sprintf(`{"spec":{"replicas":%d}}`, n))
}

func setStatefulSetImage(c *controllertest.Cluster, name, image string) {
	c.Helper()
	c.Merge(controllertest.At(client.StatefulSets, name), `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"`+image+`"}]}}}}`)
}

// TestStatefulSet creates a set, updates it, rolls it back and scales it.
func TestStatefulSet(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		controllertest.Create(c, client.StatefulSets, statefulSet("web", 2))
		set := untilReplicas(c, "web", 2)
		first := set.Status.CurrentRevision
		zero := int32(0)
		controllertest.Want(c, "status", set.Status, appsv1.StatefulSetStatus{
			ObservedGeneration: 1, Replicas: 2, ReadyReplicas: 2, AvailableReplicas: 2, CurrentReplicas: 2, UpdatedReplicas: 2,
			CurrentRevision: first, UpdateRevision: first, CollisionCount: &zero,
		})
		controllertest.Want(c, "claims", claims(c, "web"), []string{"data-web-0", "data-web-1"})
		c.Until("events", func() bool { return len(c.EventsOf("web")) >= 4 })
		controllertest.Want(c, "events", c.EventsOf("web"), []string{
			"SuccessfulCreate: Create Claim data-web-0 Pod web-0 in StatefulSet web success",
			"SuccessfulCreate: Create Claim data-web-1 Pod web-1 in StatefulSet web success",
			"SuccessfulCreate: Create Pod web-0 in StatefulSet web successful",
			"SuccessfulCreate: Create Pod web-1 in StatefulSet web successful",
		})

		setStatefulSetImage(c, "web", "redis:8")
		set = untilReplicas(c, "web", 2)
		second := set.Status.CurrentRevision
		controllertest.Want(c, "pods", podsOf(c, "web"), []string{"web-0 redis:8", "web-1 redis:8"})
		controllertest.Want(c, "revisions", revisionsOf(c, "web"), []string{"1 " + first, "2 " + second})
		c.Until("events of the update", func() bool {
			events := c.EventsOf("web")
			return slices.Contains(events, "SuccessfulDelete: Delete Pod web-0 in StatefulSet web successful") &&
				slices.Contains(events, "SuccessfulDelete: Delete Pod web-1 in StatefulSet web successful")
		})

		setStatefulSetImage(c, "web", "redis:7") // as rollout undo does
		set = untilReplicas(c, "web", 2)
		controllertest.Want(c, "revision", set.Status.CurrentRevision, first)
		controllertest.Want(c, "revisions", revisionsOf(c, "web"), []string{"2 " + second, "3 " + first})

		c.Merge(controllertest.At(client.StatefulSets, "web"), `{"spec":{"revisionHistoryLimit":0,"replicas":0}}`)
		untilReplicas(c, "web", 0)
		c.Until("the old revision is deleted", func() bool { return slices.Equal(revisionsOf(c, "web"), []string{"3 " + first}) })
		controllertest.Want(c, "claims", claims(c, "web"), []string{"data-web-0", "data-web-1"})
	})
}

// TestStatefulSetOrdered creates the second pod only once the first one is available.
func TestStatefulSetOrdered(t *testing.T) {
	clk := testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	c := controllertest.Start(t, clk)
	controllertest.Create(c, client.StatefulSets, statefulSet("web", 2, func(s *appsv1.StatefulSetSpec) { s.MinReadySeconds = 3600 }))
	c.Until("first pod", func() bool { return len(podsOf(c, "web")) == 1 })
	p, _ := controllertest.Get[*corev1.Pod](c, client.Pods, "web-0")
	now := clk.Now().UTC().Format(time.RFC3339)
	c.Merge(controllertest.At(client.Pods, "web-0").Sub("status"), fmt.Sprintf(
		`{"metadata":{"uid":%q},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":%q}]}}`, p.UID, now))
	c.Until("ready, not available", func() bool {
		set, _ := controllertest.Get[*appsv1.StatefulSet](c, client.StatefulSets, "web")
		return set.Status.ReadyReplicas == 1 && set.Status.AvailableReplicas == 0
	})
	controllertest.Want(c, "pods", podsOf(c, "web"), []string{"web-0 redis:7"})
	c.Until("second pod after an hour", func() bool {
		clk.Step(10 * time.Minute)
		return len(podsOf(c, "web")) == 2
	})
}

// TestStatefulSetRetention deletes claims with the pods that are scaled down, and with the set.
func TestStatefulSetRetention(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		controllertest.Create(c, client.StatefulSets, statefulSet("web", 3, func(s *appsv1.StatefulSetSpec) {
			s.PodManagementPolicy = appsv1.ParallelPodManagement
			s.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenDeleted: appsv1.DeletePersistentVolumeClaimRetentionPolicyType, WhenScaled: appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
			}
		}))
		untilReplicas(c, "web", 3)
		owned := []string{"data-web-0 StatefulSet", "data-web-1 StatefulSet", "data-web-2 StatefulSet"}
		c.Until("claims of the set", func() bool { return slices.Equal(claims(c, "web"), owned) })
		scaleSet(c, "web", 1)
		untilReplicas(c, "web", 1)
		c.Until("claims deleted", func() bool { return slices.Equal(claims(c, "web"), owned[:1]) })
		scaleSet(c, "web", 2)
		untilReplicas(c, "web", 2)
		c.Until("claims created", func() bool { return slices.Equal(claims(c, "web"), owned[:2]) })

		c.Merge(controllertest.At(client.StatefulSets, "web"), `{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Retain"}}}`)
		c.Until("claims of none", func() bool { return slices.Equal(claims(c, "web"), []string{"data-web-0", "data-web-1"}) })
		c.Merge(controllertest.At(client.StatefulSets, "web"), `{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Delete"}}}`)
		c.Until("claims of the set again", func() bool { return slices.Equal(claims(c, "web"), owned[:2]) })
		c.Remove(client.StatefulSets, "web", metav1.DeletePropagationBackground)
		c.Until("everything deleted", func() bool {
			return len(podsOf(c, "web"))+len(claims(c, "web"))+len(revisionsOf(c, "web")) == 0
		})
	})
}

// TestStatefulSetStaleClaim scales a set down and up while a finalizer keeps the claim of the earlier pod: the new pod waits until
// that claim is gone.
func TestStatefulSetStaleClaim(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		controllertest.Create(c, client.StatefulSets, statefulSet("web", 1, func(s *appsv1.StatefulSetSpec) {
			s.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenScaled: appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
			}
		}))
		untilReplicas(c, "web", 1)
		c.Merge(controllertest.At(client.PersistentVolumeClaims, "data-web-0"), `{"metadata":{"finalizers":["example.com/hold"]}}`)
		scaleSet(c, "web", 0)
		untilReplicas(c, "web", 0)
		c.Until("claim terminating", func() bool { return len(claims(c, "web")) == 0 })
		scaleSet(c, "web", 1)
		c.Until("scale observed", func() bool {
			set, _ := controllertest.Get[*appsv1.StatefulSet](c, client.StatefulSets, "web")
			return set.Status.ObservedGeneration == set.Generation
		})
		controllertest.Want(c, "pods", len(podsOf(c, "web")), 0)
		c.Merge(controllertest.At(client.PersistentVolumeClaims, "data-web-0"), `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.com/hold"]}}`)
		untilReplicas(c, "web", 1)
	})
}

// TestStatefulSetOrphans leaves pods and revisions to another set of the same name.
func TestStatefulSetOrphans(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		controllertest.Create(c, client.StatefulSets, statefulSet("web", 2))
		first := untilReplicas(c, "web", 2)
		p, _ := controllertest.Get[*corev1.Pod](c, client.Pods, "web-1")
		c.Remove(client.StatefulSets, "web", metav1.DeletePropagationOrphan)
		c.Until("orphans", func() bool {
			return !c.Exists(client.StatefulSets, "web") && metav1.GetControllerOf(p) != nil && len(podsOf(c, "web")) == 2
		})
		controllertest.Create(c, client.StatefulSets, statefulSet("web", 2))
		set := untilReplicas(c, "web", 2)
		again, _ := controllertest.Get[*corev1.Pod](c, client.Pods, "web-1")
		controllertest.Want(c, "the same pod", again.UID, p.UID)
		if !metav1.IsControlledBy(again, set) {
			c.Errorf("web-1 has the owners %v", again.OwnerReferences)
		}
		controllertest.Want(c, "revisions", revisionsOf(c, "web"), []string{"1 " + first.Status.CurrentRevision})
		r, _ := controllertest.Get[*appsv1.ControllerRevision](c, client.ControllerRevisions, first.Status.CurrentRevision)
		if !metav1.IsControlledBy(r, set) {
			c.Errorf("the revision has the owners %v", r.OwnerReferences)
		}

		c.Merge(controllertest.At(client.Pods, "web-1"), `{"metadata":{"labels":{"app":"released"}}}`)
		c.Until("web-1 released", func() bool {
			p, _ := controllertest.Get[*corev1.Pod](c, client.Pods, "web-1")
			return metav1.GetControllerOf(p) == nil
		})
		c.Remove(client.Pods, "web-1", metav1.DeletePropagationBackground)
		untilReplicas(c, "web", 2)
	})
}

// TestStatefulSetClaimFails gives an event when the claim of a pod can't be created.
func TestStatefulSetClaimFails(t *testing.T) {
	c := controllertest.Start(t, clock.Real())
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none", Namespace: "default"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePersistentVolumeClaims: {}}
	quotas := corev1.SchemeGroupVersion.WithResource("resourcequotas")
	controllertest.Create(c, quotas, quota)
	c.Until("quota counted", func() bool {
		q, _ := controllertest.Get[*corev1.ResourceQuota](c, quotas, "none")
		return len(q.Status.Hard) == 1
	})
	controllertest.Create(c, client.StatefulSets, statefulSet("web", 1))
	const reason = `persistentvolumeclaims "data-web-0" is forbidden: exceeded quota`
	c.Until("events", func() bool {
		events := strings.Join(c.EventsOf("web"), "\n")
		return strings.Contains(events, "FailedCreate: Create Claim data-web-0 for Pod web-0 in StatefulSet web failed error: "+reason) &&
			strings.Contains(events, "FailedCreate: Create Pod web-0 in StatefulSet web failed error: failed to create PVC data-web-0: "+reason)
	})
	controllertest.Want(c, "pods", len(podsOf(c, "web")), 0)
}
