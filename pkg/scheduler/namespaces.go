package scheduler

import (
	"maps"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// Namespaces is what this scheduler's Handle has besides framework.Handle: the labels of namespaces.
type Namespaces interface {
	// NamespaceLabels returns a namespace's labels, nil when there is no such namespace.
	NamespaceLabels(name string) labels.Set
	// NamespacesMatching returns the names of the namespaces that selector matches.
	NamespacesMatching(selector labels.Selector) []string
	// NamespacesGeneration is a number that changes with the names and labels of namespaces.
	NamespacesGeneration() uint64
}

// cachedNamespaces are the namespaces of the API.
type cachedNamespaces struct {
	cache      *client.Cache[*corev1.Namespace]
	generation atomic.Uint64
}

func newCachedNamespaces(cache *client.Cache[*corev1.Namespace]) *cachedNamespaces {
	c := &cachedNamespaces{cache: cache}
	cache.Subscribe(func(ch client.Change[*corev1.Namespace]) {
		if ch.Added() || ch.Deleted() || !maps.Equal(ch.Old.Labels, ch.New.Labels) {
			c.generation.Add(1)
		}
	})
	return c
}

func (c *cachedNamespaces) NamespacesGeneration() uint64 { return c.generation.Load() }

func (c *cachedNamespaces) NamespaceLabels(name string) labels.Set {
	if ns, ok := c.cache.Get(objects.Key{Name: name}); ok {
		return ns.Labels
	}
	return nil
}

func (c *cachedNamespaces) NamespacesMatching(selector labels.Selector) []string {
	return names(c.cache.List("", selector))
}

// simulatedNamespaces are the namespaces of a simulation. They change only between cycles.
type simulatedNamespaces struct {
	byName     map[string]*corev1.Namespace
	generation uint64
}

func newSimulatedNamespaces(list []*corev1.Namespace) *simulatedNamespaces {
	g := &simulatedNamespaces{byName: map[string]*corev1.Namespace{}}
	for _, ns := range list {
		g.byName[ns.Name] = ns
	}
	return g
}

// add adds or replaces a namespace.
func (g *simulatedNamespaces) add(ns *corev1.Namespace) {
	g.byName[ns.Name] = ns
	g.generation++
}

func (g *simulatedNamespaces) NamespacesGeneration() uint64 { return g.generation }

func (g *simulatedNamespaces) NamespaceLabels(name string) labels.Set {
	if ns, ok := g.byName[name]; ok {
		return ns.Labels
	}
	return nil
}

func (g *simulatedNamespaces) NamespacesMatching(selector labels.Selector) []string {
	var like []string
	for name, ns := range g.byName {
		if selector.Matches(labels.Set(ns.Labels)) {
			like = append(like, name)
		}
	}
	slices.Sort(like)
	return like
}

func names(list []*corev1.Namespace) []string {
	out := make([]string, 0, len(list))
	for _, ns := range list {
		out = append(out, ns.Name)
	}
	return out
}
