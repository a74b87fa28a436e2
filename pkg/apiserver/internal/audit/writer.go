package audit

import (
	"bufio"
	"bytes"
	"net"
	"net/http"
)

// Writer wraps w so that the entry records the status code.
func (e *Entry) Writer(w http.ResponseWriter) http.ResponseWriter {
	if !e.Enabled() {
		return w
	}
	return &writer{ResponseWriter: w, entry: e}
}

type writer struct {
	http.ResponseWriter
	entry *Entry
}

func (w *writer) WriteHeader(code int) {
	w.entry.Code(code)
	w.ResponseWriter.WriteHeader(code)
}

func (w *writer) Write(b []byte) (int, error) {
	w.entry.Code(http.StatusOK)
	return w.ResponseWriter.Write(b)
}

// Hijack implements http.Hijacker.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.entry.Code(http.StatusSwitchingProtocols)
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// Unwrap implements the contract of http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// ResponseBuffer is an http.ResponseWriter that keeps a response for the log alone.
type ResponseBuffer struct {
	bytes.Buffer
	header http.Header
}

// Header implements http.ResponseWriter.
func (a *ResponseBuffer) Header() http.Header {
	if a.header == nil {
		a.header = http.Header{}
	}
	return a.header
}

// WriteHeader implements http.ResponseWriter.
func (a *ResponseBuffer) WriteHeader(int) {}
