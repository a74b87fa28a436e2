// Package openapi owns the OpenAPI documents: a v3 document for each group and version, and a v2 document of everything
// for older clients. The paths are derived from the rows of the resources. The definitions of Kubernetes' types are
// generated (go generate) and embedded, one compressed file for each Go package. A file is decompressed at first use.
package openapi

import (
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/release"
)

//go:generate go run ./gen

// Specs holds the documents of a fixed set of resources. It is safe for concurrent use.
type Specs struct {
	versions map[schema.GroupVersion][]served // the resources of each group and version, in the order of the rows
	order    []schema.GroupVersion

	index    func() []byte
	swagger  func() (document, error)
	protobuf func() (document, error)

	mu   sync.Mutex
	docs map[schema.GroupVersion]document
	with *Specs // the result of the last With

	remote []Remote // of other servers
	key    string   // identifies remote
}

// served is a resource in one of its versions.
type served struct {
	resource *objects.Resource
	version  *objects.VersionOf
}

// document is a document and the hash of its sources.
type document struct {
	body []byte
	etag string
}

// New returns the documents of resources. Each is built at its first use.
func New(resources []*objects.Resource) *Specs {
	s := &Specs{versions: map[schema.GroupVersion][]served{}, docs: map[schema.GroupVersion]document{}}
	for _, r := range resources {
		for j := range r.Versions {
			v := &r.Versions[j]
			if v.Unserved {
				continue
			}
			gv := schema.GroupVersion{Group: v.Group, Version: v.Version}
			if s.versions[gv] == nil {
				s.order = append(s.order, gv)
			}
			s.versions[gv] = append(s.versions[gv], served{r, v})
		}
	}
	s.index = sync.OnceValue(s.makeIndex)
	s.swagger = sync.OnceValues(s.makeSwagger)
	s.protobuf = sync.OnceValues(s.makeProtobuf)
	return s
}

// path returns the path of a group and version: "api/v1", "apis/apps/v1".
func path(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "api/" + gv.Version
	}
	return "apis/" + gv.Group + "/" + gv.Version
}

// Index returns the JSON of /openapi/v3: the URLs of the documents. They contain a hash, so that clients can cache a document
// without limit.
func (s *Specs) Index() []byte { return s.index() }

func (s *Specs) makeIndex() []byte {
	type link struct {
		URL string `json:"serverRelativeURL"`
	}
	paths := map[string]link{}
	for _, gv := range s.order {
		paths[path(gv)] = link{fmt.Sprintf("/openapi/v3/%s?hash=%s", path(gv), s.hash(gv))}
	}
	for _, r := range s.remote {
		if l := r.link(); l != "" {
			paths[path(r.GroupVersion)] = link{l}
		}
	}
	return mustJSON(map[string]any{"paths": paths})
}

// Document returns the OpenAPI v3 document of a group and version as JSON, and its hash. ok is false if the version is not
// served.
func (s *Specs) Document(group, version string) (body []byte, etag string, ok bool) {
	gv := schema.GroupVersion{Group: group, Version: version}
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.docs[gv]
	if !ok && s.versions[gv] == nil {
		return nil, "", false
	}
	if !ok {
		d = document{s.makeDocument(gv), s.hash(gv)}
		s.docs[gv] = d
	}
	return d.body, d.etag, true
}

// Swagger returns the OpenAPI v2 document as JSON, and its hash.
func (s *Specs) Swagger() (body []byte, etag string, err error) {
	d, err := s.swagger()
	return d.body, d.etag, err
}

// SwaggerProtobuf returns the OpenAPI v2 document in protobuf, and its hash.
func (s *Specs) SwaggerProtobuf() (body []byte, etag string, err error) {
	d, err := s.protobuf()
	return d.body, d.etag, err
}

// hash returns the hash of a document's sources, which costs less than the document.
func (s *Specs) hash(gv schema.GroupVersion) string {
	h := sha512.New()
	fmt.Fprintln(h, release.Kubernetes, definitionsHash(), gv)
	for _, v := range s.versions[gv] {
		r := v.resource
		fmt.Fprintf(h, "%+v %v %v %v %v %T %s\n", r.Names, r.Verbs, r.Connects, r.Status != nil, r.Scale != nil, v.version.New(), r.Revision)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (s *Specs) makeDocument(gv schema.GroupVersion) []byte {
	defs := newLibrary()
	paths := map[string]any{}
	own := map[string]json.RawMessage{}
	for _, v := range s.versions[gv] {
		if v.custom() {
			d := v.describe(false)
			add(paths, d.paths, asAny)
			add(own, d.definitions, asIs)
			continue
		}
		for _, p := range v.paths(defs) {
			paths[p.url] = p.v3()
		}
	}
	schemas := defs.used()
	add(schemas, own, asIs)
	return mustJSON(map[string]any{
		"openapi": "3.0.0",
		"info":    map[string]any{"title": "Kubernetes", "version": release.Kubernetes},
		"paths":   paths,
		"components": map[string]any{
			"schemas": schemas,
			"securitySchemes": map[string]any{"BearerToken": map[string]any{
				"type": "apiKey", "name": "authorization", "in": "header", "description": "Bearer Token authentication",
			}},
		},
		"security": []any{map[string]any{"BearerToken": []any{}}},
	})
}

// mustJSON encodes values of this package, which cannot fail.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("openapi: " + err.Error())
	}
	return b
}

// can reports whether a resource has one of the verbs.
func (v served) can(verbs ...string) bool {
	return slices.ContainsFunc(verbs, func(verb string) bool { return slices.Contains(v.resource.Verbs, verb) })
}
