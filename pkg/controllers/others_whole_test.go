package controllers_test

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
	"github.com/minikctl/minikctl/pkg/clock"
)

func configMap(name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", OwnerReferences: owners}}
}

func ownedBy(name string, uid types.UID, block bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: uid, BlockOwnerDeletion: &block}
}

func (c *cluster) has(name string) bool {
	_, ok := get[*corev1.ConfigMap](c, client.ConfigMaps, name)
	return ok
}

// TestCollect: what has lost all its owners goes, and nothing else.
func TestCollect(t *testing.T) {
	c := start(t, clock.Real())
	owner, other := create(c, client.ConfigMaps, configMap("owner")), create(c, client.ConfigMaps, configMap("other"))
	child := create(c, client.ConfigMaps, configMap("child", ownedBy("owner", owner.UID, true)))
	create(c, client.ConfigMaps, configMap("grandchild", ownedBy("child", child.UID, true)))
	create(c, client.ConfigMaps, configMap("shared", ownedBy("owner", owner.UID, true), ownedBy("other", other.UID, false)))
	create(c, client.ConfigMaps, configMap("foundling", ownedBy("nobody", "11111111-2222-3333-4444-555555555555", false)))
	create(c, client.ConfigMaps, configMap("changeling", ownedBy("other", "11111111-2222-3333-4444-555555555555", false)))
	stranger := ownedBy("who", "11111111-2222-3333-4444-555555555556", false)
	stranger.APIVersion, stranger.Kind = "nowhere.example.org/v1", "Thing"
	create(c, client.ConfigMaps, configMap("stranger", stranger))
	c.until("those without owners gone", func() bool { return !c.has("foundling") && !c.has("changeling") })
	for _, name := range []string{"owner", "child", "grandchild", "shared", "other", "stranger"} {
		want(c, name+" is there", c.has(name), true)
	}
	if _, err := c.Delete(c.ctx, at(client.ConfigMaps, "owner"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.until("the chain gone", func() bool { return !c.has("child") && !c.has("grandchild") })
	c.until("the lost owner forgotten", func() bool {
		shared, ok := get[*corev1.ConfigMap](c, client.ConfigMaps, "shared")
		return ok && len(shared.OwnerReferences) == 1 && shared.OwnerReferences[0].UID == other.UID
	})
	want(c, "stranger is there", c.has("stranger"), true)
}

// TestForeground: the owner goes last, and circles do not hold each other up.
func TestForeground(t *testing.T) {
	c := start(t, clock.Real())
	owner := create(c, client.ConfigMaps, configMap("owner"))
	child := configMap("child", ownedBy("owner", owner.UID, true))
	child.Finalizers = []string{"example.org/wait"}
	create(c, client.ConfigMaps, child)
	foreground := metav1.DeletePropagationForeground
	if _, err := c.Delete(c.ctx, at(client.ConfigMaps, "owner"), metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	c.until("the child being deleted", func() bool {
		child, _ := get[*corev1.ConfigMap](c, client.ConfigMaps, "child")
		return child.DeletionTimestamp != nil
	})
	want(c, "the owner is there", c.has("owner"), true)
	c.patch(at(client.ConfigMaps, "child"), `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.org/wait"]}}`)
	c.until("both gone", func() bool { return !c.has("owner") && !c.has("child") })

	a := create(c, client.ConfigMaps, configMap("a"))
	b := create(c, client.ConfigMaps, configMap("b", ownedBy("a", a.UID, true)))
	c.patch(at(client.ConfigMaps, "a"), fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"b","uid":%q,"blockOwnerDeletion":true}]}}`, b.UID))
	if _, err := c.Delete(c.ctx, at(client.ConfigMaps, "a"), metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	c.until("the circle gone", func() bool { return !c.has("a") && !c.has("b") })
}

func TestNamespaces(t *testing.T) {
	c := start(t, clock.Real())
	create(c, client.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	c.until("account and certificate", func() bool {
		_, account := get[*corev1.ServiceAccount](c, client.ServiceAccounts, "n/default")
		cm, ca := get[*corev1.ConfigMap](c, client.ConfigMaps, "n/kube-root-ca.crt")
		return account && ca && cm.Data["ca.crt"] == "a certificate"
	})
	c.patch(at(client.ConfigMaps, "n/kube-root-ca.crt"), `{"data":{"ca.crt":"forged"}}`)
	c.until("certificate put right", func() bool {
		cm, _ := get[*corev1.ConfigMap](c, client.ConfigMaps, "n/kube-root-ca.crt")
		return cm.Data["ca.crt"] == "a certificate"
	})
	if _, err := c.Delete(c.ctx, at(client.ServiceAccounts, "n/default"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.until("account made again", func() bool {
		_, ok := get[*corev1.ServiceAccount](c, client.ServiceAccounts, "n/default")
		return ok
	})
	held := configMap("held")
	held.Namespace, held.Finalizers = "n", []string{"example.org/wait"}
	create(c, client.ConfigMaps, held)
	if _, err := c.Delete(c.ctx, client.Target{Resource: client.Namespaces, Name: "n"}, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var ns *corev1.Namespace
	c.until("waiting for the finalizer", func() bool {
		obj, err := c.Get(c.ctx, client.Target{Resource: client.Namespaces, Name: "n"}, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ns = obj.(*corev1.Namespace)
		return len(ns.Status.Conditions) == 5
	})
	want(c, "phase", ns.Status.Phase, corev1.NamespaceTerminating)
	var said []string
	for _, cond := range ns.Status.Conditions {
		if cond.Status == corev1.ConditionTrue {
			said = append(said, cond.Reason+": "+cond.Message)
		}
	}
	want(c, "conditions", said, []string{
		"SomeResourcesRemain: Some resources are remaining: configmaps. has 1 resource instances",
		"SomeFinalizersRemain: Some content in the namespace has finalizers remaining: example.org/wait in 1 resource instances",
	})
	c.patch(at(client.ConfigMaps, "n/held"), `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.org/wait"]}}`)
	c.until("namespace gone", func() bool {
		l, err := c.List(c.ctx, client.Target{Resource: client.Namespaces}, metav1.ListOptions{FieldSelector: "metadata.name=n"})
		return err == nil && len(l.Items) == 0
	})
}

// TestTokenSecrets: the token of an account goes with the account, and nothing else does.
func TestTokenSecrets(t *testing.T) {
	c := start(t, clock.Real())
	bot := create(c, client.ServiceAccounts, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "bot", Namespace: "default"}})
	secret := func(name, account string, kind corev1.SecretType) {
		create(c, client.Secrets, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Namespace: "default",
				Annotations: map[string]string{corev1.ServiceAccountNameKey: account, corev1.ServiceAccountUIDKey: string(bot.UID)},
			},
			Type: kind,
		})
	}
	secret("token", "bot", corev1.SecretTypeServiceAccountToken)
	secret("other", "bot", corev1.SecretTypeOpaque)
	secret("stale", "nobody", corev1.SecretTypeServiceAccountToken)
	gone := func(name string) func() bool {
		return func() bool {
			_, ok := get[*corev1.Secret](c, client.Secrets, name)
			return !ok
		}
	}
	c.until("the token of nobody gone", gone("stale"))
	want(c, "the token is gone", gone("token")(), false)
	if _, err := c.Delete(c.ctx, at(client.ServiceAccounts, "bot"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.until("the token gone", gone("token"))
	want(c, "the other secret is gone", gone("other")(), false)
}

func node(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

// report makes a node's kubelet say that it is well.
func (c *cluster) report(name string) {
	c.patch(client.Target{Resource: client.Nodes, Name: name, Subresource: "status"},
		`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","message":"kubelet is posting ready status"}]}}`)
}

func (c *cluster) node(name string) *corev1.Node {
	obj, err := c.Get(c.ctx, client.Target{Resource: client.Nodes, Name: name}, metav1.GetOptions{})
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

// TestSilentNode: a node that says nothing any more is marked, its pods are not ready, and evicted when they have put up
// with it for long enough.
func TestSilentNode(t *testing.T) {
	clk := testclock.NewFakeClock(time.Now()) //nolint:forbidigo // near the server's
	c := start(t, clk)
	c.until("service account", func() bool {
		_, ok := get[*corev1.ServiceAccount](c, client.ServiceAccounts, "default")
		return ok
	})
	for _, name := range []string{"silent", "well"} {
		create(c, client.Nodes, node(name))
		c.report(name)
	}
	p := create(c, client.Pods, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"},
		Spec:       corev1.PodSpec{NodeName: "silent", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	})
	c.ready()
	lease := create(c, client.Leases, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "well", Namespace: "kube-node-lease"}})
	c.until("taints of new nodes gone", func() bool { return len(taints(c.node("silent")))+len(taints(c.node("well"))) == 0 })

	for i := 0; len(taints(c.node("silent"))) == 0; i++ {
		if i > 20 {
			t.Fatalf("node silent after %d steps: %+v", i, c.node("silent").Status.Conditions)
		}
		next := lease.DeepCopy()
		now := metav1.NewMicroTime(clk.Now())
		next.Spec.RenewTime = &now
		out, err := c.Update(c.ctx, at(client.Leases, "kube-node-lease/well"), next, metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		lease = out.(*coordinationv1.Lease)
		c.until("lease seen", func() bool {
			l, ok := client.CacheOf[*coordinationv1.Lease](c.caches, client.Leases).Get(types.NamespacedName{Namespace: "kube-node-lease", Name: "well"})
			return ok && l.ResourceVersion == lease.ResourceVersion
		})
		clk.Step(5 * time.Second)
		settle(c)
	}
	c.until("both taints", func() bool { return len(taints(c.node("silent"))) == 2 })
	want(c, "taints", taints(c.node("silent")), []string{"node.kubernetes.io/unreachable:NoExecute", "node.kubernetes.io/unreachable:NoSchedule"})
	want(c, "taints of the other", len(taints(c.node("well"))), 0)
	for _, cond := range c.node("silent").Status.Conditions {
		if cond.Type == corev1.NodeReady {
			want(c, "ready", fmt.Sprint(cond.Status, " ", cond.Reason, " ", cond.Message), "Unknown NodeStatusUnknown Kubelet stopped posting node status.")
		}
	}
	c.until("pod not ready", func() bool {
		p, _ = get[*corev1.Pod](c, client.Pods, "p")
		i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
		return i >= 0 && p.Status.Conditions[i].Status == corev1.ConditionFalse
	})
	if p.DeletionTimestamp != nil {
		t.Error("evicted before its toleration ended")
	}
	clk.Step(299 * time.Second)
	settle(c)
	if p, _ = get[*corev1.Pod](c, client.Pods, "p"); p.DeletionTimestamp != nil {
		t.Error("evicted a second before its toleration ended")
	}
	clk.Step(20 * time.Second)
	c.until("evicted", func() bool {
		p, _ = get[*corev1.Pod](c, client.Pods, "p")
		return p.DeletionTimestamp != nil
	})
	if _, err := c.Delete(c.ctx, client.Target{Resource: client.Nodes, Name: "silent"}, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.until("pod of the gone node gone", func() bool {
		clk.Step(10 * time.Second)
		_, ok := get[*corev1.Pod](c, client.Pods, "p")
		return !ok
	})
}

// settle gives the controllers the time to do what a step of the clock makes them do, if it does.
func settle(c *cluster) {
	for range 10 {
		c.until("a moment", func() bool { return true })
		<-time.After(5 * time.Millisecond) //nolint:forbidigo // the test's own patience
	}
}
