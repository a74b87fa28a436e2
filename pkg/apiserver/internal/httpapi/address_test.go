package httpapi

import (
	"net/url"
	"testing"
)

func TestParseAddress(t *testing.T) {
	for _, c := range []struct {
		method, url string
		want        address // resource "": not below a version
	}{
		{"GET", "/", address{}},
		{"GET", "/api/v1", address{}},
		{"GET", "/apis/apps/v1", address{}},
		{"GET", "/api/v1/watch", address{}},
		{"GET", "/api/v1/pods", address{version: "v1", verb: "list", resource: "pods"}},
		{"HEAD", "/api/v1/pods/", address{version: "v1", verb: "list", resource: "pods"}},
		{"GET", "/api/v1/pods?watch", address{version: "v1", verb: "watch", resource: "pods"}},
		{"GET", "/api/v1/pods?watch=0", address{version: "v1", verb: "list", resource: "pods"}},
		{"GET", "/api/v1/watch/pods", address{version: "v1", verb: "watch", resource: "pods"}},
		{"GET", "/api/v1/pods?watch=1&fieldSelector=metadata.name%3Dx", address{version: "v1", verb: "watch", resource: "pods", name: "x"}},
		{"GET", "/api/v1/pods?fieldSelector=metadata.name!%3Dx", address{version: "v1", verb: "list", resource: "pods"}},
		{"GET", "/api/v1/watch/namespaces/a/pods/x", address{version: "v1", verb: "watch", namespace: "a", resource: "pods", name: "x", named: true}},
		{"GET", "/api/v1/namespaces", address{version: "v1", verb: "list", resource: "namespaces"}},
		{"GET", "/api/v1/namespaces/a", address{version: "v1", verb: "get", namespace: "a", resource: "namespaces", name: "a", named: true}},
		{"PUT", "/api/v1/namespaces/a/finalize", address{version: "v1", verb: "update", namespace: "a", resource: "namespaces", name: "a", named: true, subresource: "finalize"}},
		{"POST", "/api/v1/namespaces/a/pods", address{version: "v1", verb: "create", namespace: "a", resource: "pods"}},
		{"DELETE", "/api/v1/namespaces/a/pods", address{version: "v1", verb: "deletecollection", namespace: "a", resource: "pods"}},
		{"DELETE", "/api/v1/namespaces/a/pods/x", address{version: "v1", verb: "delete", namespace: "a", resource: "pods", name: "x", named: true}},
		{"PATCH", "/apis/apps/v1/namespaces/a/deployments/x/scale", address{group: "apps", version: "v1", verb: "patch", namespace: "a", resource: "deployments", name: "x", named: true, subresource: "scale"}},
		{"DELETE", "/api/v1/watch/namespaces/a/pods", address{version: "v1", verb: "watch", namespace: "a", resource: "pods", misused: true}},
		{"TRACE", "/api/v1/pods", address{version: "v1", resource: "pods"}},
	} {
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		got := parseAddress(c.method, u)
		c.want.resourceful = c.want.resource != ""
		if !c.want.resourceful {
			got.verb = ""
		}
		if !equal(got, c.want) {
			t.Errorf("%s %s:\ngot  %+v\nwant %+v", c.method, c.url, got, c.want)
		}
	}
}

func equal(a, b address) bool {
	return a.resourceful == b.resourceful && a.misused == b.misused && a.group == b.group && a.version == b.version && a.verb == b.verb && a.namespace == b.namespace &&
		a.resource == b.resource && a.name == b.name && a.subresource == b.subresource && a.named == b.named
}

// parseAddress never panics, and its result is always complete: with a resource, and with a name where there is a
// subresource.
func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{"/api/v1/pods", "/apis/a/b/watch/namespaces/x/pods/y/z/w", "/api/v1/namespaces//pods", "//api//v1//", "/api/v1/watch/", "/api/v1/pods?watch=true&fieldSelector=metadata.name%3D%2F"} {
		f.Add("GET", s)
	}
	f.Fuzz(func(t *testing.T, method, s string) {
		u, err := url.Parse(s)
		if err != nil {
			return
		}
		a := parseAddress(method, u)
		a.longRunning(u)
		switch {
		case !a.resourceful && (a.resource != "" || a.name != "" || a.version != ""):
			t.Errorf("%q names %+v but is no resource", s, a)
		case a.subresource != "" && !a.named, len(a.rest) > 0 && len(split(u.Path)) < 6:
			t.Errorf("%q has a subresource of nothing: %+v", s, a)
		}
	})
}
