package controller

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

// CustomResourceDefinitions is the resource of that name.
var CustomResourceDefinitions = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// CustomKinds follows the kinds that CustomResourceDefinitions add and keeps a metadata cache of each established kind. It
// is for controllers that work on objects of any kind: they share these caches. It is safe for concurrent use.
type CustomKinds struct {
	caches *client.Caches
	clock  clock.Clock
	crds   *client.Cache[*apiextensionsv1.CustomResourceDefinition]
	begin  sync.Once

	// mu is taken while no lock of a cache is held, and held while kinds' caches are used.
	mu        sync.Mutex
	kinds     map[string]CustomKind  // established kinds, by the name of the definition
	deleted   map[string]deletedKind // kinds whose definition was deleted and whose cache is still followed
	followers []KindFollower
}

// CustomKind is the kind of an established CustomResourceDefinition, with a cache of its objects' metadata. The objects in
// the cache are *metav1.PartialObjectMetadata.
type CustomKind struct {
	objects.Names
	Objects *client.Cache[objects.Object]
}

// deletedKind is a kind whose definition was deleted.
type deletedKind struct {
	CustomKind
	at uint64
}

// HasSynced reports whether the first list of a cache is complete.
func HasSynced(c *client.Cache[objects.Object]) bool {
	select {
	case <-c.Synced():
		return true
	default:
		return false
	}
}

// SyncPoll is how soon a controller looks again at an object that needs a cache which has not synced.
const SyncPoll = 50 * time.Millisecond

// KindFollower has the callbacks for kinds that begin or cease to be served. CustomKinds makes one call at a time and holds its lock
// meanwhile: a callback must not call CustomKinds.
type KindFollower struct {
	Begin func(CustomKind)
	// End is called when a kind is no longer served, or in another version. deletedAt is the revision at which its definition was
	// deleted, 0 if it was not. The cache may have later objects: those of a new definition with the same names.
	End func(k CustomKind, deletedAt uint64)
}

// NewCustomKinds returns a CustomKinds over the CustomResourceDefinitions in caches.
func NewCustomKinds(caches *client.Caches, clk clock.Clock) *CustomKinds {
	return &CustomKinds{
		caches: caches, clock: clock.Machine(clk), kinds: map[string]CustomKind{}, deleted: map[string]deletedKind{},
		crds: client.CacheOf[*apiextensionsv1.CustomResourceDefinition](caches, CustomResourceDefinitions),
	}
}

// Follow calls f.Begin for each established kind before it returns. From then on it calls f.Begin when a kind is
// established, and f.End when a kind is no longer served.
func (k *CustomKinds) Follow(f KindFollower) {
	k.begin.Do(func() { k.crds.Subscribe(k.changed) })
	k.mu.Lock()
	defer k.mu.Unlock()
	k.followers = append(k.followers, f)
	for _, kind := range k.kinds {
		f.Begin(kind)
	}
}

// Find returns an established kind.
func (k *CustomKinds) Find(kind schema.GroupKind) (objects.Names, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.kinds {
		if c.Kind == kind.Kind && c.Group == kind.Group {
			return c.Names, true
		}
	}
	return objects.Names{}, false
}

// followAfterDelete is how long the objects of a kind are followed after its definition was deleted: their last watch events may
// arrive after that of the definition.
const followAfterDelete = time.Second

func (k *CustomKinds) changed(ch client.Change[*apiextensionsv1.CustomResourceDefinition]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	name := ch.Key().Name
	var now objects.Names
	served := false
	if !ch.Deleted() {
		now, served = ServedNames(ch.New)
	}
	old, had := k.kinds[name]
	replaced := !ch.Added() && !ch.Deleted() && ch.Old.UID != ch.New.UID
	if had && served && !replaced && old.GVR() == now.GVR() && old.Kind == now.Kind && old.Cluster == now.Cluster {
		return
	}
	delete(k.kinds, name)
	deletedAt := ch.Revision
	if replaced {
		deletedAt = objects.RevisionOf(ch.Old) // the deletion was not observed: it was later than this
	}
	switch {
	case had && (ch.Deleted() || replaced):
		k.deleted[name] = deletedKind{old, deletedAt}
		k.clock.AfterFunc(followAfterDelete, func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			if k.deleted[name].Objects == old.Objects {
				k.endAll(name)
			}
		})
	case had:
		k.end(old, 0)
	}
	if served {
		k.endAll(name) // or the new kind would get the old cache
		kind := CustomKind{now, client.MetadataOf(k.caches, now.GVR())}
		k.kinds[name] = kind
		for _, f := range k.followers {
			f.Begin(kind)
		}
	}
}

// endAll ends the kind that is followed after its definition was deleted, if there is one. Callers hold mu.
func (k *CustomKinds) endAll(name string) {
	if old, ok := k.deleted[name]; ok {
		delete(k.deleted, name)
		k.end(old.CustomKind, old.at)
	}
}

func (k *CustomKinds) end(old CustomKind, deletedAt uint64) {
	for _, f := range k.followers {
		f.End(old, deletedAt)
	}
	k.caches.Forget(old.GVR())
}

// ServedNames returns the names of the kind that an established definition adds, in its storage version if that is served:
// then the fewest objects need conversion. It returns false if the definition is not established or serves no version.
func ServedNames(crd *apiextensionsv1.CustomResourceDefinition) (objects.Names, bool) {
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
