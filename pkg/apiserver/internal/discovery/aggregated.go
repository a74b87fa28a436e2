package discovery

import (
	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/codec"
	"github.com/minikctl/minikctl/pkg/objects"
)

// AggregatedKind is the kind of the aggregated discovery document.
var AggregatedKind = apidiscovery.SchemeGroupVersion.WithKind("APIGroupDiscoveryList")

// Aggregated returns the aggregated document of the core group (legacy) or of the named groups.
func (c *Catalog) Aggregated(legacy bool) *apidiscovery.APIGroupDiscoveryList {
	out := &apidiscovery.APIGroupDiscoveryList{Items: []apidiscovery.APIGroupDiscovery{}}
	out.SetGroupVersionKind(AggregatedKind)
	for _, g := range c.groups {
		if (g.name == "") != legacy {
			continue
		}
		item := apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.name}}
		for _, v := range g.versions {
			item.Versions = append(item.Versions, v.aggregated())
		}
		out.Items = append(out.Items, item)
	}
	return out
}

func (v groupVersion) aggregated() apidiscovery.APIVersionDiscovery {
	if v.remote != nil {
		return withKinds(v.remote)
	}
	out := apidiscovery.APIVersionDiscovery{Version: v.Version, Freshness: apidiscovery.DiscoveryFreshnessCurrent}
	for _, e := range v.entries {
		n, in := e.row.Names, v.GroupVersion
		if e.row.Custom() {
			in = schema.GroupVersion{} // documents of extension servers name the group and version of every kind
		}
		r := apidiscovery.APIResourceDiscovery{
			Resource: n.Plural, SingularResource: n.Singular, ResponseKind: kindIn(n.Kind, v.GroupVersion, in),
			Scope: scope(n), Verbs: e.row.Verbs, ShortNames: e.short(), Categories: e.categories(),
		}
		for _, sub := range codec.SubresourcesOf(e.row) {
			s := apidiscovery.APISubresourceDiscovery{Subresource: sub.Name, Verbs: sub.Verbs, ResponseKind: kindIn(n.Kind, v.GroupVersion, in)}
			if sub.Kind != nil {
				k := sub.Kind.Names
				s.ResponseKind = kindIn(k.Kind, schema.GroupVersion{Group: k.Group, Version: k.Version}, in)
			}
			r.Subresources = append(r.Subresources, s)
		}
		out.Resources = append(out.Resources, r)
	}
	return out
}

func scope(n objects.Names) apidiscovery.ResourceScope {
	if n.Cluster {
		return apidiscovery.ScopeCluster
	}
	return apidiscovery.ScopeNamespace
}

// kindIn names a kind. It leaves out the group and version of the document.
func kindIn(kind string, gv, in schema.GroupVersion) *metav1.GroupVersionKind {
	if gv == in {
		return &metav1.GroupVersionKind{Kind: kind}
	}
	return &metav1.GroupVersionKind{Group: gv.Group, Version: gv.Version, Kind: kind}
}
