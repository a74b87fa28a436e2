package discovery

import (
	"slices"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Remote is a version of a group for which another server answers.
type Remote struct {
	schema.GroupVersion
	Priority Priority
	// Discovery is what that server says of the version. It is shared and must not be changed.
	Discovery *apidiscovery.APIVersionDiscovery
}

// With returns the catalog with what other servers answer for, which takes the place of the same version here.
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

// withKinds names the kinds that a server has left out: old clients take them to be there.
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
