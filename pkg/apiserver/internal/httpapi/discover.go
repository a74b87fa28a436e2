package httpapi

import (
	"crypto/sha512"
	"encoding/hex"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/codec"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/discovery"
)

func (s *Handler) discoverLegacy(w http.ResponseWriter, r *http.Request) {
	s.discoverAll(w, r, true, func() (runtime.Object, schema.GroupVersionKind) {
		return s.catalog(r.Context()).Versions(s.config.Address()), schema.GroupVersionKind{Version: "", Kind: "APIVersions"}
	})
}

func (s *Handler) discoverGroups(w http.ResponseWriter, r *http.Request) {
	s.discoverAll(w, r, false, func() (runtime.Object, schema.GroupVersionKind) {
		return s.catalog(r.Context()).Groups(), schema.GroupVersionKind{Version: "v1", Kind: "APIGroupList"}
	})
}

// discoverAll serves the aggregated document to clients that accept it, and the unaggregated one to others.
func (s *Handler) discoverAll(w http.ResponseWriter, r *http.Request, legacy bool, old func() (runtime.Object, schema.GroupVersionKind)) {
	media, err := codec.Negotiate(r, codec.Offer{Unrouted: !legacy, Transform: func(gvk schema.GroupVersionKind) bool { return gvk == discovery.AggregatedKind }})
	if err != nil {
		fail(w, r, err)
		return
	}
	w.Header().Add("Vary", "Accept")
	if media.As.Empty() {
		obj, gvk := old()
		writeObject(w, r, media, http.StatusOK, obj, gvk)
		return
	}
	list := s.catalog(r.Context()).Aggregated(legacy)
	b, err := codec.Object(list, discovery.AggregatedKind, media)
	if err != nil {
		fail(w, r, err)
		return
	}
	sum := sha512.Sum512(b)
	tag := `"` + hex.EncodeToString(sum[:]) + `"`
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "public")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	suffix := ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	writeBody(w, r, media.Format.String()+suffix, http.StatusOK, b)
}

// discoverVersion serves /api/V.
func (s *Handler) discoverVersion(w http.ResponseWriter, r *http.Request) {
	parts := split(r.URL.Path)
	switch len(parts) {
	case 1:
		s.discoverLegacy(w, r)
	case 2:
		s.discoverResources(w, r, schema.GroupVersion{Version: parts[1]})
	default:
		http.NotFound(w, r)
	}
}

// discoverGroup serves /apis/G and /apis/G/V.
func (s *Handler) discoverGroup(w http.ResponseWriter, r *http.Request) {
	parts := split(r.URL.Path)
	switch len(parts) {
	case 1:
		s.discoverGroups(w, r)
	case 2:
		g := s.catalog(r.Context()).Group(parts[1])
		if g == nil {
			http.NotFound(w, r)
			return
		}
		writePlain(w, r, g, metav1.Unversioned.WithKind("APIGroup"), true)
	case 3:
		s.discoverResources(w, r, schema.GroupVersion{Group: parts[1], Version: parts[2]})
	default:
		http.NotFound(w, r)
	}
}

func (s *Handler) discoverResources(w http.ResponseWriter, r *http.Request, gv schema.GroupVersion) {
	list := s.config.Rows.Table().Catalog().Resources(gv)
	if list == nil {
		s.noResource(w, r, gv.Group)
		return
	}
	gvk := list.GroupVersionKind()
	writePlain(w, r, list, gvk, s.config.Rows.Table().Resources.Custom[gv])
}

// noResource responds with 404. Below a compiled-in group the body is a Status, elsewhere plain text, as in Kubernetes.
func (s *Handler) noResource(w http.ResponseWriter, r *http.Request, group string) {
	if s.config.Rows.Table().Resources.Groups[group] {
		fail(w, r, errNoResource)
		return
	}
	http.NotFound(w, r)
}

// writePlain responds with a discovery document in the format that the client accepts. unrouted is as in codec.Offer.
func writePlain(w http.ResponseWriter, r *http.Request, obj runtime.Object, gvk schema.GroupVersionKind, unrouted bool) {
	media, err := codec.Negotiate(r, codec.Offer{Unrouted: unrouted})
	if err != nil {
		fail(w, r, err)
		return
	}
	writeObject(w, r, media, http.StatusOK, obj, gvk)
}
