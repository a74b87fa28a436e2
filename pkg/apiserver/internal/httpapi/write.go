package httpapi

import (
	"compress/gzip"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/audit"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/codec"
)

// gzipFrom is the minimum size of a compressed response. Compressing less costs more time than it saves.
const gzipFrom = 128 << 10

// gzips holds compressors for reuse: they are large.
var gzips = sync.Pool{New: func() any {
	gz, err := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
	if err != nil {
		panic(err) // BestSpeed is a level
	}
	return gz
}}

// writeObject responds with an object that is not in the cache.
func writeObject(w http.ResponseWriter, r *http.Request, m codec.Media, code int, obj runtime.Object, gvk schema.GroupVersionKind) {
	if st, ok := obj.(*metav1.Status); ok {
		callOf(r).audit.Status(st)
	}
	recordResponse(r, m, func(e *audit.Entry, w http.ResponseWriter, r *http.Request, m codec.Media) error {
		writeObject(w, r, m, code, e.TrimObject(obj), gvk)
		return nil
	})
	b, err := codec.Object(obj, gvk, m)
	if err != nil {
		slog.ErrorContext(r.Context(), "encode response", "kind", gvk.Kind, "err", err)
		http.Error(w, "500 internal server error", http.StatusInternalServerError)
		return
	}
	writeBody(w, r, m.Format.String(), code, codec.Pieces{b})
}

// writeEncoded responds with the encoding of an object from the cache.
func writeEncoded(w http.ResponseWriter, r *http.Request, m codec.Media, code int, b []byte) {
	out, err := codec.Finish(b, m)
	if err != nil {
		fail(w, r, err)
		return
	}
	writeBody(w, r, m.Format.String(), code, codec.Pieces{out})
}

// writeBody writes a body, compressed if it is large and the client accepts gzip.
func writeBody(w http.ResponseWriter, r *http.Request, contentType string, code int, body codec.Pieces) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	size := body.Size()
	if size < gzipFrom || !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Length", strconv.Itoa(size))
		w.WriteHeader(code)
		writePieces(w, body)
		return
	}
	h.Set("Content-Encoding", "gzip")
	h.Add("Vary", "Accept-Encoding")
	w.WriteHeader(code)
	gz := gzips.Get().(*gzip.Writer)
	defer gzips.Put(gz)
	gz.Reset(w)
	writePieces(gz, body)
	_ = gz.Close() // fails only when the client has disconnected
}

// chunk is the size in which small pieces are written: each write is an HTTP/2 frame.
const chunk = 32 << 10

func writePieces(w io.Writer, body codec.Pieces) {
	if len(body) == 1 {
		_, _ = w.Write(body[0]) // fails only when the client has disconnected
		return
	}
	buf := make([]byte, 0, chunk)
	for _, p := range body {
		if len(buf)+len(p) > chunk {
			if _, err := w.Write(buf); err != nil {
				return
			}
			buf = buf[:0]
		}
		if len(p) > chunk {
			if _, err := w.Write(p); err != nil {
				return
			}
			continue
		}
		buf = append(buf, p...)
	}
	_, _ = w.Write(buf)
}
