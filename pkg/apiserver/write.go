package apiserver

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

// gzipFrom is how large an answer must be to be compressed: below it, time costs more than bytes.
const gzipFrom = 128 << 10

// gzips keeps the compressors, which are large.
var gzips = sync.Pool{New: func() any {
	gz, err := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
	if err != nil {
		panic(err) // BestSpeed is a level
	}
	return gz
}}

// writeObject answers with an object that is no stored resource.
func writeObject(w http.ResponseWriter, r *http.Request, m codec.Media, code int, obj runtime.Object, gvk schema.GroupVersionKind) {
	if st, ok := obj.(*metav1.Status); ok {
		callOf(r).audit.Status(st)
	}
	audited(r, m, func(e *audit.Entry, w http.ResponseWriter, r *http.Request, m codec.Media) error {
		writeObject(w, r, m, code, e.TrimObject(obj), gvk)
		return nil
	})
	b, err := codec.Object(obj, gvk, m)
	if err != nil {
		slog.ErrorContext(r.Context(), "encode answer", "kind", gvk.Kind, "err", err)
		http.Error(w, "500 internal server error", http.StatusInternalServerError)
		return
	}
	writeBody(w, r, m.Format.String(), code, codec.Pieces{b})
}

// writeEncoded answers with an object's bytes as the cache keeps them.
func writeEncoded(w http.ResponseWriter, r *http.Request, m codec.Media, code int, b []byte) {
	out, err := codec.Finish(b, m)
	if err != nil {
		fail(w, r, err)
		return
	}
	writeBody(w, r, m.Format.String(), code, codec.Pieces{out})
}

// writeBody sends a body, compressed if it is large and the client can read that.
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
	_ = gz.Close() // fails only when the client has gone
}

// chunk is how much is gathered before it is written: small pieces would each become a frame.
const chunk = 32 << 10

func writePieces(w io.Writer, body codec.Pieces) {
	if len(body) == 1 {
		_, _ = w.Write(body[0]) // fails only when the client has gone
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
