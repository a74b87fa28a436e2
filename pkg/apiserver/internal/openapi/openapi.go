// Package openapi owns the description of the API that clients read: the OpenAPI v3 document of each group and version,
// and the v2 document that older clients read. The paths are made of the resource table; the definitions of
// Kubernetes' own types are made by go generate and embedded, compressed, a file per Go package of types. Nothing of it
// is unpacked before it is first asked for.
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
)

//go:generate go run ./gen

// release is the version of the described API, as the server tells it elsewhere.
const release = "v1.36.3"

// Specs are the descriptions of a set of resources. It is safe for concurrent use. Resources that come later need new
// Specs.
type Specs struct {
	versions map[schema.GroupVersion][]served // what each group and version serves, in the order of the table
	order    []schema.GroupVersion

	index    func() []byte
	swagger  func() (document, error)
	protobuf func() (document, error)

	mu   sync.Mutex
	docs map[schema.GroupVersion]document
	with *Specs // made last by With

	remote []Remote // what other servers describe
	key    string   // of these
}

// served is a resource in one of its versions.
type served struct {
	resource *objects.Resource
	version  *objects.Served
}

// document is a description, and a hash of what it was made of.
type document struct {
	body []byte
	etag string
}

// New returns the descriptions of resources. It makes nothing yet.
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

// path returns where a group and version is served: "api/v1", "apis/apps/v1".
func path(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "api/" + gv.Version
	}
	return "apis/" + gv.Group + "/" + gv.Version
}

// Index returns the JSON of /openapi/v3: where the documents are. The addresses hold a hash, so that clients can keep a
// document for good.
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

// Document returns the OpenAPI v3 document of a group and version as JSON, and a hash that changes with it. ok is false
// when they are not served.
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

// Swagger returns the OpenAPI v2 document of everything as JSON, and a hash.
func (s *Specs) Swagger() (body []byte, etag string, err error) {
	d, err := s.swagger()
	return d.body, d.etag, err
}

// SwaggerProtobuf returns the OpenAPI v2 document in the form that client-go reads, and a hash.
func (s *Specs) SwaggerProtobuf() (body []byte, etag string, err error) {
	d, err := s.protobuf()
	return d.body, d.etag, err
}

// hash is that of what a document is made of, which costs less than making it.
func (s *Specs) hash(gv schema.GroupVersion) string {
	h := sha512.New()
	fmt.Fprintln(h, release, definitionsHash(), gv)
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
		"info":    map[string]any{"title": "Kubernetes", "version": release},
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

// mustJSON encodes what this package has made, which can't fail.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("openapi: " + err.Error())
	}
	return b
}

// can says whether a resource has any of the verbs.
func (v served) can(verbs ...string) bool {
	return slices.ContainsFunc(verbs, func(verb string) bool { return slices.Contains(v.resource.Verbs, verb) })
}
