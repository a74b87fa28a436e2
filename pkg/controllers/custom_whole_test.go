package controllers_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

var (
	definitions = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
	shirts      = resourceName{Group: "example.com", Version: "v1", Resource: "shirts"}
	shops       = resourceName{Group: "example.com", Version: "v1", Resource: "shops"} // cluster-scoped
)

// define has a kind served, and waits until it is.
func (c *cluster) define(kind string, resource resourceName, scope apiextensionsv1.ResourceScope) {
	c.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: resource.GroupResource().String()}}
	crd.Spec.Group, crd.Spec.Scope = resource.Group, scope
	crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, Plural: resource.Resource}
	keep := true
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: resource.Version, Served: true, Storage: true,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep}}}}
	create(c, definitions, crd)
	c.until(kind+" served", func() bool {
		crd, _ := get[*apiextensionsv1.CustomResourceDefinition](c, definitions, "/"+crd.Name)
		for _, condition := range crd.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return true
			}
		}
		return false
	})
}

// thing makes an object of a custom kind; a namespace of "" makes it cluster-scoped.
func (c *cluster) thing(kind string, resource resourceName, namespace, name string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	c.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": resource.GroupVersion().String(), "kind": kind}}
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetOwnerReferences(owners)
	return create(c, resource, u)
}

func ownedByThing(u *unstructured.Unstructured, block bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: u.GetName(), UID: u.GetUID(), BlockOwnerDeletion: &block}
}

func (c *cluster) there(resource resourceName, name string) bool {
	_, err := c.Get(c.ctx, at(resource, name), metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		c.Fatal(err)
	}
	return err == nil
}

func (c *cluster) remove(resource resourceName, name string, policy metav1.DeletionPropagation) {
	c.Helper()
	if _, err := c.Delete(c.ctx, at(resource, name), metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		c.Fatal(err)
	}
}

// eachWay runs a test with the controllers in the server's process and in one of their own.
func eachWay(t *testing.T, test func(c *cluster)) {
	t.Run("in the process", func(t *testing.T) { test(start(t, clock.Real())) })
	t.Run("apart", func(t *testing.T) { test(startApart(t)) })
}

// TestCustomOwners: custom resources own and are owned like all others.
func TestCustomOwners(t *testing.T) { eachWay(t, customOwners) }

func customOwners(c *cluster) {
	early := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Shirt", Name: "nobody", UID: "11111111-2222-3333-4444-555555555555"}
	create(c, client.ConfigMaps, configMap("early", early)) // before anybody knows its owner's kind
	c.define("Shirt", shirts, apiextensionsv1.NamespaceScoped)
	c.define("Shop", shops, apiextensionsv1.ClusterScoped)
	c.until("who names an owner that is not there gone", func() bool { return !c.has("early") })

	owner := create(c, client.ConfigMaps, configMap("owner"))
	shop := c.thing("Shop", shops, "", "shop")
	blue := c.thing("Shirt", shirts, "default", "blue", ownedBy("owner", owner.UID, true))
	create(c, client.ConfigMaps, configMap("label", ownedByThing(blue, true)))
	c.thing("Shirt", shirts, "default", "red", ownedByThing(shop, false))
	c.thing("Shirt", shirts, "default", "both", ownedByThing(shop, false), ownedByThing(blue, false))
	c.thing("Shop", shops, "", "branch", ownedByThing(shop, false))
	c.remove(client.ConfigMaps, "owner", metav1.DeletePropagationBackground)
	c.until("the chain gone", func() bool { return !c.there(shirts, "blue") && !c.has("label") })
	c.until("the lost owner forgotten", func() bool {
		both, _ := get[*unstructured.Unstructured](c, shirts, "both")
		return len(both.GetOwnerReferences()) == 1
	})
	if !c.there(shirts, "red") || !c.there(shops, "/branch") {
		c.Fatal("who has an owner is gone")
	}
	c.remove(shops, "/shop", metav1.DeletePropagationBackground)
	c.until("what the shop owned gone", func() bool {
		return !c.there(shirts, "red") && !c.there(shirts, "both") && !c.there(shops, "/branch")
	})
}

// known waits until the controllers' caches show an object: they look at dependents as they know them.
func (c *cluster) known(resource resourceName, name string) {
	c.Helper()
	of := client.CacheOf[objects.Object]
	if resource.Group == shirts.Group {
		of = client.MetadataOf
	}
	cache := of(c.caches, resource)
	c.until(name+" known", func() bool {
		_, ok := cache.Get(objects.Key{Namespace: "default", Name: name})
		return ok
	})
}

// TestCustomForegroundAndOrphan: owners that are custom wait for their dependents, or leave them.
func TestCustomForegroundAndOrphan(t *testing.T) {
	c := start(t, clock.Real())
	c.define("Shirt", shirts, apiextensionsv1.NamespaceScoped)
	shirt := c.thing("Shirt", shirts, "default", "shirt")
	held := configMap("held", ownedByThing(shirt, true))
	held.Finalizers = []string{"example.org/wait"}
	create(c, client.ConfigMaps, held)
	c.thing("Shirt", shirts, "default", "sleeve", ownedByThing(shirt, true))
	c.known(client.ConfigMaps, "held")
	c.known(shirts, "sleeve")
	c.remove(shirts, "shirt", metav1.DeletePropagationForeground)
	c.until("the dependents being deleted", func() bool {
		held, _ := get[*corev1.ConfigMap](c, client.ConfigMaps, "held")
		return held.DeletionTimestamp != nil && !c.there(shirts, "sleeve")
	})
	want(c, "the owner is there", c.there(shirts, "shirt"), true)
	c.patch(at(client.ConfigMaps, "held"), `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.org/wait"]}}`)
	c.until("both gone", func() bool { return !c.there(shirts, "shirt") && !c.has("held") })

	coat := c.thing("Shirt", shirts, "default", "coat")
	c.thing("Shirt", shirts, "default", "button", ownedByThing(coat, true))
	create(c, client.ConfigMaps, configMap("tag", ownedByThing(coat, true)))
	c.remove(shirts, "coat", metav1.DeletePropagationOrphan)
	c.until("the owner gone", func() bool { return !c.there(shirts, "coat") })
	button, _ := get[*unstructured.Unstructured](c, shirts, "button")
	tag, _ := get[*corev1.ConfigMap](c, client.ConfigMaps, "tag")
	if button == nil || tag == nil || len(button.GetOwnerReferences())+len(tag.OwnerReferences) > 0 {
		t.Errorf("left are %v and %v", button, tag)
	}
}

// TestDefinitionGoes: with a definition go its objects, with these what they own, and who waited for them goes on. A
// definition that comes again begins anew.
func TestDefinitionGoes(t *testing.T) { eachWay(t, definitionGoes) }

func definitionGoes(c *cluster) {
	create(c, client.ConfigMaps, configMap("foundling", ownedBy("nobody", "11111111-2222-3333-4444-555555555555", false)))
	c.until("the collector at work", func() bool { return !c.has("foundling") })
	for range 2 {
		c.define("Shirt", shirts, apiextensionsv1.NamespaceScoped)
		owner := create(c, client.ConfigMaps, configMap("owner"))
		shirt := c.thing("Shirt", shirts, "default", "shirt", ownedBy("owner", owner.UID, true))
		create(c, client.ConfigMaps, configMap("label", ownedByThing(shirt, true)))
		c.known(client.ConfigMaps, "label")
		c.known(shirts, "shirt")
		c.remove(definitions, "/"+shirts.GroupResource().String(), metav1.DeletePropagationBackground)
		c.until("the definition gone", func() bool { return !c.there(definitions, "/"+shirts.GroupResource().String()) })
		c.until("what its objects owned gone", func() bool { return !c.has("label") })
		want(c, "the owner is there", c.has("owner"), true)
		c.remove(client.ConfigMaps, "owner", metav1.DeletePropagationForeground)
		c.until("the owner gone", func() bool { return !c.has("owner") })
	}
}

// TestNamespaceOfCustomResources: a namespace is emptied of them, and waits for their finalizers.
func TestNamespaceOfCustomResources(t *testing.T) { eachWay(t, namespaceOfCustomResources) }

func namespaceOfCustomResources(c *cluster) {
	c.define("Shirt", shirts, apiextensionsv1.NamespaceScoped)
	create(c, client.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	c.thing("Shirt", shirts, "n", "plain")
	held := c.thing("Shirt", shirts, "n", "held")
	finalizers := func(list string) {
		p := client.Patch{Type: types.MergePatchType, Data: fmt.Appendf(nil, `{"metadata":{"finalizers":%s}}`, list)}
		if _, err := c.Patch(c.ctx, at(shirts, "n/"+held.GetName()), p, metav1.PatchOptions{}); err != nil {
			c.Fatal(err)
		}
	}
	finalizers(`["example.org/wait"]`)
	c.remove(client.Namespaces, "/n", metav1.DeletePropagationBackground)
	c.until("the namespace waiting for the finalizer", func() bool {
		ns, _ := get[*corev1.Namespace](c, client.Namespaces, "/n")
		for _, condition := range ns.Status.Conditions {
			if condition.Type == corev1.NamespaceContentRemaining && condition.Status == corev1.ConditionTrue {
				want(c, "message", condition.Message, "Some resources are remaining: shirts.example.com has 1 resource instances")
				return true
			}
		}
		return false
	})
	want(c, "the plain one is there", c.there(shirts, "n/plain"), false)
	finalizers(`null`)
	c.until("the namespace gone", func() bool { return !c.there(client.Namespaces, "/n") })
	want(c, "the held one is there", c.there(shirts, "n/held"), false)
}

// TestQuotaOfCustomResources: they are counted, also those that were there before the quota.
func TestQuotaOfCustomResources(t *testing.T) {
	c := start(t, clock.Real())
	c.define("Shirt", shirts, apiextensionsv1.NamespaceScoped)
	c.thing("Shirt", shirts, "default", "first")
	create(c, resourceQuotas, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "shirts", Namespace: "default"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/shirts.example.com": resource.MustParse("2")}}})
	used := func() string {
		q, _ := get[*corev1.ResourceQuota](c, resourceQuotas, "shirts")
		n := q.Status.Used["count/shirts.example.com"]
		return n.String()
	}
	c.until("one counted", func() bool { return used() == "1" })
	c.thing("Shirt", shirts, "default", "second")
	want(c, "used", used(), "2")
	third := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Shirt", "metadata": map[string]any{"name": "third"}}}
	if _, err := c.Create(c.ctx, client.Target{Resource: shirts, Namespace: "default"}, third, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("one too many: %v", err)
	}
	c.remove(shirts, "first", metav1.DeletePropagationBackground)
	c.until("room again", func() bool { return used() == "1" })
}
