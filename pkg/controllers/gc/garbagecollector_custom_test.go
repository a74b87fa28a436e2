package gc

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/client/clienttest"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
)

// definition returns an established definition of shirts with versions. The first is the storage version; one that begins
// with "-" is not served.
func definition(versions ...string) *apiextensionsv1.CustomResourceDefinition {
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "shirts.example.com", UID: "definition"}}
	crd.Spec.Group, crd.Spec.Names.Plural, crd.Spec.Scope = "example.com", "shirts", apiextensionsv1.NamespaceScoped
	crd.Status.AcceptedNames.Kind = "Shirt"
	for i, v := range versions {
		name, hidden := strings.CutPrefix(v, "-")
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: name, Served: !hidden, Storage: i == 0})
	}
	crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	return crd
}

// owned returns an object with an owner of a kind in the group example.com.
func owned(name, ownerKind, owner string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "ns", UID: types.UID(name),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: ownerKind, Name: owner, UID: types.UID(owner)}},
	}}
}

// configMaps is the resource of the dependents.
var configMaps = objects.Names{Version: "v1", Kind: "ConfigMap", Plural: "configmaps"}

// monitorShirts returns a garbage collector that monitors ConfigMaps and custom kinds, and a function that returns the sorted names that were enqueued since its
// last call.
func monitorShirts(t *testing.T, s *clienttest.ListWatcher, caches *client.Caches) (g *garbageCollector, enqueued func() []string) {
	t.Helper()
	g = newGarbageCollector(controller.Env{Client: s, Caches: caches, Clock: clock.Real(), Custom: controller.NewCustomKinds(caches, clock.Real())})
	var mu sync.Mutex
	var names []string
	enqueue := func(key objects.Key, _ uint64) {
		mu.Lock()
		defer mu.Unlock()
		names = append(names, key.Name)
	}
	g.monitor(configMaps, client.CacheOf[objects.Object](caches, configMaps.GVR()))(t.Context(), enqueue)
	g.monitorCustom(t.Context(), enqueue)
	synctest.Wait()
	return g, func() []string {
		mu.Lock()
		defer mu.Unlock()
		out := names
		names = nil
		slices.Sort(out)
		return out
	}
}

// TestOwnerKindReplaced: the dependents of a custom object are enqueued when its definition was deleted and created again, and only
// the new definition is observed.
func TestOwnerKindReplaced(t *testing.T) {
	clienttest.WithCaches(t, func(s *clienttest.ListWatcher, caches *client.Caches) {
		_, enqueued := monitorShirts(t, s, caches)
		s.Put(controller.CustomResourceDefinitions, watch.Added, definition("v1"))
		s.Put(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "shirts"}, watch.Added, owned("blue", "Coat", "red"))
		s.Put(configMaps.GVR(), watch.Added, owned("map", "Shirt", "blue"))
		synctest.Wait()
		enqueued()
		again := definition("v1")
		again.UID = "another"
		s.Put(controller.CustomResourceDefinitions, watch.Modified, again)
		synctest.Wait()
		if names := enqueued(); !slices.Contains(names, "map") {
			t.Errorf("%q are enqueued", names)
		}
	})
}

// TestOwnerKindEstablishedAndDeleted: objects are enqueued when the kind of their owner is established, and owners count
// as absent after their kind was deleted.
func TestOwnerKindEstablishedAndDeleted(t *testing.T) {
	clienttest.WithCaches(t, func(s *clienttest.ListWatcher, caches *client.Caches) {
		g, enqueued := monitorShirts(t, s, caches)
		dependent := owned("map", "Shirt", "blue")
		if got, err := g.lookUp(t.Context(), dependent.OwnerReferences[0], dependent); got != unknown || err != nil {
			t.Fatalf("before the kind is served: %v %v", got, err)
		}
		s.Put(configMaps.GVR(), watch.Added, dependent)
		shirts := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "shirts"}
		shirt := owned("blue", "Coat", "red")
		shirt.OwnerReferences[0].APIVersion = "example.com/v1"
		s.Put(shirts, watch.Added, shirt)
		enqueued()
		s.Put(controller.CustomResourceDefinitions, watch.Added, definition("v1"))
		if names := enqueued(); !slices.Equal(names, []string{"blue", "map"}) {
			t.Errorf("%q are enqueued when the kind is established", names)
		}
		if f, ok := g.find("blue"); !ok || f.resource != shirts {
			t.Errorf("found %+v", f)
		}
		if g.awaitsSync() {
			t.Error("a cache has not synced")
		}
		held := owned("held", "Coat", "red")
		held.Finalizers = []string{"example.org/wait"}
		s.Put(shirts, watch.Added, held)
		s.Put(shirts, watch.Added, owned("lost", "Coat", "red"))
		enqueued()
		s.Put(controller.CustomResourceDefinitions, watch.Deleted, definition("v1"))
		s.Put(shirts, watch.Deleted, shirt.DeepCopy()) // its event comes after that of its definition
		if names := enqueued(); !slices.Equal(names, []string{"map", "red"}) {
			t.Errorf("%q are enqueued when an owner is deleted", names)
		}
		if got, err := g.lookUp(t.Context(), dependent.OwnerReferences[0], dependent); got != absent || err != nil {
			t.Errorf("after its kind was deleted: %v %v", got, err)
		}
		elsewhere := owned("map", "Shirt", "blue")
		elsewhere.Namespace = "another"
		if got, err := g.lookUp(t.Context(), elsewhere.OwnerReferences[0], elsewhere); got != unknown || err != nil {
			t.Errorf("from another namespace: %v %v", got, err)
		}
		s.Put(shirts, watch.Added, owned("renewed", "Coat", "red")) // of a new definition, whose event comes late
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for owner, want := range map[string]ownerState{"lost": absent, "held": unknown, "renewed": unknown} {
			dependent := owned("map", "Shirt", owner)
			if got, err := g.lookUp(t.Context(), dependent.OwnerReferences[0], dependent); got != want || err != nil {
				t.Errorf("%s, whose deletion was not observed: %v %v", owner, got, err)
			}
		}
		other := owned("map", "Shirt", "green") // whose deletion was not observed
		if got, err := g.lookUp(t.Context(), other.OwnerReferences[0], other); got != unknown || err != nil {
			t.Errorf("of the same kind: %v %v", got, err)
		}
	})
}
