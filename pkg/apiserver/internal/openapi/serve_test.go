package openapi

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http/httptest"
	"testing"

	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"

	"github.com/minikctl/minikctl/pkg/objects"
)

func get(t *testing.T, s *Specs, path string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest("GET", path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// TestBinaryV3: the protobuf form of each document has the same content as its JSON form.
func TestBinaryV3(t *testing.T) {
	s := New(objects.Each(resources(t)))
	for _, gv := range s.order {
		w := get(t, s, "/openapi/v3/"+path(gv), "Accept", protobufV3Old)
		if w.Code != 200 || w.Header().Get("Content-Type") != protobufV3 {
			t.Fatalf("%s: %d %v", gv, w.Code, w.Header())
		}
		var doc openapi_v3.Document
		if err := proto.Unmarshal(w.Body.Bytes(), &doc); err != nil {
			t.Fatalf("%s: %v", gv, err)
		}
		var plain struct {
			Paths      map[string]any
			Components struct{ Schemas map[string]any }
		}
		if err := json.Unmarshal(get(t, s, "/openapi/v3/"+path(gv)).Body.Bytes(), &plain); err != nil {
			t.Fatal(err)
		}
		paths, schemas := len(doc.GetPaths().GetPath()), len(doc.GetComponents().GetSchemas().GetAdditionalProperties())
		if paths != len(plain.Paths) || schemas != len(plain.Components.Schemas) {
			t.Errorf("%s: %d paths and %d schemas, want %d and %d", gv, paths, schemas, len(plain.Paths), len(plain.Components.Schemas))
		}
	}
}

// TestPackedSwagger: the largest document is compressed for clients that accept it; a response without a body is not.
func TestPackedSwagger(t *testing.T) {
	s := New(objects.Each(resources(t)))
	plain := get(t, s, "/openapi/v2")
	if plain.Header().Get("Content-Encoding") != "" {
		t.Errorf("unexpected headers: %v", plain.Header())
	}
	packed := get(t, s, "/openapi/v2", "Accept-Encoding", "gzip")
	if packed.Header().Get("Content-Encoding") != "gzip" || packed.Header().Get("Content-Length") != "" {
		t.Errorf("the headers are %v", packed.Header())
	}
	gz, err := gzip.NewReader(packed.Body)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(gz); err != nil || !bytes.Equal(body, plain.Body.Bytes()) {
		t.Errorf("%v: %d bytes, want %d", err, len(body), plain.Body.Len())
	}
	known := get(t, s, "/openapi/v2", "Accept-Encoding", "gzip", "If-None-Match", plain.Header().Get("ETag"))
	if known.Code != 304 || known.Body.Len() > 0 || known.Header().Get("Content-Encoding") != "" {
		t.Errorf("%d with %d bytes, %v", known.Code, known.Body.Len(), known.Header())
	}
}
