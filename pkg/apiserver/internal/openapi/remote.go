package openapi

import (
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/aggregator"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Remote is the description of a version that another server serves. Parts may be missing. It must not be changed.
type Remote struct {
	schema.GroupVersion
	Link string        // the URL of its OpenAPI v3 document at that server
	V3   []byte        // the document, if that server has none and it is built here
	V2   *spec.Swagger // its part of the OpenAPI v2 document
	Hash string        // of all of it
}

// With returns the documents together with those of other servers, which replace documents of the same version. It returns the
// same Specs for the same argument.
func (s *Specs) With(remote []Remote) *Specs {
	if len(remote) == 0 {
		return s
	}
	h := sha512.New()
	for _, r := range remote {
		fmt.Fprintln(h, r.GroupVersion, r.Link, r.Hash, r.V2 != nil)
	}
	key := hex.EncodeToString(h.Sum(nil))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.with != nil && s.with.key == key {
		return s.with
	}
	out := &Specs{key: key, remote: remote, versions: maps.Clone(s.versions), order: slices.Clone(s.order), docs: map[schema.GroupVersion]document{}}
	for _, r := range remote {
		delete(out.versions, r.GroupVersion)
		out.order = slices.DeleteFunc(out.order, func(gv schema.GroupVersion) bool { return gv == r.GroupVersion })
		if r.V3 != nil {
			out.docs[r.GroupVersion] = document{r.V3, r.Hash}
		}
	}
	base := s.swagger
	if len(out.versions) < len(s.versions) {
		base = out.makeSwagger
	}
	out.index = sync.OnceValue(out.makeIndex)
	out.swagger = sync.OnceValues(func() (document, error) { return merge(base, remote) })
	out.protobuf = sync.OnceValues(out.makeProtobuf)
	s.with = out
	return out
}

// link returns the URL of a version's document.
func (r Remote) link() string {
	if r.V3 != nil {
		return fmt.Sprintf("/openapi/v3/%s?hash=%s", path(r.GroupVersion), r.Hash)
	}
	return r.Link
}

// merge adds the OpenAPI v2 documents of other servers. Different definitions of the same name are renamed.
func merge(base func() (document, error), remote []Remote) (document, error) {
	d, err := base()
	if err != nil {
		return d, err
	}
	all := &spec.Swagger{}
	if err := json.Unmarshal(d.body, all); err != nil {
		return document{}, fmt.Errorf("read the OpenAPI v2 document: %w", err)
	}
	h := sha512.New()
	fmt.Fprintln(h, d.etag)
	for _, r := range remote {
		if r.V2 == nil {
			continue
		}
		if err := r.addTo(all); err != nil {
			slog.Warn("OpenAPI document of an extension server left out", "version", r.GroupVersion.String(), "err", err)
			continue
		}
		fmt.Fprintln(h, r.GroupVersion, r.Hash)
	}
	body, err := json.Marshal(all)
	if err != nil {
		return document{}, fmt.Errorf("encode the OpenAPI v2 document: %w", err)
	}
	return document{body, hex.EncodeToString(h.Sum(nil))}, nil
}

// addTo merges the remote document into all. The document is not trusted: a panic of the library becomes an error, and all stays
// unchanged.
func (r Remote) addTo(all *spec.Swagger) (err error) {
	with := *all
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it makes no sense: %v", p)
		}
		if err == nil {
			*all = with
		}
	}()
	return aggregator.MergeSpecsIgnorePathConflictRenamingDefinitionsAndParameters(&with, r.V2)
}
