package openapi

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// created lists the subresources with the verb create, and the definition and kind of their body.
var created = map[string]struct {
	definition string
	gvk        schema.GroupVersionKind
}{
	"binding":  {"io.k8s.api.core.v1.Binding", schema.GroupVersionKind{Version: "v1", Kind: "Binding"}},
	"eviction": {"io.k8s.api.policy.v1.Eviction", schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"}},
	"token":    {"io.k8s.api.authentication.v1.TokenRequest", schema.GroupVersionKind{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest"}},
}

// connected lists the connect subresources, and the definition of their options.
var connected = map[string]string{
	"exec":        "io.k8s.api.core.v1.PodExecOptions",
	"attach":      "io.k8s.api.core.v1.PodAttachOptions",
	"portforward": "io.k8s.api.core.v1.PodPortForwardOptions",
	"proxy":       "io.k8s.api.core.v1.PodProxyOptions",
}

func (d *describer) connect(name string) {
	at := d.base("{name}", name)
	if c, ok := created[name]; ok {
		d.add(at, d.scoped(true), []operation{{
			method: "post", action: "post", id: d.id("create", "", name), text: "create " + name + " of a " + d.kind, gvk: c.gvk,
			query: d.defs.fields(metaPrefix + "CreateOptions"), body: c.definition, response: c.definition, codes: []int{200, 201, 202},
		}})
		return
	}
	if options, ok := connected[name]; ok {
		d.streams(name, strings.Replace(options, ".Pod", "."+d.kind, 1))
		return
	}
	switch name {
	case "log":
		d.add(at, d.scoped(true), []operation{{
			method: "get", action: "get", id: d.id("read", "", name), text: "read log of the specified " + d.kind,
			query: d.defs.fields("io.k8s.api.core.v1.PodLogOptions"), codes: []int{200},
		}})
	case "finalize":
		d.add(at, d.scoped(true), d.readWrite(name, d.one, schema.GroupVersionKind{}, false, true, false))
	default: // parts of the object, such as ephemeralcontainers
		d.part(name, d.one, schema.GroupVersionKind{})
	}
}

// streams adds a connect subresource, whose connection changes to another protocol.
func (d *describer) streams(name, options string) {
	kind := options[strings.LastIndex(options, ".")+1:]
	methods := []string{"get", "post"}
	if name == "proxy" {
		methods = []string{"get", "post", "put", "delete", "options", "head", "patch"}
	}
	var ops []operation
	for _, m := range methods {
		ops = append(ops, operation{
			method: m, action: "connect", id: d.id("connect", title(m), name), gvk: d.gv.WithKind(kind),
			text: "connect " + strings.ToUpper(m) + " requests to " + name + " of " + d.kind, query: d.defs.fields(options), codes: []int{200},
		})
	}
	d.add(d.base("{name}", name), d.scoped(true), ops)
}
