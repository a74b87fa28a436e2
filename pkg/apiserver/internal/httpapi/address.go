package httpapi

import (
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// address is what the method and the path of a request name. It does not depend on the resources that the server
// serves.
type address struct {
	resourceful bool // below /api/V or /apis/G/V: the fields down to rest are set

	group, version string
	verb           string // RBAC verb: list, deletecollection, …
	namespace      string
	resource       string
	name           string // from the path, or from a field selector that names one object
	subresource    string
	fields         fields.Selector // of a collection; nil: none, or an invalid one
	rest           []string        // the path after the subresource
	named          bool            // the path itself names an object
	misused        bool            // a path below /watch with a method other than GET
}

func (a address) gvr() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: a.group, Version: a.version, Resource: a.resource}
}

// verbOf maps methods to verbs; collection corrects those of collections.
var verbOf = map[string]string{
	http.MethodPost: "create", http.MethodGet: "get", http.MethodHead: "get",
	http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// parseAddress reads the address of a request.
func parseAddress(method string, u *url.URL) address {
	a := address{verb: verbOf[method]}
	parts := split(u.Path)
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		a.version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		a.group, a.version, parts = parts[1], parts[2], parts[3:]
	default:
		return address{verb: strings.ToLower(method)}
	}
	watching := parts[0] == "watch"
	if watching {
		if parts = parts[1:]; len(parts) == 0 {
			return address{verb: strings.ToLower(method)}
		}
	}
	a.resourceful = true
	a.place(parts)
	a.misused = watching && a.verb != "get"
	a.collection(u, watching)
	return a
}

// split returns the parts of a path; slashes at its ends do not count.
func split(p string) []string {
	p = strings.Trim(p, "/")
	if p == "" {
		return nil
	}
	return strings.Split(p, "/")
}

// place reads [namespaces/NS/]RESOURCE[/NAME[/SUBRESOURCE[/…]]].
func (a *address) place(parts []string) {
	if parts[0] == "namespaces" && len(parts) > 1 {
		a.namespace = parts[1]
		// status and finalize are subresources of the namespace, not resources in it.
		if len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
			parts = parts[2:]
		}
	}
	a.resource = parts[0]
	if len(parts) > 1 {
		a.name, a.named = parts[1], true
	}
	if len(parts) > 2 {
		a.subresource = parts[2]
	}
	if len(parts) > 3 {
		a.rest = parts[3:]
	}
}

// collection sets the verb (list, watch or deletecollection) and the field selector.
func (a *address) collection(u *url.URL, watching bool) {
	switch {
	case watching:
		a.verb = "watch"
	case a.named, a.verb != "get" && a.verb != "delete":
		return
	case a.verb == "delete":
		a.verb = "deletecollection"
	case truthy(u.Query()["watch"]):
		a.verb = "watch"
	default:
		a.verb = "list"
	}
	if text := u.Query().Get("fieldSelector"); text != "" {
		if s, err := fields.ParseSelector(text); err == nil {
			a.fields = s
		}
	}
	if a.name == "" && a.verb != "deletecollection" {
		a.name = selectedName(a.fields)
	}
}

// isNamespace reports whether the path names the namespace that was authorized. A namespace is never inside another
// one: a right in the first must not extend to the second.
func (a *address) isNamespace() bool { return a.resource == "namespaces" && a.name == a.namespace }

// selectedName returns the single name that a field selector matches.
func selectedName(s fields.Selector) string {
	if s == nil {
		return ""
	}
	name, ok := s.RequiresExactMatch("metadata.name")
	if !ok || len(content.IsPathSegmentName(name)) > 0 {
		return ""
	}
	return name
}

// truthy parses a boolean query parameter as Kubernetes does: everything except false and 0 is true.
func truthy(values []string) bool {
	if len(values) == 0 {
		return false
	}
	return values[0] != "0" && !strings.EqualFold(values[0], "false")
}

// longRunning reports whether a request has no deadline.
func (a address) longRunning(u *url.URL) bool {
	if !a.resourceful {
		return false
	}
	switch a.subresource {
	case "attach", "exec", "portforward", "proxy":
		return true
	case "log":
		return truthy(u.Query()["follow"])
	}
	return a.verb == "watch"
}
