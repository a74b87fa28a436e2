package codec

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/objects"
)

// Subresource describes a subresource.
type Subresource struct {
	Name  string
	Verbs []string          // in discovery's order
	Kind  *objects.Resource // of its body; nil: the resource's own
}

// subresources lists status, scale and the subresources that the Connects of rows name.
var subresources = sync.OnceValue(func() []Subresource {
	return []Subresource{
		{Name: "approval", Verbs: change},
		{Name: "attach", Verbs: stream, Kind: options("PodAttachOptions")},
		{Name: "binding", Verbs: []string{"create"}, Kind: row("", "v1", "Binding", "bindings", func() *corev1.Binding { return new(corev1.Binding) })},
		{Name: "ephemeralcontainers", Verbs: change},
		{Name: "eviction", Verbs: []string{"create"}, Kind: row("policy", "v1", "Eviction", "evictions", func() *policyv1.Eviction { return new(policyv1.Eviction) })},
		{Name: "exec", Verbs: stream, Kind: options("PodExecOptions")},
		{Name: "finalize", Verbs: []string{"update"}},
		{Name: "log", Verbs: []string{"get"}},
		{Name: "portforward", Verbs: stream, Kind: options("PodPortForwardOptions")},
		{Name: "proxy", Verbs: []string{"create", "delete", "get", "patch", "update"}},
		{Name: "resize", Verbs: change},
		{Name: "scale", Verbs: change, Kind: scales()},
		{Name: "status", Verbs: change},
		{Name: "token", Verbs: []string{"create"}, Kind: &verbs.TokenRequests},
	}
})

var (
	change = []string{"get", "patch", "update"}
	stream = []string{"create", "get"}
)

// row returns the row of a kind that is the body of a subresource and is never stored.
func row[T objects.Object](group, version, kind, plural string, make func() T) *objects.Resource {
	r := objects.Row(objects.Def[T]{
		Names: objects.Names{Group: group, Version: version, Kind: kind, Plural: plural},
		New:   make, NewList: func() runtime.Object { return make() },
	})
	return &r
}

// options returns the kind of the options of a connect subresource, which are in its query and never decoded.
func options(kind string) *objects.Resource {
	return &objects.Resource{Names: objects.Names{Version: "v1", Kind: kind}}
}

// SubresourcesOf returns the subresources of a row in discovery's order.
func SubresourcesOf(r *objects.Resource) []Subresource {
	var out []Subresource
	for _, s := range subresources() {
		if s.Name == "status" && r.Status != nil || s.Name == "scale" && r.Scale != nil || slices.Contains(r.Connects, s.Name) {
			switch {
			case s.Name == "proxy":
				s.Kind = options(r.Names.Kind + "ProxyOptions")
			case s.Name == "scale" && r.Custom():
				s.Kind = customScales()
			}
			out = append(out, s)
		}
	}
	if r.Custom() {
		slices.Reverse(out) // Kubernetes lists status before scale for custom resources
	}
	return out
}

// SubresourceOf returns a row's subresource by name.
func SubresourceOf(r *objects.Resource, name string) (Subresource, bool) {
	for _, s := range SubresourcesOf(r) {
		if s.Name == name {
			return s, true
		}
	}
	return Subresource{}, false
}
