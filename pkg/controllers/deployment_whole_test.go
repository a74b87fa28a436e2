package controllers_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
)

type resourceName = schema.GroupVersionResource

func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "c", Image: "nginx:1.27", Ports: []corev1.ContainerPort{{ContainerPort: 80}},
				}}},
			},
		},
	}
}

// sets returns the sizes of a deployment's sets, by revision, with those of all earlier ones.
func (c *cluster) sets(name string) []string {
	var out []string
	for _, s := range list[*appsv1.ReplicaSet](c, client.ReplicaSets) {
		if s.Labels["app"] == name {
			a := s.Annotations
			out = append(out, fmt.Sprintf("%s %s history=%s desired=%s max=%s: %d", a["deployment.kubernetes.io/revision"], s.Name,
				a["deployment.kubernetes.io/revision-history"], a["deployment.kubernetes.io/desired-replicas"],
				a["deployment.kubernetes.io/max-replicas"], *s.Spec.Replicas))
		}
	}
	slices.Sort(out)
	return out
}

func want[T any](c *cluster, what string, got, want T) {
	c.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		c.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestRollout takes a deployment through its life, as recorded of a real cluster.
func TestRollout(t *testing.T) {
	t.Run("in process", func(t *testing.T) { rollOut(t, start(t, clock.Real())) })
	t.Run("over HTTP", func(t *testing.T) { rollOut(t, startApart(t)) })
}

func rollOut(t *testing.T, c *cluster) {
	create(c, client.Deployments, deployment("web", 3))
	d := c.rolledOut("web")
	want(c, "sets", c.sets("web"), []string{"1 web-79b4f7944d history= desired=3 max=4: 3"})
	want(c, "revision", d.Annotations["deployment.kubernetes.io/revision"], "1")
	zero := int32(0)
	want(c, "status", withoutConditions(d.Status), appsv1.DeploymentStatus{
		ObservedGeneration: 1, Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 3, AvailableReplicas: 3, TerminatingReplicas: &zero,
	})
	want(c, "conditions", conditions(d), []string{
		"Available True MinimumReplicasAvailable Deployment has minimum availability.",
		`Progressing True NewReplicaSetAvailable ReplicaSet "web-79b4f7944d" has successfully progressed.`,
	})

	image := func(tag string) {
		c.patch(at(client.Deployments, "web"), `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"nginx:`+tag+`"}]}}}}`)
	}
	image("1.28")
	c.rolledOut("web")
	want(c, "sets", c.sets("web"), []string{"1 web-79b4f7944d history= desired=3 max=4: 0", "2 web-7947785775 history= desired=3 max=4: 3"})
	for name, generation := range map[string]int64{"web-79b4f7944d": 4, "web-7947785775": 3} {
		s, _ := get[*appsv1.ReplicaSet](c, client.ReplicaSets, name)
		want(c, "generation of "+name, s.Generation, generation)
	}
	c.until("events", func() bool { return len(c.events("web")) >= 7 })
	want(c, "events", c.events("web"), []string{
		"ScalingReplicaSet: Scaled down replica set web-79b4f7944d from 1 to 0",
		"ScalingReplicaSet: Scaled down replica set web-79b4f7944d from 2 to 1",
		"ScalingReplicaSet: Scaled down replica set web-79b4f7944d from 3 to 2",
		"ScalingReplicaSet: Scaled up replica set web-7947785775 from 0 to 1",
		"ScalingReplicaSet: Scaled up replica set web-7947785775 from 1 to 2",
		"ScalingReplicaSet: Scaled up replica set web-7947785775 from 2 to 3",
		"ScalingReplicaSet: Scaled up replica set web-79b4f7944d from 0 to 3",
	})

	image("1.27") // what rollout undo does
	c.rolledOut("web")
	want(c, "sets", c.sets("web"), []string{"2 web-7947785775 history= desired=3 max=4: 0", "3 web-79b4f7944d history=1 desired=3 max=4: 3"})

	c.patch(at(client.Deployments, "web"), `{"spec":{"replicas":5}}`)
	d = c.rolledOut("web")
	want(c, "sets", c.sets("web"), []string{"2 web-7947785775 history= desired=3 max=4: 0", "3 web-79b4f7944d history=1 desired=5 max=7: 5"})
	want(c, "order of conditions", string(d.Status.Conditions[0].Type), "Progressing")

	c.patch(at(client.Deployments, "web"), `{"spec":{"replicas":1,"revisionHistoryLimit":0}}`)
	c.rolledOut("web")
	c.until("old sets cleaned up", func() bool { return len(c.sets("web")) == 1 })

	if _, err := c.Delete(c.ctx, at(client.Deployments, "web"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.until("everything collected", func() bool {
		return len(list[*appsv1.ReplicaSet](c, client.ReplicaSets))+len(list[*corev1.Pod](c, client.Pods)) == 0
	})
}

func withoutConditions(s appsv1.DeploymentStatus) appsv1.DeploymentStatus {
	s.Conditions = nil
	return s
}

func conditions(d *appsv1.Deployment) []string {
	var out []string
	for _, c := range d.Status.Conditions {
		out = append(out, fmt.Sprintf("%s %s %s %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return out
}

func TestRecreate(t *testing.T) {
	c := start(t, clock.Real())
	d := deployment("web", 2)
	d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	create(c, client.Deployments, d)
	c.rolledOut("web")
	c.patch(at(client.Deployments, "web"), `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"nginx:1.28"}]}}}}`)
	c.rolledOut("web")
	want(c, "sets", c.sets("web"), []string{"1 web-79b4f7944d history= desired=2 max=2: 0", "2 web-7947785775 history= desired=2 max=2: 2"})
}

func TestPauseAndResume(t *testing.T) {
	c := start(t, clock.Real())
	create(c, client.Deployments, deployment("web", 1))
	c.rolledOut("web")
	c.patch(at(client.Deployments, "web"), `{"spec":{"paused":true,"template":{"spec":{"containers":[{"name":"c","image":"nginx:1.28"}]}}}}`)
	c.until("paused", func() bool {
		d, _ := get[*appsv1.Deployment](c, client.Deployments, "web")
		return d.Status.ObservedGeneration == d.Generation && reason(d, appsv1.DeploymentProgressing) == "DeploymentPaused"
	})
	want(c, "sets while paused", len(c.sets("web")), 1)
	c.patch(at(client.Deployments, "web"), `{"spec":{"paused":false}}`)
	c.rolledOut("web")
	want(c, "sets", len(c.sets("web")), 2)
}

func TestOrphanAndAdopt(t *testing.T) {
	c := start(t, clock.Real())
	create(c, client.Deployments, deployment("web", 2))
	c.rolledOut("web")
	orphan := metav1.DeletePropagationOrphan
	if _, err := c.Delete(c.ctx, at(client.Deployments, "web"), metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
		t.Fatal(err)
	}
	c.until("deployment gone", func() bool {
		_, ok := get[*appsv1.Deployment](c, client.Deployments, "web")
		return !ok
	})
	s, _ := get[*appsv1.ReplicaSet](c, client.ReplicaSets, "web-79b4f7944d")
	want(c, "owners", len(s.OwnerReferences), 0)
	d := create(c, client.Deployments, deployment("web", 2))
	c.rolledOut("web")
	s, _ = get[*appsv1.ReplicaSet](c, client.ReplicaSets, "web-79b4f7944d")
	want(c, "adopted", metav1.IsControlledBy(s, d), true)

	for _, p := range list[*corev1.Pod](c, client.Pods) { // whose labels no longer match are let go
		c.patch(at(client.Pods, p.Name), `{"metadata":{"labels":{"app":"lost"}}}`)
	}
	c.until("pods replaced", func() bool { return len(list[*corev1.Pod](c, client.Pods)) == 4 })
	c.rolledOut("web")

	foreground := metav1.DeletePropagationForeground
	if _, err := c.Delete(c.ctx, at(client.Deployments, "web"), metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	c.until("everything but the lost pods collected", func() bool {
		_, ok := get[*appsv1.Deployment](c, client.Deployments, "web")
		pods := list[*corev1.Pod](c, client.Pods)
		return !ok && len(pods) == 2 && pods[0].Labels["app"] == "lost" && pods[1].Labels["app"] == "lost"
	})
}

// TestMany looks at how long a thousand pods take to be made.
func TestMany(t *testing.T) {
	c := start(t, clock.Real())
	c.until("service account", func() bool {
		_, ok := get[*corev1.ServiceAccount](c, client.ServiceAccounts, "default")
		return ok
	})
	began := time.Now() //nolint:forbidigo // measured
	create(c, client.Deployments, deployment("many", 1000))
	c.until("1,000 pods", func() bool { return len(c.caches.Pods().List("default", nil)) >= 1000 })
	t.Logf("1,000 pods made in %v", time.Since(began)) //nolint:forbidigo // measured
	c.until("counted", func() bool {
		d, _ := get[*appsv1.Deployment](c, client.Deployments, "many")
		return d.Status.Replicas == 1000
	})
	want(c, "pods", len(list[*corev1.Pod](c, client.Pods)), 1000)
}
