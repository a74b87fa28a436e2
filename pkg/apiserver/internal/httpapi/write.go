package httpapi

import (
	"log/slog"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/audit"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/codec"
)

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
	writeBody(w, r, m.Format.String(), code, b)
}

// writeEncoded responds with the encoding of an object from the cache.
func writeEncoded(w http.ResponseWriter, r *http.Request, m codec.Media, code int, b []byte) {
	if m.Format == codec.JSON && !m.Pretty {
		writeBody(w, r, m.Format.String(), code, b, newline)
		return
	}
	out, err := codec.Finish(b, m)
	if err != nil {
		fail(w, r, err)
		return
	}
	writeBody(w, r, m.Format.String(), code, out)
}

var newline = []byte("\n")

// writeBody responds with all parts of a body, which it may set to nil.
func writeBody(w http.ResponseWriter, r *http.Request, contentType string, code int, parts ...[]byte) {
	out := newBodyWriter(w, r, contentType, code)
	defer out.release()
	for _, b := range parts {
		out.size += len(b)
	}
	out.held = parts
	out.end()
}

// writePieces responds with a body that is encoded while it is written. It returns an error before it has begun to respond. A later
// one ends the connection, since otherwise the client takes the part for the whole.
func writePieces(w http.ResponseWriter, r *http.Request, contentType string, pieces codec.Pieces) error {
	out := newBodyWriter(w, r, contentType, http.StatusOK)
	defer out.release()
	for b, err := range pieces {
		if err != nil && !out.begun {
			return err
		}
		if err != nil {
			slog.ErrorContext(r.Context(), "encode response", "path", r.URL.Path, "err", err)
			panic(http.ErrAbortHandler)
		}
		if out.add(b); out.failed {
			return nil // the client has disconnected
		}
	}
	out.end()
	return nil
}
