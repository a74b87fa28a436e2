package openapi

import (
	"compress/gzip"
	"net/http"
)

// packer compresses what is answered with success.
type packer struct {
	http.ResponseWriter
	gz *gzip.Writer // nil: it is passed on as it is
}

func (p *packer) WriteHeader(code int) {
	if code == http.StatusOK && p.gz == nil {
		gz, err := gzip.NewWriterLevel(p.ResponseWriter, gzip.BestSpeed)
		if err == nil { // the level is one that there is
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
		_ = p.gz.Close() // fails only when the client has gone
	}
}
