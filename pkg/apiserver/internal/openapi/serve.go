package openapi

import (
	"bytes"
	"net/http"
	"strings"
	"time"
)

// Each protobuf format has two media types. The older ones are not well-formed, so that clients cannot parse them.
const (
	protobufV2    = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	protobufV2Old = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
	protobufV3    = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
	protobufV3Old = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
)

// ServeHTTP serves authorized requests below /openapi.
func (s *Specs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch at := strings.Trim(r.URL.Path, "/"); {
	case at == "openapi/v3":
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(s.Index()) // fails only when the client has disconnected
	case at == "openapi/v2":
		s.serveV2(w, r)
	case strings.HasPrefix(at, "openapi/v3/"):
		s.serveV3(w, r, strings.TrimPrefix(at, "openapi/v3/"))
	default:
		http.NotFound(w, r)
	}
}

func (s *Specs) serveV3(w http.ResponseWriter, r *http.Request, at string) {
	parts := strings.Split(at, "/")
	var body []byte
	var etag string
	var ok bool
	switch {
	case len(parts) == 2 && parts[0] == "api":
		body, etag, ok = s.Document("", parts[1])
	case len(parts) == 3 && parts[0] == "apis" && parts[1] != "":
		body, etag, ok = s.Document(parts[1], parts[2])
	}
	if !ok {
		http.NotFound(w, r)
		return
	}
	accepts, media := r.Header.Get("Accept"), "application/json"
	switch {
	case acceptsAny(accepts, protobufV3, protobufV3Old):
		media = protobufV3
	case accepts != "" && !acceptsAny(accepts, media, "application/*", "*/*"):
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	if hash := r.URL.Query().Get("hash"); hash != "" {
		if hash != etag { // an earlier document: redirect to the current one
			http.Redirect(w, r, "/openapi/v3/"+at+"?hash="+etag, http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Cache-Control", "public, immutable, max-age=31536000")
	}
	if media == protobufV3 {
		var err error
		if body, err = encodeV3(body); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	write(w, r, media, etag, body)
}

func (s *Specs) serveV2(w http.ResponseWriter, r *http.Request) {
	accepts := r.Header.Get("Accept")
	var body []byte
	var etag, media string
	var err error
	switch {
	case acceptsAny(accepts, protobufV2, protobufV2Old):
		media = protobufV2
		body, etag, err = s.SwaggerProtobuf()
	case accepts == "" || acceptsAny(accepts, "application/json", "application/*", "*/*"):
		media = "application/json"
		body, etag, err = s.Swagger()
	default:
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Add("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		packed := &packer{ResponseWriter: w}
		defer packed.close()
		w = packed
	}
	write(w, r, media, etag, body)
}

func write(w http.ResponseWriter, r *http.Request, media, etag string, body []byte) {
	w.Header().Set("Content-Type", media)
	w.Header().Set("ETag", `"`+etag+`"`)
	w.Header().Add("Vary", "Accept")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

// acceptsAny reports whether an Accept header contains one of the types.
func acceptsAny(header string, types ...string) bool {
	for _, part := range strings.Split(header, ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(part), ";")
		for _, t := range types {
			if strings.EqualFold(strings.TrimSpace(name), t) {
				return true
			}
		}
	}
	return false
}
