package rows

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/objects"
)

// Index finds rows by group, version and resource.
type Index struct {
	byGVR    map[schema.GroupVersionResource]Target
	Versions map[schema.GroupVersion]bool
	Custom   map[schema.GroupVersion]bool // the versions that have custom resources
	Groups   map[string]bool              // the named groups that are compiled in
}

// Target is a row in one of the versions it is served in.
type Target struct {
	Resource *objects.Resource
	Version  *objects.VersionOf
}

func newIndex(rows []*objects.Resource) Index {
	rs := Index{byGVR: map[schema.GroupVersionResource]Target{}, Versions: map[schema.GroupVersion]bool{},
		Custom: map[schema.GroupVersion]bool{}, Groups: map[string]bool{}}
	for _, r := range rows {
		for j := range r.Versions {
			v := &r.Versions[j]
			if v.Unserved {
				continue
			}
			gv := schema.GroupVersion{Group: v.Group, Version: v.Version}
			rs.Versions[gv] = true
			if r.Custom() {
				rs.Custom[gv] = true
			} else if gv.Group != "" {
				rs.Groups[gv.Group] = true
			}
			rs.byGVR[gv.WithResource(r.Names.Plural)] = Target{r, v}
		}
	}
	return rs
}

// Find returns the row that is served under gvr.
func (rs Index) Find(gvr schema.GroupVersionResource) (Target, bool) {
	t, ok := rs.byGVR[gvr]
	return t, ok
}

// Lookup returns the resource and version that are served as gvr, or nil.
func (rs *Rows) Lookup(gvr schema.GroupVersionResource) *verbs.VersionedResource {
	t, ok := rs.Table().Resources.byGVR[gvr]
	if !ok {
		return nil
	}
	return &verbs.VersionedResource{Resource: t.Resource, Version: t.Version, Stored: t.Version.To == nil}
}

// FindKind returns the resource of a kind and the version of that kind; nil when it is not served.
func (rs *Rows) FindKind(kind schema.GroupVersionKind) (*objects.Resource, *objects.VersionOf) {
	for gvr, t := range rs.Table().Resources.byGVR {
		if gvr.GroupVersion() == kind.GroupVersion() && t.Resource.Names.Kind == kind.Kind {
			return t.Resource, t.Version
		}
	}
	return nil, nil
}
