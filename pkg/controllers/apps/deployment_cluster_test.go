package apps_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/controllertest"
)

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
func sets(c *controllertest.Cluster, name string) []string {
	var out []string
	for _, s := range controllertest.List[*appsv1.ReplicaSet](c, client.ReplicaSets) {
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

// TestRollout rolls a deployment out, back, and scales it, and compares with a recording of a real cluster.
func TestRollout(t *testing.T) {
	t.Run("in process", func(t *testing.T) { rollOut(t, controllertest.Start(t, clock.Real())) })
	t.Run("over HTTP", func(t *testing.T) { rollOut(t, controllertest.StartRemote(t)) })
}

func rollOut(t *testing.T, c *controllertest.Cluster) {
	controllertest.Create(c, client.Deployments, deployment("web", 3))
	d := rolledOut(c, "web")
	controllertest.Want(c, "sets", sets(c, "web"), []string{"1 web-79b4f7944d history= desired=3 max=4: 3"})
	controllertest.Want(c, "revision", d.Annotations["deployment.kubernetes.io/revision"], "1")
	zero := int32(0)
	controllertest.Want(c, "status", withoutConditions(d.Status), appsv1.DeploymentStatus{
		ObservedGeneration: 1, Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 3, AvailableReplicas: 3, TerminatingReplicas: &zero,
	})
	controllertest.Want(c, "conditions", conditions(d), []string{
		"Available True MinimumReplicasAvailable Deployment has minimum availability.",
		`Progressing True NewReplicaSetAvailable ReplicaSet "web-79b4f7944d" has successfully progressed.`,
	})

	image := func(tag string) {
		c.Merge(controllertest.At(client.Deployments, "web"), `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"nginx:`+tag+`"}]}}}}`)
	}
	image("1.28")
	rolledOut(c, "web")
	controllertest.Want(c, "sets", sets(c, "web"), []string{"1 web-79b4f7944d history= desired=3 max=4: 0", "2 web-7947785775 history= desired=3 max=4: 3"})
	for name, generation := range map[string]int64{"web-79b4f7944d": 4, "web-7947785775": 3} {
		s, _ := controllertest.Get[*appsv1.ReplicaSet](c, client.ReplicaSets, name)
		controllertest.Want(c, "generation of "+name, s.Generation, generation)
	}
	c.Until("events", func() bool { return len(c.EventsOf("web")) >= 7 })
	controllertest.Want(c, "events", c.EventsOf("web"), []string{
		"ScalingReplicaSet: Scaled down replica set web-79b4f7944d from 1 to 0",
		"ScalingReplicaSet: Scaled down replica set web-79b4f7944d from 2 to 1",
		"ScalingReplicaSet: Scaled down replica set web-79b4f7944d from 3 to 2",
		"ScalingReplicaSet: Scaled up replica set web-7947785775 from 0 to 1",
		"ScalingReplicaSet: Scaled up replica set web-7947785775 from 1 to 2",
		"ScalingReplicaSet: Scaled up replica set web-7947785775 from 2 to 3",
		"ScalingReplicaSet: Scaled up replica set web-79b4f7944d from 0 to 3",
	})

	image("1.27") // as rollout undo does
	rolledOut(c, "web")
	controllertest.Want(c, "sets", sets(c, "web"), []string{"2 web-7947785775 history= desired=3 max=4: 0", "3 web-79b4f7944d history=1 desired=3 max=4: 3"})

	c.Merge(controllertest.At(client.Deployments, "web"), `{"spec":{"replicas":5}}`)
	d = rolledOut(c, "web")
	controllertest.Want(c, "sets", sets(c, "web"), []string{"2 web-7947785775 history= desired=3 max=4: 0", "3 web-79b4f7944d history=1 desired=5 max=7: 5"})
	controllertest.Want(c, "order of conditions", string(d.Status.Conditions[0].Type), "Progressing")

	c.Merge(controllertest.At(client.Deployments, "web"), `{"spec":{"replicas":1,"revisionHistoryLimit":0}}`)
	rolledOut(c, "web")
	c.Until("old sets cleaned up", func() bool { return len(sets(c, "web")) == 1 })

	if _, err := c.Delete(c.Context(), controllertest.At(client.Deployments, "web"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Until("everything collected", func() bool {
		return len(controllertest.List[*appsv1.ReplicaSet](c, client.ReplicaSets))+len(controllertest.List[*corev1.Pod](c, client.Pods)) == 0
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
	c := controllertest.Start(t, clock.Real())
	d := deployment("web", 2)
	d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	controllertest.Create(c, client.Deployments, d)
	rolledOut(c, "web")
	c.Merge(controllertest.At(client.Deployments, "web"), `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"nginx:1.28"}]}}}}`)
	rolledOut(c, "web")
	controllertest.Want(c, "sets", sets(c, "web"), []string{"1 web-79b4f7944d history= desired=2 max=2: 0", "2 web-7947785775 history= desired=2 max=2: 2"})
}

// TestRecreateMixed: a Deployment that is scaled while it is changed to Recreate in the middle of a rolling update ends the rollout.
func TestRecreateMixed(t *testing.T) {
	c := controllertest.Start(t, clock.Real())
	controllertest.Create(c, client.Deployments, deployment("web", 2))
	rolledOut(c, "web")
	c.Merge(controllertest.At(client.Deployments, "web"),
		`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"nginx:1.28","resources":{"requests":{"cpu":"9999"}}}]}}}}`)
	sizes := func() (out []int32) {
		for _, s := range controllertest.List[*appsv1.ReplicaSet](c, client.ReplicaSets) {
			out = append(out, *s.Spec.Replicas)
		}
		slices.Sort(out)
		return out
	}
	c.Until("the rollout hangs", func() bool { return slices.Equal(sizes(), []int32{1, 2}) })
	c.Merge(controllertest.At(client.Deployments, "web"), `{"spec":{"replicas":3,"strategy":{"type":"Recreate","rollingUpdate":null}}}`)
	c.Until("all pods are new", func() bool { return slices.Equal(sizes(), []int32{0, 3}) })
}

func TestPauseAndResume(t *testing.T) {
	c := controllertest.Start(t, clock.Real())
	controllertest.Create(c, client.Deployments, deployment("web", 1))
	rolledOut(c, "web")
	c.Merge(controllertest.At(client.Deployments, "web"), `{"spec":{"paused":true,"template":{"spec":{"containers":[{"name":"c","image":"nginx:1.28"}]}}}}`)
	c.Until("paused", func() bool {
		d, _ := controllertest.Get[*appsv1.Deployment](c, client.Deployments, "web")
		return d.Status.ObservedGeneration == d.Generation && reason(d, appsv1.DeploymentProgressing) == "DeploymentPaused"
	})
	controllertest.Want(c, "sets while paused", len(sets(c, "web")), 1)
	c.Merge(controllertest.At(client.Deployments, "web"), `{"spec":{"paused":false}}`)
	rolledOut(c, "web")
	controllertest.Want(c, "sets", len(sets(c, "web")), 2)
}

func TestOrphanAndAdopt(t *testing.T) {
	c := controllertest.Start(t, clock.Real())
	controllertest.Create(c, client.Deployments, deployment("web", 2))
	rolledOut(c, "web")
	orphan := metav1.DeletePropagationOrphan
	if _, err := c.Delete(c.Context(), controllertest.At(client.Deployments, "web"), metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
		t.Fatal(err)
	}
	c.Until("deployment gone", func() bool {
		_, ok := controllertest.Get[*appsv1.Deployment](c, client.Deployments, "web")
		return !ok
	})
	s, _ := controllertest.Get[*appsv1.ReplicaSet](c, client.ReplicaSets, "web-79b4f7944d")
	controllertest.Want(c, "owners", len(s.OwnerReferences), 0)
	d := controllertest.Create(c, client.Deployments, deployment("web", 2))
	rolledOut(c, "web")
	s, _ = controllertest.Get[*appsv1.ReplicaSet](c, client.ReplicaSets, "web-79b4f7944d")
	controllertest.Want(c, "adopted", metav1.IsControlledBy(s, d), true)

	for _, p := range controllertest.List[*corev1.Pod](c, client.Pods) { // pods whose labels no longer match are released
		c.Merge(controllertest.At(client.Pods, p.Name), `{"metadata":{"labels":{"app":"lost"}}}`)
	}
	c.Until("pods replaced", func() bool { return len(controllertest.List[*corev1.Pod](c, client.Pods)) == 4 })
	rolledOut(c, "web")

	foreground := metav1.DeletePropagationForeground
	if _, err := c.Delete(c.Context(), controllertest.At(client.Deployments, "web"), metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	c.Until("everything but the lost pods collected", func() bool {
		_, ok := controllertest.Get[*appsv1.Deployment](c, client.Deployments, "web")
		pods := controllertest.List[*corev1.Pod](c, client.Pods)
		return !ok && len(pods) == 2 && pods[0].Labels["app"] == "lost" && pods[1].Labels["app"] == "lost"
	})
}

// TestThousandPods logs the time to create a thousand pods.
func TestThousandPods(t *testing.T) {
	c := controllertest.Start(t, clock.Real())
	began := time.Now() //nolint:forbidigo // measured
	controllertest.Create(c, client.Deployments, deployment("many", 1000))
	c.Until("1,000 pods", func() bool { return len(c.Caches.Pods().List("default", nil)) >= 1000 })
	t.Logf("1,000 pods made in %v", time.Since(began)) //nolint:forbidigo // measured
	c.Until("counted", func() bool {
		d, _ := controllertest.Get[*appsv1.Deployment](c, client.Deployments, "many")
		return d.Status.Replicas == 1000
	})
	controllertest.Want(c, "pods", len(controllertest.List[*corev1.Pod](c, client.Pods)), 1000)
}

// rolledOut marks each new pod as ready until the deployment is complete.
func rolledOut(c *controllertest.Cluster, name string) *appsv1.Deployment {
	c.Helper()
	var d *appsv1.Deployment
	c.Until("deployment "+name+" rolled out", func() bool {
		c.MakePodsReady()
		d, _ = controllertest.Get[*appsv1.Deployment](c, client.Deployments, name)
		s := d.Status
		return s.ObservedGeneration == d.Generation && s.Replicas == *d.Spec.Replicas && s.UpdatedReplicas == s.Replicas &&
			s.AvailableReplicas == s.Replicas && reason(d, appsv1.DeploymentProgressing) == "NewReplicaSetAvailable" &&
			terminated(c, name)
	})
	return d
}

// terminated reports whether the ReplicaSets of a deployment have exactly the pods in their status.
func terminated(c *controllertest.Cluster, name string) bool {
	for _, s := range controllertest.List[*appsv1.ReplicaSet](c, client.ReplicaSets) {
		if s.Labels["app"] == name && (s.Status.ObservedGeneration != s.Generation || s.Status.Replicas != *s.Spec.Replicas) {
			return false
		}
	}
	return true
}

func reason(d *appsv1.Deployment, kind appsv1.DeploymentConditionType) string {
	i := slices.IndexFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == kind })
	if i < 0 {
		return ""
	}
	return d.Status.Conditions[i].Reason
}
