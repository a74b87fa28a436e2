package gc_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/controllers/controllertest"
	"github.com/minikctl/minikctl/pkg/objects"
)

func ownedByThing(u *unstructured.Unstructured, block bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: u.GetName(), UID: u.GetUID(), BlockOwnerDeletion: &block}
}

// TestCustomOwners: custom objects have owners and dependents as built-in ones do.
func TestCustomOwners(t *testing.T) { controllertest.Both(t, customOwners) }

func customOwners(c *controllertest.Cluster) {
	early := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Shirt", Name: "absent", UID: "11111111-2222-3333-4444-555555555555"}
	controllertest.Create(c, client.ConfigMaps, controllertest.ConfigMap("early", early)) // before the kind of its owner is established
	c.Define("Shirt", controllertest.Shirts, apiextensionsv1.NamespaceScoped)
	c.Define("Shop", controllertest.Shops, apiextensionsv1.ClusterScoped)
	c.Until("the object with an absent owner deleted", func() bool { return !c.HasConfigMap("early") })

	owner := controllertest.Create(c, client.ConfigMaps, controllertest.ConfigMap("owner"))
	shop := c.CreateCustom("Shop", controllertest.Shops, "", "shop")
	blue := c.CreateCustom("Shirt", controllertest.Shirts, "default", "blue", ownedBy("owner", owner.UID, true))
	controllertest.Create(c, client.ConfigMaps, controllertest.ConfigMap("label", ownedByThing(blue, true)))
	c.CreateCustom("Shirt", controllertest.Shirts, "default", "red", ownedByThing(shop, false))
	c.CreateCustom("Shirt", controllertest.Shirts, "default", "both", ownedByThing(shop, false), ownedByThing(blue, false))
	c.CreateCustom("Shop", controllertest.Shops, "", "branch", ownedByThing(shop, false))
	c.Remove(client.ConfigMaps, "owner", metav1.DeletePropagationBackground)
	c.Until("the chain gone", func() bool { return !c.Exists(controllertest.Shirts, "blue") && !c.HasConfigMap("label") })
	c.Until("the reference to the deleted owner removed", func() bool {
		both, _ := controllertest.Get[*unstructured.Unstructured](c, controllertest.Shirts, "both")
		return len(both.GetOwnerReferences()) == 1
	})
	if !c.Exists(controllertest.Shirts, "red") || !c.Exists(controllertest.Shops, "/branch") {
		c.Fatal("an object with an owner was deleted")
	}
	c.Remove(controllertest.Shops, "/shop", metav1.DeletePropagationBackground)
	c.Until("the dependents of the shop deleted", func() bool {
		return !c.Exists(controllertest.Shirts, "red") && !c.Exists(controllertest.Shirts, "both") && !c.Exists(controllertest.Shops, "/branch")
	})
}

// waitCached waits until the controllers' cache of a resource has an object: the collector looks for dependents there.
func waitCached(c *controllertest.Cluster, resource schema.GroupVersionResource, name string) {
	c.Helper()
	of := client.CacheOf[objects.Object]
	if resource.Group == controllertest.Shirts.Group {
		waitFollowed(c, resource)
		of = client.MetadataOf
	}
	cache := of(c.Caches, resource)
	c.Until(name+" cached", func() bool {
		_, ok := cache.Get(objects.Key{Namespace: "default", Name: name})
		return ok
	})
}

// waitFollowed waits until the controllers follow the kind of the definition as it is now. Until then its cache may be that of a
// deleted definition with the same names.
func waitFollowed(c *controllertest.Cluster, resource schema.GroupVersionResource) {
	c.Helper()
	name := "/" + resource.GroupResource().String()
	now, _ := controllertest.Get[*apiextensionsv1.CustomResourceDefinition](c, controller.CustomResourceDefinitions, name)
	definitions := client.CacheOf[*apiextensionsv1.CustomResourceDefinition](c.Caches, controller.CustomResourceDefinitions)
	c.Until("the definition of "+resource.Resource+" cached", func() bool {
		crd, ok := definitions.Get(controller.KeyOf(now))
		return ok && crd.ResourceVersion == now.ResourceVersion
	})
	// Subscribe waits until the other subscribers, the controllers, have been called for what the cache shows.
	definitions.Subscribe(func(client.Change[*apiextensionsv1.CustomResourceDefinition]) {})
}

// TestCustomForegroundAndOrphan: foreground and orphan deletion of custom objects.
func TestCustomForegroundAndOrphan(t *testing.T) {
	c := controllertest.Start(t, clock.Real())
	c.Define("Shirt", controllertest.Shirts, apiextensionsv1.NamespaceScoped)
	shirt := c.CreateCustom("Shirt", controllertest.Shirts, "default", "shirt")
	held := controllertest.ConfigMap("held", ownedByThing(shirt, true))
	held.Finalizers = []string{"example.org/wait"}
	controllertest.Create(c, client.ConfigMaps, held)
	c.CreateCustom("Shirt", controllertest.Shirts, "default", "sleeve", ownedByThing(shirt, true))
	waitCached(c, client.ConfigMaps, "held")
	waitCached(c, controllertest.Shirts, "sleeve")
	c.Remove(controllertest.Shirts, "shirt", metav1.DeletePropagationForeground)
	c.Until("the dependents being deleted", func() bool {
		held, _ := controllertest.Get[*corev1.ConfigMap](c, client.ConfigMaps, "held")
		return held.DeletionTimestamp != nil && !c.Exists(controllertest.Shirts, "sleeve")
	})
	controllertest.Want(c, "the owner exists", c.Exists(controllertest.Shirts, "shirt"), true)
	c.Merge(controllertest.At(client.ConfigMaps, "held"), `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.org/wait"]}}`)
	c.Until("both gone", func() bool { return !c.Exists(controllertest.Shirts, "shirt") && !c.HasConfigMap("held") })

	coat := c.CreateCustom("Shirt", controllertest.Shirts, "default", "coat")
	c.CreateCustom("Shirt", controllertest.Shirts, "default", "button", ownedByThing(coat, true))
	controllertest.Create(c, client.ConfigMaps, controllertest.ConfigMap("tag", ownedByThing(coat, true)))
	c.Remove(controllertest.Shirts, "coat", metav1.DeletePropagationOrphan)
	c.Until("the owner gone", func() bool { return !c.Exists(controllertest.Shirts, "coat") })
	button, _ := controllertest.Get[*unstructured.Unstructured](c, controllertest.Shirts, "button")
	tag, _ := controllertest.Get[*corev1.ConfigMap](c, client.ConfigMaps, "tag")
	if button == nil || tag == nil || len(button.GetOwnerReferences())+len(tag.OwnerReferences) > 0 {
		t.Errorf("left are %v and %v", button, tag)
	}
}

// TestDefinitionIsDeleted: the deletion of a definition deletes its objects and their dependents. The foreground deletion of an
// owner no longer waits for them. The same definition can be created again.
func TestDefinitionIsDeleted(t *testing.T) { controllertest.Both(t, definitionIsDeleted) }

func definitionIsDeleted(c *controllertest.Cluster) {
	controllertest.Create(c, client.ConfigMaps, controllertest.ConfigMap("no-owner", ownedBy("absent", "11111111-2222-3333-4444-555555555555", false)))
	c.Until("the collector at work", func() bool { return !c.HasConfigMap("no-owner") })
	for range 2 {
		c.Define("Shirt", controllertest.Shirts, apiextensionsv1.NamespaceScoped)
		owner := controllertest.Create(c, client.ConfigMaps, controllertest.ConfigMap("owner"))
		shirt := c.CreateCustom("Shirt", controllertest.Shirts, "default", "shirt", ownedBy("owner", owner.UID, true))
		controllertest.Create(c, client.ConfigMaps, controllertest.ConfigMap("label", ownedByThing(shirt, true)))
		waitCached(c, client.ConfigMaps, "label")
		waitCached(c, controllertest.Shirts, "shirt")
		c.Remove(controller.CustomResourceDefinitions, "/"+controllertest.Shirts.GroupResource().String(), metav1.DeletePropagationBackground)
		c.Until("the definition gone", func() bool {
			return !c.Exists(controller.CustomResourceDefinitions, "/"+controllertest.Shirts.GroupResource().String())
		})
		c.Until("what its objects owned gone", func() bool { return !c.HasConfigMap("label") })
		controllertest.Want(c, "the owner exists", c.HasConfigMap("owner"), true)
		c.Remove(client.ConfigMaps, "owner", metav1.DeletePropagationForeground)
		c.Until("the owner gone", func() bool { return !c.HasConfigMap("owner") })
	}
}
