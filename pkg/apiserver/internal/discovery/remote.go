package discovery

import (
	"slices"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Remote is a version of a group that an extension server serves.
type Remote struct {
	schema.GroupVersion
	Priority Priority
	// Discovery is that server's document. It is shared and must not be changed.
	Discovery *apidiscovery.APIVersionDiscovery
}

// With returns the catalog with the versions of extension servers, which replace the same versions of this server.
func (c *Catalog) With(remote []Remote) *Catalog {
	if len(remote) == 0 {
		return c
	}
	versions := make([]groupVersion, 0, len(remote))
	for _, r := range remote {
		versions = append(versions, groupVersion{GroupVersion: r.GroupVersion, priority: r.Priority, remote: r.Discovery})
	}
	for _, g := range c.groups {
		for _, v := range g.versions {
			if !slices.ContainsFunc(remote, func(r Remote) bool { return r.GroupVersion == v.GroupVersion }) {
				versions = append(versions, v)
			}
		}
	}
	return arrange(versions)
}

// withKinds adds kinds that a server has left out, which old clients require.
func withKinds(d *apidiscovery.APIVersionDiscovery) apidiscovery.APIVersionDiscovery {
	out := *d.DeepCopy()
	for i := range out.Resources {
		r := &out.Resources[i]
		if r.ResponseKind == nil {
			r.ResponseKind = &metav1.GroupVersionKind{}
		}
		for j := range r.Subresources {
			if r.Subresources[j].ResponseKind == nil {
				r.Subresources[j].ResponseKind = &metav1.GroupVersionKind{}
			}
		}
	}
	return out
}
