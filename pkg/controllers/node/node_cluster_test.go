package node_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controllertest"
)

func node(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

// report writes the condition Ready as the kubelet does.
func report(c *controllertest.Cluster, name string) {
	c.Merge(client.Target{Resource: client.Nodes, Name: name, Subresource: "status"},
		`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","message":"kubelet is posting ready status"}]}}`)
}

func getNode(c *controllertest.Cluster, name string) *corev1.Node {
	obj, err := c.Get(c.Context(), client.Target{Resource: client.Nodes, Name: name}, metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return obj.(*corev1.Node)
}

func taints(n *corev1.Node) []string {
	var out []string
	for _, t := range n.Spec.Taints {
		out = append(out, t.Key+":"+string(t.Effect))
	}
	slices.Sort(out)
	return out
}

// TestUnreachableNode: a node that stops posting its status gets the taints unreachable, its pods become not ready, and they are
// evicted when their toleration ends.
func TestUnreachableNode(t *testing.T) {
	clk := testclock.NewFakeClock(time.Now()) //nolint:forbidigo // near the server's
	c := controllertest.Start(t, clk)
	for _, name := range []string{"unreachable", "healthy"} {
		controllertest.Create(c, client.Nodes, node(name))
		report(c, name)
	}
	p := controllertest.Create(c, client.Pods, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"},
		Spec:       corev1.PodSpec{NodeName: "unreachable", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	})
	c.MakePodsReady()
	lease := controllertest.Create(c, client.Leases, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "healthy", Namespace: "kube-node-lease"}})
	c.Until("taints of new nodes gone", func() bool { return len(taints(getNode(c, "unreachable")))+len(taints(getNode(c, "healthy"))) == 0 })

	for i := 0; len(taints(getNode(c, "unreachable"))) == 0; i++ {
		if i > 20 {
			t.Fatalf("node unreachable after %d steps: %+v", i, getNode(c, "unreachable").Status.Conditions)
		}
		next := lease.DeepCopy()
		now := metav1.NewMicroTime(clk.Now())
		next.Spec.RenewTime = &now
		out, err := c.Update(c.Context(), controllertest.At(client.Leases, "kube-node-lease/healthy"), next, metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		lease = out.(*coordinationv1.Lease)
		c.Until("lease seen", func() bool {
			l, ok := client.CacheOf[*coordinationv1.Lease](c.Caches, client.Leases).Get(types.NamespacedName{Namespace: "kube-node-lease", Name: "healthy"})
			return ok && l.ResourceVersion == lease.ResourceVersion
		})
		clk.Step(5 * time.Second)
		settle(c)
	}
	clk.Step(5 * time.Second) // it is evicted a monitor period later
	c.Until("both taints", func() bool { return len(taints(getNode(c, "unreachable"))) == 2 })
	controllertest.Want(c, "taints", taints(getNode(c, "unreachable")), []string{"node.kubernetes.io/unreachable:NoExecute", "node.kubernetes.io/unreachable:NoSchedule"})
	controllertest.Want(c, "taints of the other", len(taints(getNode(c, "healthy"))), 0)
	for _, cond := range getNode(c, "unreachable").Status.Conditions {
		if cond.Type == corev1.NodeReady {
			controllertest.Want(c, "ready", fmt.Sprint(cond.Status, " ", cond.Reason, " ", cond.Message), "Unknown NodeStatusUnknown Kubelet stopped posting node status.")
		}
	}
	c.Until("pod not ready", func() bool {
		p, _ = controllertest.Get[*corev1.Pod](c, client.Pods, "p")
		i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
		return i >= 0 && p.Status.Conditions[i].Status == corev1.ConditionFalse
	})
	if p.DeletionTimestamp != nil {
		t.Error("evicted before its toleration ended")
	}
	clk.Step(299 * time.Second)
	settle(c)
	if p, _ = controllertest.Get[*corev1.Pod](c, client.Pods, "p"); p.DeletionTimestamp != nil {
		t.Error("evicted a second before its toleration ended")
	}
	clk.Step(20 * time.Second)
	c.Until("evicted", func() bool {
		p, _ = controllertest.Get[*corev1.Pod](c, client.Pods, "p")
		return p.DeletionTimestamp != nil
	})
	if _, err := c.Delete(c.Context(), client.Target{Resource: client.Nodes, Name: "unreachable"}, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Until("pod of the gone node gone", func() bool {
		clk.Step(10 * time.Second)
		_, ok := controllertest.Get[*corev1.Pod](c, client.Pods, "p")
		return !ok
	})
}

// settle gives controllers time to act after a step of the clock.
func settle(c *controllertest.Cluster) {
	for range 10 {
		c.Until("a moment", func() bool { return true })
		<-time.After(5 * time.Millisecond) //nolint:forbidigo // the test waits
	}
}
