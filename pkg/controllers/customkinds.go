package controllers

import (
	"slices"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

var definitions = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// customKinds knows the kinds that CustomResourceDefinitions add, for as long as they are served. It is for controllers
// that look after objects of any kind: they share a cache of the metadata of each kind's objects.
type customKinds struct {
	caches      *client.Caches
	clock       clock.Clock
	definitions *client.Cache[*apiextensionsv1.CustomResourceDefinition]
	begin       sync.Once

	// mu is taken after the cache of definitions is done with its own locks, and before those of the other caches.
	mu        sync.Mutex
	kinds     map[string]customKind // by the name of the definition
	leaving   map[string]customKind // whose definition is gone, and still told of
	followers []kindFollower
}

// customKind is a kind with its objects, which are *metav1.PartialObjectMetadata.
type customKind struct {
	objects.Names
	objects *client.Cache[objects.Object]
}

// listed reports whether a cache shows what there is.
func listed(c *client.Cache[objects.Object]) bool {
	select {
	case <-c.Synced():
		return true
	default:
		return false
	}
}

// kindFollower is told of kinds, of one at a time. It must not ask for any meanwhile.
type kindFollower struct {
	begin func(customKind)
	// end comes when a kind is served no more, or in another version. gone means that its definition was deleted.
	end func(k customKind, gone bool)
}

func newCustomKinds(caches *client.Caches, clk clock.Clock) *customKinds {
	return &customKinds{
		caches: caches, clock: clk, kinds: map[string]customKind{}, leaving: map[string]customKind{},
		definitions: client.CacheOf[*apiextensionsv1.CustomResourceDefinition](caches, definitions),
	}
}

// follow tells f of the kinds that there are, before it returns, and of those that come and go from then on.
func (k *customKinds) follow(f kindFollower) {
	k.begin.Do(func() { k.definitions.Subscribe(k.changed) })
	k.mu.Lock()
	defer k.mu.Unlock()
	k.followers = append(k.followers, f)
	for _, kind := range k.kinds {
		f.begin(kind)
	}
}

// find returns a kind that is served.
func (k *customKinds) find(kind schema.GroupKind) (objects.Names, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.kinds {
		if c.Kind == kind.Kind && c.Group == kind.Group {
			return c.Names, true
		}
	}
	return objects.Names{}, false
}

// linger is how long the objects of a kind are followed after its definition is gone: the news of the last of them may still
// be on its way.
const linger = time.Second

func (k *customKinds) changed(ch client.Change[*apiextensionsv1.CustomResourceDefinition]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	name := ch.Key().Name
	var now objects.Names
	served := false
	if !ch.Deleted() {
		now, served = servedNames(ch.New)
	}
	old, had := k.kinds[name]
	replaced := !ch.Added() && !ch.Deleted() && ch.Old.UID != ch.New.UID
	if had && served && !replaced && old.GVR() == now.GVR() && old.Kind == now.Kind && old.Cluster == now.Cluster {
		return
	}
	delete(k.kinds, name)
	switch gone := ch.Deleted() || replaced; {
	case had && gone:
		k.leaving[name] = old
		k.clock.AfterFunc(linger, func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			if k.leaving[name].objects == old.objects {
				k.left(name)
			}
		})
	case had:
		k.end(old, false)
	}
	if served {
		k.left(name) // or the new kind would get the old cache
		kind := customKind{now, client.MetadataOf(k.caches, now.GVR())}
		k.kinds[name] = kind
		for _, f := range k.followers {
			f.begin(kind)
		}
	}
}

// left ends what is still followed of a definition that is gone. Callers hold mu.
func (k *customKinds) left(name string) {
	if old, ok := k.leaving[name]; ok {
		delete(k.leaving, name)
		k.end(old, true)
	}
}

func (k *customKinds) end(old customKind, gone bool) {
	for _, f := range k.followers {
		f.end(old, gone)
	}
	k.caches.Forget(old.GVR())
}

// servedNames returns what a definition's kind is called, in the version that its objects are stored in when that is
// served, so that as few as possible have to be converted.
func servedNames(crd *apiextensionsv1.CustomResourceDefinition) (objects.Names, bool) {
	established := slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
	best := -1
	for i, v := range crd.Spec.Versions {
		if v.Served && (best < 0 || v.Storage) {
			best = i
		}
	}
	if !established || best < 0 {
		return objects.Names{}, false
	}
	return objects.Names{
		Group: crd.Spec.Group, Version: crd.Spec.Versions[best].Name, Kind: crd.Status.AcceptedNames.Kind, Plural: crd.Spec.Names.Plural,
		Cluster: crd.Spec.Scope == apiextensionsv1.ClusterScoped,
	}, true
}
