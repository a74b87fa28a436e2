package resource_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controllertest"
)

var (
	claims    = resourcev1.SchemeGroupVersion.WithResource("resourceclaims")
	templates = resourcev1.SchemeGroupVersion.WithResource("resourceclaimtemplates")
)

func template(name string) *resourcev1.ResourceClaimTemplate {
	return &resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       resourcev1.ResourceClaimTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"from": name}}, Spec: claimSpec()},
	}
}

func claimSpec() resourcev1.ResourceClaimSpec {
	return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
		{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpus"}},
	}}}
}

func podWith(name string, refs ...corev1.PodResourceClaim) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: corev1.PodSpec{
		ResourceClaims: refs, Containers: []corev1.Container{{Name: "c", Image: "i"}},
	}}
}

func fromTemplate(name, template string) corev1.PodResourceClaim {
	return corev1.PodResourceClaim{Name: name, ResourceClaimTemplateName: &template}
}

// generated returns the names of the claims in a pod's status, by their names in the pod.
func generated(c *controllertest.Cluster, pod string) map[string]string {
	out := map[string]string{}
	if p, ok := controllertest.Get[*corev1.Pod](c, client.Pods, pod); ok {
		for _, s := range p.Status.ResourceClaimStatuses {
			out[s.Name] = *s.ResourceClaimName
		}
	}
	return out
}

// TestTemplates follows the page "Dynamic Resource Allocation" of the documentation.
func TestTemplates(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		pod := controllertest.Create(c, client.Pods, podWith("web", fromTemplate("a", "t"), fromTemplate("b", "t")))
		want := `FailedResourceClaimCreation: PodResourceClaim a: resource claim template "t": resourceclaimtemplate.resource.k8s.io "t" not found`
		c.Until("the Event about the missing template", func() bool { return slices.Contains(c.EventsOf("web"), want) })
		controllertest.Create(c, templates, template("t"))
		c.Until("both claims are in the status", func() bool { return len(generated(c, "web")) == 2 })
		names := generated(c, "web")
		a, ok := controllertest.Get[*resourcev1.ResourceClaim](c, claims, names["a"])
		if !ok || !metav1.IsControlledBy(a, pod) || a.Labels["from"] != "t" || a.Annotations["resource.kubernetes.io/pod-claim-name"] != "a" ||
			!strings.HasPrefix(a.Name, "web-a-") || len(a.Name) != len("web-a-")+5 {
			t.Errorf("got %+v", a)
		}
		if all := controllertest.List[*resourcev1.ResourceClaim](c, claims); len(all) != 2 {
			t.Errorf("there are %d claims", len(all))
		}

		c.Remove(claims, names["a"], metav1.DeletePropagationBackground)
		c.Until("a deleted claim is made again", func() bool {
			now := generated(c, "web")
			return now["a"] != names["a"] && now["b"] == names["b"] && c.Exists(claims, now["a"])
		})
		c.Remove(client.Pods, "web", metav1.DeletePropagationBackground)
		c.Until("the claims are deleted with their pod", func() bool { return len(controllertest.List[*resourcev1.ResourceClaim](c, claims)) == 0 })
	})
}

// allocate stores an allocation and reservations of a claim, as the scheduler does.
func allocate(c *controllertest.Cluster, name string, pods ...*corev1.Pod) {
	c.Helper()
	c.Merge(controllertest.At(claims, name), `{"metadata":{"finalizers":["resource.kubernetes.io/delete-protection"]}}`)
	claim, _ := controllertest.Get[*resourcev1.ResourceClaim](c, claims, name)
	claim = claim.DeepCopy()
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
		{Request: "r", Driver: "gpu.example.com", Pool: "p", Device: "d"},
	}}}
	for _, p := range pods {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: p.UID})
	}
	if _, err := c.Update(c.Context(), controllertest.At(claims, name).Sub("status"), claim, metav1.UpdateOptions{}); err != nil {
		c.Fatal(err)
	}
}

func TestReservations(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		get := func(name string) *resourcev1.ResourceClaim {
			claim, _ := controllertest.Get[*resourcev1.ResourceClaim](c, claims, name)
			return claim
		}
		shared := "shared"
		ref := corev1.PodResourceClaim{Name: "s", ResourceClaimName: &shared}
		controllertest.Create(c, claims, &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: shared, Namespace: "default"}, Spec: claimSpec()})
		one := controllertest.Create(c, client.Pods, podWith("one", ref))
		two := controllertest.Create(c, client.Pods, podWith("two", ref))
		gone := podWith("gone", ref)
		gone.UID = "gone"
		allocate(c, shared, one, two, gone)
		c.Until("the reservation of a pod that does not exist is removed", func() bool { return len(get(shared).Status.ReservedFor) == 2 })

		bound := podWith("bound", ref)
		bound.Spec.NodeName = "node-1"
		controllertest.Create(c, client.Pods, bound)
		c.Until("a pod that was made for a node has a reservation", func() bool {
			return slices.ContainsFunc(get(shared).Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool { return r.Name == "bound" })
		})
		for _, name := range []string{"one", "two"} {
			c.Remove(client.Pods, name, metav1.DeletePropagationBackground)
		}
		c.Until("the last reservation is left", func() bool { return len(get(shared).Status.ReservedFor) == 1 && get(shared).Status.Allocation != nil })
		c.Merge(controllertest.At(client.Pods, "bound").Sub("status"), `{"status":{"phase":"Succeeded"}}`)
		c.Until("a claim that no pod uses is deallocated", func() bool {
			return len(get(shared).Status.ReservedFor) == 0 && get(shared).Status.Allocation == nil && len(get(shared).Finalizers) == 0
		})

		allocate(c, shared)
		c.Remove(claims, shared, metav1.DeletePropagationBackground)
		c.Until("a deleted claim without reservations goes", func() bool { return !c.Exists(claims, shared) })
	})
}

// TestClaimOfFinishedPod: the claim that was made for a pod is deleted when the pod has finished, and no other one is made.
func TestClaimOfFinishedPod(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		controllertest.Create(c, templates, template("t"))
		controllertest.Create(c, client.Pods, podWith("job", fromTemplate("a", "t")))
		c.Until("the claim is made", func() bool { return len(generated(c, "job")) == 1 })
		name := generated(c, "job")["a"]
		c.Merge(controllertest.At(client.Pods, "job").Sub("status"), `{"status":{"phase":"Succeeded"}}`)
		c.Until("the claim of a finished pod is deleted", func() bool { return len(controllertest.List[*resourcev1.ResourceClaim](c, claims)) == 0 })
		controllertest.Create(c, client.Pods, podWith("next", fromTemplate("a", "t")))
		c.Until("the claim of the next pod is made", func() bool { return len(generated(c, "next")) == 1 })
		if now := generated(c, "job")["a"]; now != name {
			t.Errorf("the finished pod has got the claim %s after %s", now, name)
		}
	})
}
