// Package rows owns the table of the resources that the server serves: those compiled in and custom resources, with the
// discovery documents, the decoder and the OpenAPI documents that are derived from them.
package rows

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/codec"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/discovery"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/openapi"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/objects"
)

// Table is a snapshot of the served resources. It is immutable: when a custom resource is added or removed, a new table
// replaces it. Running requests keep the table that they began with.
type Table struct {
	Resources Index
	Catalog   func() *discovery.Catalog // built at the first call, as are the other documents
	Decoder   func() *codec.Decoder
	OpenAPI   func() *openapi.Specs
}

func newTable(rows []*objects.Resource) *Table {
	return &Table{
		Resources: newIndex(rows),
		Catalog:   sync.OnceValue(func() *discovery.Catalog { return discovery.New(rows) }),
		Decoder:   sync.OnceValue(func() *codec.Decoder { return codec.NewDecoder(rows) }),
		OpenAPI:   sync.OnceValue(func() *openapi.Specs { return openapi.New(rows) }),
	}
}

// Rows holds the rows of the served resources: those that are compiled in, and those of custom resources.
type Rows struct {
	now atomic.Pointer[Table]

	mu      sync.Mutex
	builtin []*objects.Resource
	custom  map[schema.GroupResource]*objects.Resource
}

// New returns the rows that are compiled in.
func New(list []objects.Resource) *Rows {
	rs := &Rows{builtin: objects.Each(list), custom: map[schema.GroupResource]*objects.Resource{}}
	rs.now.Store(newTable(rs.builtin))
	return rs
}

// Set replaces the custom resource that is served as gr by r; a nil r removes it. It returns false, and changes nothing,
// if gr is compiled in. It calls swap with the old row and r before any request can find r.
func (rs *Rows) Set(gr schema.GroupResource, r *objects.Resource, swap func(old, r *objects.Resource)) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if slices.ContainsFunc(rs.builtin, func(f *objects.Resource) bool { return f.Names.GR() == gr }) {
		return false
	}
	old := rs.custom[gr]
	if old == r {
		return true
	}
	delete(rs.custom, gr)
	if r != nil {
		rs.custom[gr] = r
	}
	swap(old, r)
	rs.now.Store(newTable(append(slices.Clone(rs.builtin), rs.sorted()...)))
	return true
}

// Has reports whether a resource of that name is served in any group.
func (rs *Rows) Has(plural string) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	named := func(r *objects.Resource) bool { return r.Names.Plural == plural }
	return slices.ContainsFunc(rs.builtin, named) || slices.ContainsFunc(rs.sorted(), named)
}

// sorted returns the custom rows in the order of their names.
func (rs *Rows) sorted() []*objects.Resource {
	out := make([]*objects.Resource, 0, len(rs.custom))
	for _, r := range rs.custom {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *objects.Resource) int { return strings.Compare(a.Names.GR().String(), b.Names.GR().String()) })
	return out
}

// Table returns what is served now.
func (rs *Rows) Table() *Table { return rs.now.Load() }

// Versions returns the versions that are served now.
func (rs *Rows) Versions() []schema.GroupVersion {
	return slices.Collect(maps.Keys(rs.Table().Resources.Versions))
}

// LookupStored is like Lookup, but also finds the storage version of a custom resource if that version is not served.
func (rs *Rows) LookupStored(gvr schema.GroupVersionResource) *verbs.VersionedResource {
	if s := rs.Lookup(gvr); s != nil {
		return s
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.custom[gvr.GroupResource()]
	if r == nil || r.Names.Version != gvr.Version {
		return nil
	}
	return &verbs.VersionedResource{Resource: r, Version: &r.Versions[0], Stored: true}
}
