package apiserver

import (
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/fields"
)

// address is what the method and path of a request name, without knowing which resources there are.
type address struct {
	resourceful bool // below /api/V or /apis/G/V: the fields down to rest mean something

	group, version string
	verb           string // of RBAC: list, deletecollection, …
	namespace      string
	resource       string
	name           string // of the path, or of a field selector that names one object
	subresource    string
	fields         fields.Selector // of a collection; nil: none, or one that can't be read
	rest           []string        // what follows the subresource
	named          bool            // the path itself names an object
	misused        bool            // a path to watch, with a method that does something else
}

// verbOf maps methods to verbs; those of collections are told apart later.
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
		// A namespace's own subresources are no resources within it.
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

// collection tells list, watch and deletecollection from get and delete.
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

// isNamespace reports whether the path names the very namespace that the authorizers were told of. Below one namespace
// there is no other: who may do something in the first must not reach the second.
func (a *address) isNamespace() bool { return a.resource == "namespaces" && a.name == a.namespace }

// selectedName returns the only name that a field selector takes.
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

// truthy reads a boolean of the query as Kubernetes does: anything but false and 0 is true.
func truthy(values []string) bool {
	if len(values) == 0 {
		return false
	}
	return values[0] != "0" && !strings.EqualFold(values[0], "false")
}

// longRunning reports whether a request may last: it has no deadline.
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
