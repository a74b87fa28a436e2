package namespace_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/controllertest"
	"github.com/minikctl/minikctl/pkg/store"
)

func TestNamespaces(t *testing.T) {
	c := controllertest.Start(t, clock.Real())
	controllertest.Create(c, client.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	c.Until("account and certificate", func() bool {
		_, account := controllertest.Get[*corev1.ServiceAccount](c, client.ServiceAccounts, "n/default")
		cm, ca := controllertest.Get[*corev1.ConfigMap](c, client.ConfigMaps, "n/kube-root-ca.crt")
		return account && ca && cm.Data["ca.crt"] == "a certificate"
	})
	c.Merge(controllertest.At(client.ConfigMaps, "n/kube-root-ca.crt"), `{"data":{"ca.crt":"forged"}}`)
	c.Until("certificate put right", func() bool {
		cm, _ := controllertest.Get[*corev1.ConfigMap](c, client.ConfigMaps, "n/kube-root-ca.crt")
		return cm.Data["ca.crt"] == "a certificate"
	})
	if _, err := c.Delete(c.Context(), controllertest.At(client.ServiceAccounts, "n/default"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Until("account made again", func() bool {
		_, ok := controllertest.Get[*corev1.ServiceAccount](c, client.ServiceAccounts, "n/default")
		return ok
	})
	held := controllertest.ConfigMap("held")
	held.Namespace, held.Finalizers = "n", []string{"example.org/wait"}
	controllertest.Create(c, client.ConfigMaps, held)
	if _, err := c.Delete(c.Context(), client.Target{Resource: client.Namespaces, Name: "n"}, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var ns *corev1.Namespace
	c.Until("waiting for the finalizer", func() bool {
		obj, err := c.Get(c.Context(), client.Target{Resource: client.Namespaces, Name: "n"}, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ns = obj.(*corev1.Namespace)
		return len(ns.Status.Conditions) == 5
	})
	controllertest.Want(c, "phase", ns.Status.Phase, corev1.NamespaceTerminating)
	var messages []string
	for _, cond := range ns.Status.Conditions {
		if cond.Status == corev1.ConditionTrue {
			messages = append(messages, cond.Reason+": "+cond.Message)
		}
	}
	controllertest.Want(c, "conditions", messages, []string{
		"SomeResourcesRemain: Some resources are remaining: configmaps. has 1 resource instances",
		"SomeFinalizersRemain: Some content in the namespace has finalizers remaining: example.org/wait in 1 resource instances",
	})
	c.Merge(controllertest.At(client.ConfigMaps, "n/held"), `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.org/wait"]}}`)
	c.Until("namespace gone", func() bool {
		l, err := c.List(c.Context(), client.Target{Resource: client.Namespaces}, metav1.ListOptions{FieldSelector: "metadata.name=n"})
		return err == nil && len(l.Items) == 0
	})
}

// TestNamespaceOfCustomResources: a namespace's deletion deletes its custom objects, and waits for their finalizers.
func TestNamespaceOfCustomResources(t *testing.T) { controllertest.Both(t, namespaceOfCustomResources) }

func namespaceOfCustomResources(c *controllertest.Cluster) {
	c.Define("Shirt", controllertest.Shirts, apiextensionsv1.NamespaceScoped)
	controllertest.Create(c, client.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	c.CreateCustom("Shirt", controllertest.Shirts, "n", "plain")
	held := c.CreateCustom("Shirt", controllertest.Shirts, "n", "held")
	finalizers := func(list string) {
		p := client.Patch{Type: types.MergePatchType, Data: fmt.Appendf(nil, `{"metadata":{"finalizers":%s}}`, list)}
		if _, err := c.Patch(c.Context(), controllertest.At(controllertest.Shirts, "n/"+held.GetName()), p, metav1.PatchOptions{}); err != nil {
			c.Fatal(err)
		}
	}
	finalizers(`["example.org/wait"]`)
	c.Remove(client.Namespaces, "/n", metav1.DeletePropagationBackground)
	c.Until("the namespace waiting for the finalizer", func() bool {
		ns, _ := controllertest.Get[*corev1.Namespace](c, client.Namespaces, "/n")
		for _, condition := range ns.Status.Conditions {
			if condition.Type == corev1.NamespaceContentRemaining && condition.Status == corev1.ConditionTrue {
				controllertest.Want(c, "message", condition.Message, "Some resources are remaining: shirts.example.com has 1 resource instances")
				return true
			}
		}
		return false
	})
	controllertest.Want(c, "the plain one is there", c.Exists(controllertest.Shirts, "n/plain"), false)
	finalizers(`null`)
	c.Until("the namespace gone", func() bool { return !c.Exists(client.Namespaces, "/n") })
	controllertest.Want(c, "the held one is there", c.Exists(controllertest.Shirts, "n/held"), false)
}

// TestNamespaceWithCorruptObject: a namespace with an object that cannot be decoded stays until an administrator has deleted the object.
func TestNamespaceWithCorruptObject(t *testing.T) { controllertest.Both(t, namespaceWithCorruptObject) }

func namespaceWithCorruptObject(c *controllertest.Cluster) {
	controllertest.Create(c, client.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	if _, err := c.Env.Store.Write(c.Context(), store.Op{Key: "o/core/configmaps/n/bad", Value: []byte("no object")}); err != nil {
		c.Fatal(err)
	}
	c.Remove(client.Namespaces, "/n", metav1.DeletePropagationBackground)
	message := ""
	c.Until("the namespace waiting for the corrupt object", func() bool {
		obj, err := c.Get(c.Context(), client.Target{Resource: client.Namespaces, Name: "n"}, metav1.GetOptions{})
		if err != nil {
			c.Fatal(err)
		}
		for _, condition := range obj.(*corev1.Namespace).Status.Conditions {
			if condition.Type == corev1.NamespaceDeletionContentFailure && condition.Status == corev1.ConditionTrue {
				message = condition.Message
			}
		}
		return message != ""
	})
	if want := `Failed to delete all resource types, 1 remaining: configmaps "bad" cannot be decoded: `; !strings.HasPrefix(message, want) {
		c.Errorf("got message %q, want %q", message, want)
	}
	transport, err := rest.TransportFor(c.Env.AdminConfig)
	if err != nil {
		c.Fatal(err)
	}
	path := "/api/v1/namespaces/n/configmaps/bad?ignoreStoreReadErrorWithClusterBreakingPotential=true"
	req, err := http.NewRequestWithContext(c.Context(), http.MethodDelete, c.Env.URL+path, nil)
	if err != nil {
		c.Fatal(err)
	}
	res, err := transport.RoundTrip(req)
	if err != nil || res.StatusCode != http.StatusOK {
		c.Fatalf("delete the corrupt object: %+v, %v", res, err)
	}
	res.Body.Close()
	c.Until("namespace gone", func() bool {
		_, ok := controllertest.Get[*corev1.Namespace](c, client.Namespaces, "/n")
		return !ok
	})
}
