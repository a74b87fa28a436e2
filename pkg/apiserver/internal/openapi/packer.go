package openapi

import (
	"compress/gzip"
	"net/http"
)

// packer is a ResponseWriter that compresses successful responses.
type packer struct {
	http.ResponseWriter
	gz *gzip.Writer // nil: the response is not compressed
}

func (p *packer) WriteHeader(code int) {
	if code == http.StatusOK && p.gz == nil {
		gz, err := gzip.NewWriterLevel(p.ResponseWriter, gzip.BestSpeed)
		if err == nil { // the level is valid
			p.gz = gz
			p.Header().Del("Content-Length")
			p.Header().Set("Content-Encoding", "gzip")
		}
	}
	p.ResponseWriter.WriteHeader(code)
}

func (p *packer) Write(b []byte) (int, error) {
	if p.gz == nil {
		return p.ResponseWriter.Write(b)
	}
	return p.gz.Write(b)
}

func (p *packer) close() {
	if p.gz != nil {
		_ = p.gz.Close() // fails only when the client has disconnected
	}
}
