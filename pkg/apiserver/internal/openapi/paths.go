package openapi

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const metaPrefix = "io.k8s.apimachinery.pkg.apis.meta.v1."

// endpoint is a path with its operations.
type endpoint struct {
	url        string
	parameters []parameter
	operations []operation
}

// operation describes a method of a path.
type operation struct {
	method   string // "get"
	action   string // "list"
	id       string
	tag      string
	text     string
	gvk      schema.GroupVersionKind // the zero value: none
	query    []parameter
	body     string   // definition; "": none
	optional bool     // the body
	consumes []string // nil: any media type
	response string   // definition; "": text
	codes    []int
	watches  bool
}

// parameter is a parameter of a path or a query.
type parameter struct {
	name, in, text, kind string
}

func sorted(list []parameter) []parameter {
	slices.SortFunc(list, func(a, b parameter) int { return strings.Compare(a.name, b.name) })
	return list
}

// describer builds the endpoints of a resource in a version.
type describer struct {
	served
	defs       *library
	gv         schema.GroupVersion
	kind       string
	one, list  string // definitions
	namespaced bool
	out        []endpoint
}

func (v served) paths(defs *library) []endpoint {
	d := describer{
		served: v, defs: defs, kind: v.resource.Names.Kind, namespaced: !v.resource.Names.Cluster,
		gv: schema.GroupVersion{Group: v.version.Group, Version: v.version.Version},
	}
	d.one = defs.define(v.version.New(), d.gv.WithKind(d.kind))
	d.list = defs.define(v.version.NewList(), d.gv.WithKind(d.kind+"List"))
	d.collection()
	d.object()
	if v.resource.Status != nil {
		d.part("status", d.one, d.gv.WithKind(d.kind))
	}
	if v.resource.Scale != nil {
		scale := schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
		d.part("scale", "io.k8s.api.autoscaling.v1.Scale", scale)
	}
	for _, name := range v.resource.Connects {
		d.connect(name)
	}
	return d.out
}

func (d *describer) url(parts ...string) string {
	return "/" + strings.Join(append([]string{path(d.gv)}, parts...), "/")
}

// base returns the path of the collection; for a namespaced resource, of the collection in a namespace.
func (d *describer) base(more ...string) string {
	parts := []string{d.resource.Names.Plural}
	if d.namespaced {
		parts = []string{"namespaces", "{namespace}", d.resource.Names.Plural}
	}
	return d.url(append(parts, more...)...)
}

// scoped returns the parameters of a path, without and with an object's name.
func (d *describer) scoped(named bool) []parameter {
	var list []parameter
	if named {
		list = append(list, parameter{"name", "path", "name of the " + d.kind, "string"})
	}
	if d.namespaced {
		list = append(list, parameter{"namespace", "path", "object name and auth scope, such as for teams and projects", "string"})
	}
	return append(list, parameter{"pretty", "query", "If 'true', then the output is pretty printed.", "string"})
}

// id returns the name of an operation: "readAppsV1NamespacedDeploymentScale".
func (d *describer) id(verb, after, sub string) string {
	group := strings.TrimSuffix(d.gv.Group, ".k8s.io")
	if group == "" {
		group = "core"
	}
	name := verb
	for _, part := range strings.Split(group, ".") {
		name += title(part)
	}
	name += title(d.gv.Version) + after
	if d.namespaced {
		name += "Namespaced"
	}
	return name + d.kind + title(sub)
}

func title(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func (d *describer) tag() string {
	group := strings.TrimSuffix(d.gv.Group, ".k8s.io")
	if group == "" {
		group = "core"
	}
	first, rest, _ := strings.Cut(group, ".")
	for _, part := range strings.Split(rest, ".") {
		first += title(part)
	}
	return first + "_" + d.gv.Version
}

func (d *describer) add(url string, parameters []parameter, operations []operation) {
	if len(operations) == 0 {
		return
	}
	for i := range operations {
		o := &operations[i]
		o.tag = d.tag()
		if o.gvk == (schema.GroupVersionKind{}) {
			o.gvk = d.gv.WithKind(d.kind)
		}
		for _, name := range []string{o.body, o.response} {
			if name != "" {
				d.defs.use(name)
			}
		}
	}
	d.out = append(d.out, endpoint{url, parameters, operations})
}

func (d *describer) listing() []parameter { return d.defs.fields(metaPrefix + "ListOptions") }

func (d *describer) collection() {
	var ops []operation
	list := operation{
		method: "get", action: "list", text: "list or watch objects of kind " + d.kind, query: d.listing(),
		response: d.list, codes: []int{200}, watches: true,
	}
	if d.can("list", "watch") {
		o := list
		o.id = d.id("list", "", "")
		ops = append(ops, o)
	}
	if d.can("create") {
		text := "create a " + d.kind
		if strings.ContainsRune("AEIOU", rune(d.kind[0])) {
			text = "create an " + d.kind
		}
		ops = append(ops, operation{
			method: "post", action: "post", id: d.id("create", "", ""), text: text,
			query: d.defs.fields(metaPrefix + "CreateOptions"), body: d.one, response: d.one, codes: []int{200, 201, 202},
		})
	}
	if d.can("deletecollection") {
		ops = append(ops, operation{
			method: "delete", action: "deletecollection", id: d.id("delete", "Collection", ""), text: "delete collection of " + d.kind,
			query: d.merge(d.deleting(), d.without(d.listing(), "watch", "allowWatchBookmarks")),
			body:  metaPrefix + "DeleteOptions", optional: true, response: metaPrefix + "Status", codes: []int{200},
		})
	}
	d.add(d.base(), d.scoped(false), ops)
	if d.namespaced && d.can("list", "watch") {
		list.id = strings.Replace(d.id("list", "", ""), "Namespaced"+d.kind, d.kind+"ForAllNamespaces", 1)
		d.add(d.url(d.resource.Names.Plural), []parameter{{"pretty", "query", "If 'true', then the output is pretty printed.", "string"}}, []operation{list})
	}
}

func (d *describer) deleting() []parameter { return d.defs.fields(metaPrefix + "DeleteOptions") }

func (d *describer) without(list []parameter, names ...string) []parameter {
	return slices.DeleteFunc(slices.Clone(list), func(p parameter) bool { return slices.Contains(names, p.name) })
}

func (d *describer) merge(a, b []parameter) []parameter {
	for _, p := range b {
		if !slices.ContainsFunc(a, func(q parameter) bool { return q.name == p.name }) {
			a = append(a, p)
		}
	}
	return sorted(a)
}

// patches returns the media types of a patch. Types without Kubernetes' merge schema have no strategic merge patch.
func (d *describer) patches(definition string) []string {
	list := []string{"application/json-patch+json", "application/merge-patch+json"}
	if strings.HasPrefix(definition, "io.k8s.") {
		list = append(list, "application/strategic-merge-patch+json")
	}
	return append(list, "application/apply-patch+yaml")
}

func (d *describer) object() {
	ops := d.readWrite("", d.one, schema.GroupVersionKind{}, d.can("get"), d.can("update"), d.can("patch"))
	if d.can("delete") {
		text := "delete a " + d.kind
		if strings.ContainsRune("AEIOU", rune(d.kind[0])) {
			text = "delete an " + d.kind
		}
		response := metaPrefix + "Status"
		if d.resource.ReturnsDeleted {
			response = d.one
		}
		ops = append(ops, operation{
			method: "delete", action: "delete", id: d.id("delete", "", ""), text: text, query: d.deleting(),
			body: metaPrefix + "DeleteOptions", optional: true, response: response, codes: []int{200, 202},
		})
	}
	d.add(d.base("{name}"), d.scoped(true), ops)
}

// part adds a subresource that is read and written like an object.
func (d *describer) part(name, definition string, gvk schema.GroupVersionKind) {
	d.add(d.base("{name}", name), d.scoped(true), d.readWrite(name, definition, gvk, true, true, true))
}

func (d *describer) readWrite(sub, definition string, gvk schema.GroupVersionKind, get, put, patch bool) []operation {
	what := "the specified " + d.kind
	if sub != "" {
		what = sub + " of the specified " + d.kind
	}
	var ops []operation
	if get {
		ops = append(ops, operation{
			method: "get", action: "get", id: d.id("read", "", sub), text: "read " + what, gvk: gvk,
			response: definition, codes: []int{200},
		})
	}
	if put {
		ops = append(ops, operation{
			method: "put", action: "put", id: d.id("replace", "", sub), text: "replace " + what, gvk: gvk,
			query: d.defs.fields(metaPrefix + "UpdateOptions"), body: definition, response: definition, codes: []int{200, 201},
		})
	}
	if patch {
		ops = append(ops, operation{
			method: "patch", action: "patch", id: d.id("patch", "", sub), text: "partially update " + what, gvk: gvk,
			query: d.defs.fields(metaPrefix + "PatchOptions"), body: metaPrefix + "Patch", consumes: d.patches(definition),
			response: definition, codes: []int{200, 201},
		})
	}
	return ops
}
