package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controllertest"
)

var budgets = policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")

var web = map[string]string{"app": "web"}

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: web},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx:1.27"}}},
	}
}

func deployment(replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: web}, Template: template()}}
}

// budget returns a budget of the pods of web. amount is FIELD=VALUE.
func budget(name, amount string) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: web}
	field, value, _ := strings.Cut(amount, "=")
	n := intstr.Parse(value)
	if field == "minAvailable" {
		b.Spec.MinAvailable = &n
	} else {
		b.Spec.MaxUnavailable = &n
	}
	return b
}

// state returns the status of a budget: allowed, healthy/desired/expected, whether it is current, the reason and message of the condition.
func state(c *controllertest.Cluster, name string) string {
	c.Helper()
	b, _ := controllertest.Get[*policyv1.PodDisruptionBudget](c, budgets, name)
	s := b.Status
	out := fmt.Sprintf("%d of %d/%d/%d", s.DisruptionsAllowed, s.CurrentHealthy, s.DesiredHealthy, s.ExpectedPods)
	if s.ObservedGeneration != b.Generation {
		out += " not observed"
	}
	for _, condition := range s.Conditions {
		out += fmt.Sprintf(" %s=%s %s", condition.Type, condition.Status, condition.Reason)
		if condition.Message != "" {
			out += ": " + condition.Message
		}
	}
	return out
}

func becomes(c *controllertest.Cluster, name, want string) {
	c.Helper()
	var got string
	defer func() {
		if got != want {
			c.Logf("budget %s: %s", name, got)
		}
	}()
	c.Until(name+" is "+want, func() bool {
		c.MakePodsReady()
		got = state(c, name)
		return got == want
	})
}

func evict(c *controllertest.Cluster, pod string) error {
	t := controllertest.At(client.Pods, pod).Sub("eviction")
	_, err := c.Create(c.Context(), t, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: "default"}}, metav1.CreateOptions{})
	return err
}

// why returns the cause of a refused eviction.
func why(err error) string {
	status, ok := err.(apierrors.APIStatus)
	if !ok || !apierrors.IsTooManyRequests(err) || status.Status().Details == nil || len(status.Status().Details.Causes) != 1 {
		return fmt.Sprint(err)
	}
	return status.Status().Details.Causes[0].Message
}

// TestBudgets follows a budget through the amounts that it can have and the scale of its Deployment.
func TestBudgets(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		controllertest.Create(c, budgets, budget("web", "minAvailable=2"))
		becomes(c, "web", "0 of 0/2/0 DisruptionAllowed=False InsufficientPods")
		c.Until("event", func() bool { return len(c.EventsOf("web")) > 0 })
		controllertest.Want(c, "events", c.EventsOf("web"), []string{"NoPods: No matching pods found"})

		controllertest.Create(c, client.Deployments, deployment(3))
		becomes(c, "web", "1 of 3/2/3 DisruptionAllowed=True SufficientPods")
		amend := func(patch string) { c.Merge(controllertest.At(budgets, "web"), patch) }
		scale := func(n int) {
			c.Merge(controllertest.At(client.Deployments, "web"), fmt.Sprintf(`{"spec":{"replicas":%d}}`, n))
		}
		scale(2)
		becomes(c, "web", "0 of 2/2/2 DisruptionAllowed=False InsufficientPods")
		amend(`{"spec":{"minAvailable":"50%"}}`)
		becomes(c, "web", "1 of 2/1/2 DisruptionAllowed=True SufficientPods")
		scale(5)
		becomes(c, "web", "2 of 5/3/5 DisruptionAllowed=True SufficientPods")
		amend(`{"spec":{"minAvailable":null,"maxUnavailable":"30%"}}`)
		becomes(c, "web", "2 of 5/3/5 DisruptionAllowed=True SufficientPods")
		amend(`{"spec":{"maxUnavailable":1}}`)
		becomes(c, "web", "1 of 5/4/5 DisruptionAllowed=True SufficientPods")
		pods := controllertest.List[*corev1.Pod](c, client.Pods)
		c.Merge(controllertest.At(client.Pods, pods[0].Name).Sub("status"), `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`)
		becomes(c, "web", "0 of 4/4/5 DisruptionAllowed=False InsufficientPods")
		scale(0)
		becomes(c, "web", "0 of 0/0/0 DisruptionAllowed=False InsufficientPods")
	})
}

// TestEvictions evicts pods as a drain does: one is allowed, the next one is refused until a new pod is Ready.
func TestEvictions(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		controllertest.Create(c, client.Deployments, deployment(3))
		controllertest.Create(c, budgets, budget("web", "minAvailable=2"))
		becomes(c, "web", "1 of 3/2/3 DisruptionAllowed=True SufficientPods")
		pods := controllertest.List[*corev1.Pod](c, client.Pods)
		if err := evict(c, pods[0].Name); err != nil {
			t.Fatal(err)
		}
		c.Until("the eviction is counted", func() bool { return state(c, "web") == "0 of 2/2/3 DisruptionAllowed=False InsufficientPods" })
		controllertest.Want(c, "refusal", why(evict(c, pods[1].Name)), "The disruption budget web needs 2 healthy pods and has 2 currently")
		becomes(c, "web", "1 of 3/2/3 DisruptionAllowed=True SufficientPods")
		if err := evict(c, pods[1].Name); err != nil {
			t.Fatal(err)
		}
	})
}

// TestFailedSync checks budgets whose pods have no scale: they allow nothing and say why.
func TestFailedSync(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		create := func(name string, owners ...metav1.OwnerReference) {
			controllertest.Create(c, client.Pods, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: web, OwnerReferences: owners}, Spec: template().Spec})
		}
		controllertest.Create(c, budgets, budget("web", "maxUnavailable=1"))
		create("a")
		c.MakePodsReady()
		becomes(c, "web", "0 of 1/0/0 DisruptionAllowed=False InsufficientPods")
		c.Until("event", func() bool { return strings.Contains(fmt.Sprint(c.EventsOf("web")), "UnmanagedPods") })
		controllertest.Want(c, "event", c.EventsOf("web")[len(c.EventsOf("web"))-1],
			"UnmanagedPods: Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:map[string]string{app: web,},"+
				"MatchExpressions:[]LabelSelectorRequirement{},}) were found to be unmanaged. As a result, the status of the PDB cannot be "+
				"calculated correctly, which may result in undefined behavior. To account for these pods please set \".spec.minAvailable\" "+
				"field of the PDB to an integer value.")

		owner := controllertest.Create(c, client.ConfigMaps, controllertest.ConfigMap("owner"))
		create("b", metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID, Controller: new(true)})
		becomes(c, "web", "0 of 1/0/0 DisruptionAllowed=False SyncFailed: configmaps does not implement the scale subresource")
		refusal := why(evict(c, "a"))
		controllertest.Want(c, "refusal", refusal, "The disruption budget web does not allow evicting pods currently because it failed sync: "+
			"configmaps does not implement the scale subresource")
		c.Until("event", func() bool {
			return strings.Contains(fmt.Sprint(c.EventsOf("web")), "CalculateExpectedPodCountFailed: Failed to calculate the number of expected pods: "+
				"configmaps does not implement the scale subresource")
		})
		c.Merge(controllertest.At(budgets, "web"), `{"spec":{"maxUnavailable":null,"minAvailable":1}}`)
		becomes(c, "web", "1 of 2/1/2 DisruptionAllowed=True SufficientPods")
	})
}

// TestCustomScale takes the expected pods from the scale of a custom resource.
func TestCustomScale(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		c.Define("Shirt", controllertest.Shirts, apiextensionsv1.NamespaceScoped, controllertest.Scale)
		shirt := controllertest.Create(c, controllertest.Shirts, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Shirt", "metadata": map[string]any{"name": "shirt", "namespace": "default"},
			"spec": map[string]any{"replicas": int64(4)}}})
		ref := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Shirt", Name: "shirt", UID: shirt.GetUID(), Controller: new(true)}
		for i := range 3 {
			controllertest.Create(c, client.Pods, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i), Namespace: "default", Labels: web, OwnerReferences: []metav1.OwnerReference{ref}}, Spec: template().Spec})
		}
		controllertest.Create(c, budgets, budget("web", "maxUnavailable=50%"))
		becomes(c, "web", "1 of 3/2/4 DisruptionAllowed=True SufficientPods")
	})
}

// TestMultipleBudgets: a pod that two budgets select gets an Event, and both count it.
func TestMultipleBudgets(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		controllertest.Create(c, budgets, budget("b", "minAvailable=1"))
		controllertest.Create(c, budgets, budget("a", "minAvailable=2"))
		becomes(c, "a", "0 of 0/2/0 DisruptionAllowed=False InsufficientPods")
		becomes(c, "b", "0 of 0/1/0 DisruptionAllowed=False InsufficientPods")
		for _, name := range []string{"p", "q"} {
			controllertest.Create(c, client.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: web}, Spec: template().Spec})
		}
		becomes(c, "a", "0 of 2/2/2 DisruptionAllowed=False InsufficientPods")
		becomes(c, "b", "1 of 2/1/2 DisruptionAllowed=True SufficientPods")
		c.Until("event", func() bool { return len(c.EventsOf("p")) > 0 })
		controllertest.Want(c, "events", c.EventsOf("p"), []string{
			`MultiplePodDisruptionBudgets: Pod "default"/"p" matches multiple PodDisruptionBudgets.  Chose "a" arbitrarily.`})
		c.Merge(controllertest.At(client.Pods, "q"), `{"metadata":{"labels":{"app":"other"}}}`)
		becomes(c, "b", "0 of 1/1/1 DisruptionAllowed=False InsufficientPods")
	})
}

// TestTimeouts: a pod that was evicted or marked and is still there after two minutes is a normal pod again.
func TestTimeouts(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		controllertest.Create(c, client.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", Labels: web}, Spec: template().Spec})
		controllertest.Create(c, budgets, budget("web", "minAvailable=0"))
		becomes(c, "web", "1 of 1/0/1 DisruptionAllowed=True SufficientPods")
		old := time.Now().Add(-3 * time.Minute).UTC().Format(time.RFC3339)
		c.Merge(controllertest.At(client.Pods, "p").Sub("status"),
			fmt.Sprintf(`{"status":{"conditions":[{"type":"DisruptionTarget","status":"True","reason":"EvictionByEvictionAPI","message":"m","lastTransitionTime":%q}]}}`, old))
		c.Until("condition", func() bool {
			p, _ := controllertest.Get[*corev1.Pod](c, client.Pods, "p")
			for _, condition := range p.Status.Conditions {
				if condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionFalse {
					return condition.Reason == "" && condition.Message == "" && condition.ObservedGeneration == p.Generation
				}
			}
			return false
		})
		c.Merge(controllertest.At(budgets, "web").Sub("status"), fmt.Sprintf(`{"status":{"disruptionsAllowed":0,"disruptedPods":{"p":%q}}}`, old))
		becomes(c, "web", "1 of 1/0/1 DisruptionAllowed=True SufficientPods")
		c.Until("event", func() bool { return len(c.EventsOf("p")) > 0 })
		controllertest.Want(c, "events", c.EventsOf("p"), []string{"NotDeleted: Pod was expected by PDB default/default to be deleted but it wasn't"})
	})
}
