package gc_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/controllertest"
)

func ownedBy(name string, uid types.UID, block bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: uid, BlockOwnerDeletion: &block}
}

// TestCollect: an object is deleted when all its owners are absent, and no other object is.
func TestCollect(t *testing.T) {
	c := controllertest.Start(t, clock.Real())
	owner, other := controllertest.Create(c, client.ConfigMaps, controllertest.ConfigMap("owner")), controllertest.Create(c, client.ConfigMaps, controllertest.ConfigMap("other"))
	child := controllertest.Create(c, client.ConfigMaps, controllertest.ConfigMap("child", ownedBy("owner", owner.UID, true)))
	controllertest.Create(c, client.ConfigMaps, controllertest.ConfigMap("grandchild", ownedBy("child", child.UID, true)))
	controllertest.Create(c, client.ConfigMaps, controllertest.ConfigMap("shared", ownedBy("owner", owner.UID, true), ownedBy("other", other.UID, false)))
	controllertest.Create(c, client.ConfigMaps, controllertest.ConfigMap("no-owner", ownedBy("absent", "11111111-2222-3333-4444-555555555555", false)))
	controllertest.Create(c, client.ConfigMaps, controllertest.ConfigMap("wrong-uid", ownedBy("other", "11111111-2222-3333-4444-555555555555", false)))
	unknownKind := ownedBy("unknown", "11111111-2222-3333-4444-555555555556", false)
	unknownKind.APIVersion, unknownKind.Kind = "nowhere.example.org/v1", "Thing"
	controllertest.Create(c, client.ConfigMaps, controllertest.ConfigMap("unknown-kind", unknownKind))
	c.Until("those without owners gone", func() bool { return !c.HasConfigMap("no-owner") && !c.HasConfigMap("wrong-uid") })
	for _, name := range []string{"owner", "child", "grandchild", "shared", "other", "unknown-kind"} {
		controllertest.Want(c, name+" exists", c.HasConfigMap(name), true)
	}
	if _, err := c.Delete(c.Context(), controllertest.At(client.ConfigMaps, "owner"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Until("the chain gone", func() bool { return !c.HasConfigMap("child") && !c.HasConfigMap("grandchild") })
	c.Until("the reference to the deleted owner removed", func() bool {
		shared, ok := controllertest.Get[*corev1.ConfigMap](c, client.ConfigMaps, "shared")
		return ok && len(shared.OwnerReferences) == 1 && shared.OwnerReferences[0].UID == other.UID
	})
	controllertest.Want(c, "unknown-kind exists", c.HasConfigMap("unknown-kind"), true)
}

// TestOwnerInAnotherNamespace: an object whose owner is in another namespace is deleted, and an Event has the reason.
func TestOwnerInAnotherNamespace(t *testing.T) {
	c := controllertest.Start(t, clock.Real())
	owner := controllertest.ConfigMap("owner")
	owner.Namespace = "kube-system"
	out, err := c.Create(c.Context(), client.Target{Resource: client.ConfigMaps, Namespace: owner.Namespace}, owner, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	uid := out.(*corev1.ConfigMap).UID
	controllertest.Create(c, client.ConfigMaps, controllertest.ConfigMap("child", ownedBy("owner", uid, false)))
	c.Until("the child gone", func() bool { return !c.HasConfigMap("child") })
	c.Until("its event", func() bool { return len(c.EventsOf("child")) > 0 })
	want := fmt.Sprintf("OwnerRefInvalidNamespace: ownerRef [v1/ConfigMap, namespace: default, name: owner, uid: %s] does not exist in namespace \"default\"", uid)
	controllertest.Want(c, "events", strings.Join(c.EventsOf("child"), "\n"), want)
}

// TestForeground: the owner is deleted after its dependents, and circles of owners are broken.
func TestForeground(t *testing.T) {
	c := controllertest.Start(t, clock.Real())
	owner := controllertest.Create(c, client.ConfigMaps, controllertest.ConfigMap("owner"))
	child := controllertest.ConfigMap("child", ownedBy("owner", owner.UID, true))
	child.Finalizers = []string{"example.org/wait"}
	controllertest.Create(c, client.ConfigMaps, child)
	foreground := metav1.DeletePropagationForeground
	if _, err := c.Delete(c.Context(), controllertest.At(client.ConfigMaps, "owner"), metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	c.Until("the child being deleted", func() bool {
		child, _ := controllertest.Get[*corev1.ConfigMap](c, client.ConfigMaps, "child")
		return child.DeletionTimestamp != nil
	})
	controllertest.Want(c, "the owner exists", c.HasConfigMap("owner"), true)
	c.Merge(controllertest.At(client.ConfigMaps, "child"), `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.org/wait"]}}`)
	c.Until("both gone", func() bool { return !c.HasConfigMap("owner") && !c.HasConfigMap("child") })

	a := controllertest.Create(c, client.ConfigMaps, controllertest.ConfigMap("a"))
	b := controllertest.Create(c, client.ConfigMaps, controllertest.ConfigMap("b", ownedBy("a", a.UID, true)))
	c.Merge(controllertest.At(client.ConfigMaps, "a"), fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"b","uid":%q,"blockOwnerDeletion":true}]}}`, b.UID))
	if _, err := c.Delete(c.Context(), controllertest.At(client.ConfigMaps, "a"), metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	c.Until("the circle gone", func() bool { return !c.HasConfigMap("a") && !c.HasConfigMap("b") })
}
