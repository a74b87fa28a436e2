package httpapi

import (
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"path"
	"runtime"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/version"

	"github.com/minikctl/minikctl/pkg/logs"
	"github.com/minikctl/minikctl/pkg/release"
)

// ownVersion is what the server reports of itself.
var ownVersion = version.Info{
	Major: release.Major, Minor: release.Minor, EmulationMajor: release.Major, EmulationMinor: release.Minor,
	MinCompatibilityMajor: release.Major, MinCompatibilityMinor: "35", GitVersion: release.Kubernetes, GitTreeState: "clean",
	GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
}

// page is a path that is not a resource.
type page struct {
	path  string // with a slash at the end: also all paths below it
	serve http.HandlerFunc
}

// pages lists the paths that are not resources.
func (s *Handler) pages() []page {
	return []page{
		{"/", s.index},
		{"/api", s.discoverLegacy}, {"/api/", s.discoverVersion},
		{"/apis", s.discoverGroups}, {"/apis/", s.discoverGroup},
		{"/healthz", s.health}, {"/healthz/", s.health},
		{"/livez", s.health}, {"/livez/", s.health},
		{"/readyz", s.health}, {"/readyz/", s.health},
		{"/openapi/v2", s.describe}, {"/openapi/v3", s.describe}, {"/openapi/v3/", s.describe},
		{"/metrics", s.metrics.handler.ServeHTTP}, {"/metrics/slis", s.healths.Metrics},
		{"/version", s.version}, {"/version/", s.version},
		{"/statusz", func(w http.ResponseWriter, r *http.Request) { s.zpages.Statusz(w, r) }},
		{"/flagz", func(w http.ResponseWriter, r *http.Request) { s.zpages.Flagz(w, r) }},
		{"/openid/v1/jwks", s.keySet}, {"/.well-known/openid-configuration", s.openID},
		{"/debug/pprof/", pprof.Index}, {"/debug/pprof/profile", pprof.Profile}, {"/debug/pprof/symbol", pprof.Symbol},
		{"/debug/pprof/trace", pprof.Trace}, {"/debug/store/", s.backup},
		{"/debug/flags/", logs.Flags},
	}
}

// routes returns the handler that routes a request to an extension server, a resource, or a page.
func (s *Handler) routes() http.Handler {
	mux := http.NewServeMux()
	for _, p := range s.pages() {
		mux.HandleFunc(p.path, p.serve)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.delegated(w, r) {
			return
		}
		if callOf(r).address.resourceful {
			s.serveResource(w, r)
			return
		}
		if err := s.authorizePath(r); err != nil {
			fail(w, r, err)
			return
		}
		h, pattern := mux.Handler(r)
		if pattern == "" || !clean(r.URL.Path) { // the mux would redirect //healthz to /healthz
			http.NotFound(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// clean reports whether a path has no empty, "." or ".." segments.
func clean(p string) bool {
	short := path.Clean(p)
	return p == short || short != "/" && p == short+"/"
}

// index lists the paths that are not resources.
func (s *Handler) index(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" {
		http.NotFound(w, r)
		return
	}
	paths := append(s.paths(), "/apis/", "/openapi/v3/")
	paths = append(paths, s.catalog(r.Context()).Paths()...)
	for _, kind := range []string{"healthz", "livez", "readyz"} {
		for _, c := range s.checks(kind == "readyz") {
			paths = append(paths, "/"+kind+"/"+c.Name)
		}
	}
	sort.Strings(paths)
	writeRaw(w, http.StatusOK, map[string][]string{"paths": paths})
}

// paths returns the paths of the pages, without those of directories.
func (s *Handler) paths() []string {
	var paths []string
	for _, p := range s.pages() {
		if !strings.HasSuffix(p.path, "/") {
			paths = append(paths, p.path)
		}
	}
	return paths
}

func (s *Handler) version(w http.ResponseWriter, _ *http.Request) {
	writeRaw(w, http.StatusOK, ownVersion)
}

// writeRaw responds with indented JSON.
func writeRaw(w http.ResponseWriter, code int, v any) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(b) // fails only when the client has disconnected
}
