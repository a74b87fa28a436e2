// Package discovery owns the discovery documents: groups, versions, resources and their verbs, derived from the rows, in the
// old form (a document per group version) and the aggregated one.
package discovery

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/codec"
	"github.com/minikctl/minikctl/pkg/objects"
)

// Catalog holds the groups, versions and resources of the rows. It never changes.
type Catalog struct {
	groups []group
}

// group is a group with its versions, the preferred one first.
type group struct {
	name     string
	versions []groupVersion
}

type groupVersion struct {
	schema.GroupVersion
	priority Priority
	entries  []entry
	remote   *apidiscovery.APIVersionDiscovery // the document of an extension server; nil: this server serves it
}

// entry is a row in one version.
type entry struct {
	row    *objects.Resource
	served *objects.VersionOf
}

// New returns the catalog of rows.
func New(rows []*objects.Resource) *Catalog {
	found := map[schema.GroupVersion][]entry{}
	for _, r := range rows {
		for j := range r.Versions {
			v := &r.Versions[j]
			if v.Unserved {
				continue
			}
			gv := schema.GroupVersion{Group: v.Group, Version: v.Version}
			found[gv] = append(found[gv], entry{r, v})
		}
	}
	versions := make([]groupVersion, 0, len(found))
	for gv, entries := range found {
		slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.row.Names.Plural, b.row.Names.Plural) })
		p, _ := PriorityOf(gv)
		versions = append(versions, groupVersion{GroupVersion: gv, priority: p, entries: entries})
	}
	return arrange(versions)
}

// arrange returns the catalog of versions, sorted by priority, then groups by name and versions by stability.
func arrange(versions []groupVersion) *Catalog {
	byGroup := map[string][]groupVersion{}
	for _, v := range versions {
		byGroup[v.Group] = append(byGroup[v.Group], v)
	}
	c := &Catalog{}
	for name, versions := range byGroup {
		slices.SortFunc(versions, func(a, b groupVersion) int {
			return cmp.Or(cmp.Compare(b.priority.Version, a.priority.Version), version.CompareKubeAwareVersionStrings(b.Version, a.Version))
		})
		c.groups = append(c.groups, group{name, versions})
	}
	slices.SortFunc(c.groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(b.priority(), a.priority()), strings.Compare(a.name, b.name))
	})
	return c
}

// priority returns the greatest priority of a group's versions.
func (g group) priority() int32 {
	var p int32
	for _, v := range g.versions {
		p = max(p, v.priority.Group)
	}
	return p
}

// Versions returns the document at /api.
func (c *Catalog) Versions(server string) *metav1.APIVersions {
	out := &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{
		{ClientCIDR: "0.0.0.0/0", ServerAddress: server},
	}}
	for _, g := range c.groups {
		if g.name != "" {
			continue
		}
		for _, v := range g.versions {
			out.Versions = append(out.Versions, v.Version)
		}
	}
	return out
}

// Groups returns the document at /apis.
func (c *Catalog) Groups() *metav1.APIGroupList {
	out := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{}}
	for _, g := range c.groups {
		if g.name != "" {
			out.Groups = append(out.Groups, g.document())
		}
	}
	return out
}

// Group returns the document at /apis/G, or nil.
func (c *Catalog) Group(name string) *metav1.APIGroup {
	for _, g := range c.groups {
		if g.name == name && name != "" {
			d := g.document()
			d.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
			return &d
		}
	}
	return nil
}

func (g group) document() metav1.APIGroup {
	out := metav1.APIGroup{Name: g.name}
	for _, v := range g.versions {
		out.Versions = append(out.Versions, metav1.GroupVersionForDiscovery{GroupVersion: v.String(), Version: v.Version})
	}
	out.PreferredVersion = out.Versions[0]
	return out
}

// Resources returns the document at /api/V or /apis/G/V, or nil.
func (c *Catalog) Resources(gv schema.GroupVersion) *metav1.APIResourceList {
	for _, g := range c.groups {
		for _, v := range g.versions {
			if v.GroupVersion == gv {
				return v.document()
			}
		}
	}
	return nil
}

func (v groupVersion) document() *metav1.APIResourceList {
	out := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}, GroupVersion: v.String(), APIResources: []metav1.APIResource{}}
	if v.Group != "" {
		out.APIVersion = "v1"
	}
	for _, e := range v.entries {
		out.APIResources = append(out.APIResources, e.resource())
		for _, sub := range codec.SubresourcesOf(e.row) {
			out.APIResources = append(out.APIResources, e.subresource(v.GroupVersion, sub))
		}
	}
	return out
}

func (e entry) resource() metav1.APIResource {
	n := e.row.Names
	return metav1.APIResource{
		Name: n.Plural, SingularName: n.Singular, Namespaced: !n.Cluster, Kind: n.Kind, Verbs: e.row.Verbs,
		ShortNames: e.short(), Categories: e.categories(), StorageVersionHash: e.hash(),
	}
}

// categories returns the categories of the row in its own group, none in others, so that a list by category has each object
// once.
func (e entry) categories() []string {
	if e.served.Group != e.row.Names.Group {
		return nil
	}
	return e.row.Names.Categories
}

// short returns the short names, none for a deprecated version of another group, since clients would warn that they are
// ambiguous.
func (e entry) short() []string {
	if e.served.Deprecated != "" && e.served.Group != e.row.Names.Group {
		return nil
	}
	return e.row.Names.Short
}

func (e entry) subresource(gv schema.GroupVersion, sub codec.Subresource) metav1.APIResource {
	n := e.row.Names
	out := metav1.APIResource{Name: n.Plural + "/" + sub.Name, Namespaced: !n.Cluster, Kind: n.Kind, Verbs: sub.Verbs}
	if sub.Kind != nil {
		k := sub.Kind.Names
		out.Kind = k.Kind
		if k.Group != gv.Group || k.Version != gv.Version {
			out.Group, out.Version = k.Group, k.Version
		}
	}
	return out
}

// hash returns the storageHash of a stored resource.
func (e entry) hash() string {
	if !slices.Contains(e.row.Verbs, "watch") { // it is not stored
		return ""
	}
	return storageHash(e.row.Names)
}

// storageHash identifies the version in which a resource is stored. Clients only compare it.
func storageHash(n objects.Names) string {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%s/%s/%s", n.Group, cmp.Or(n.Hashed, n.Version), n.Kind)))
	return base64.StdEncoding.EncodeToString(sum[:8])
}

// Paths lists the catalog's documents.
func (c *Catalog) Paths() []string {
	var out []string
	for _, g := range c.groups {
		base := "/api"
		if g.name != "" {
			base = "/apis/" + g.name
			out = append(out, base)
		}
		for _, v := range g.versions {
			out = append(out, base+"/"+v.Version)
		}
	}
	return out
}
