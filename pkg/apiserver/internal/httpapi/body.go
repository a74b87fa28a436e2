package httpapi

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

const (
	// gzipFrom is the minimum size of a compressed response. Compressing less costs more time than it saves.
	gzipFrom = 128 << 10
	// maxCompressors bounds how many responses are compressed at a time. Each takes most of a megabyte until its client has read it.
	maxCompressors = 32
	// chunk is the size in which small parts are written: each write is an HTTP/2 frame.
	chunk = 32 << 10
)

// gzips holds compressors for reuse, and compressing has an element for each one in use.
var (
	gzips = sync.Pool{New: func() any {
		gz, err := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
		if err != nil {
			panic(err) // BestSpeed is a level
		}
		return gz
	}}
	compressing = make(chan struct{}, min(runtime.GOMAXPROCS(0), maxCompressors)) // more would delay other requests
)

// bodyWriter writes a response whose size may not be known in advance. Until it begins it holds parts, and no copies of them: up to
// gzipFrom bytes if the client accepts gzip, else up to chunk bytes. Then it holds one chunk.
type bodyWriter struct {
	w      http.ResponseWriter
	call   *call
	code   int
	zips   bool // the client accepts gzip, and there was a compressor
	gz     *gzip.Writer
	held   [][]byte
	size   int // of held
	begun  bool
	out    io.Writer
	buf    []byte
	failed bool // the client has disconnected
}

// newBodyWriter returns the writer of a response. The caller must call release.
func newBodyWriter(w http.ResponseWriter, r *http.Request, contentType string, code int) *bodyWriter {
	w.Header().Set("Content-Type", contentType)
	return &bodyWriter{w: w, call: callOf(r), code: code, out: w, zips: zips(r)}
}

// zips reports whether compression pays for the client of a request: it accepts gzip, and runs on another machine.
func zips(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr) // not an address: the socket of the cluster
	return err == nil && !from.Addr().Unmap().IsLoopback() && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
}

// add adds a part.
func (b *bodyWriter) add(part []byte) {
	if b.begun {
		b.write(part)
		return
	}
	b.held = append(b.held, part)
	if b.size += len(part); b.size >= gzipFrom || b.size > chunk && !b.takeCompressor() {
		b.begin(false)
	}
}

// end ends the response.
func (b *bodyWriter) end() {
	if !b.begun {
		b.begin(true)
	}
	b.flush()
	if b.gz != nil {
		b.await(b.gz.Close)
	}
}

// begin writes the header, and what is held. whole reports whether that is all of the response.
func (b *bodyWriter) begin(whole bool) {
	h := b.w.Header()
	switch {
	case b.size >= gzipFrom && b.takeCompressor():
		h.Set("Content-Encoding", "gzip")
		h.Add("Vary", "Accept-Encoding")
		b.gz.Reset(b.w)
		b.out = b.gz
	case whole:
		h.Set("Content-Length", strconv.Itoa(b.size))
	}
	if b.out == b.w {
		b.release() // of the compressor
	}
	b.begun = true
	b.w.WriteHeader(b.code)
	for i, part := range b.held {
		b.held[i] = nil
		b.write(part)
	}
	b.held = nil
}

// takeCompressor sets gz if the client accepts gzip and not too many responses are compressed.
func (b *bodyWriter) takeCompressor() bool {
	if !b.zips || b.gz != nil {
		return b.zips
	}
	select {
	case compressing <- struct{}{}:
		b.gz = gzips.Get().(*gzip.Writer)
	default:
		b.zips = false
	}
	return b.zips
}

// release returns the compressor.
func (b *bodyWriter) release() {
	if b.gz == nil {
		return
	}
	b.gz.Reset(io.Discard)
	gzips.Put(b.gz)
	b.gz, b.zips = nil, false
	<-compressing
}

func (b *bodyWriter) write(part []byte) {
	if len(b.buf)+len(part) > chunk {
		b.flush()
	}
	if len(part) > chunk {
		b.send(part)
		return
	}
	if b.buf == nil {
		b.buf = make([]byte, 0, min(max(b.size, len(part)), chunk))
	}
	b.buf = append(b.buf, part...)
}

func (b *bodyWriter) flush() {
	if len(b.buf) > 0 {
		b.send(b.buf)
	}
	b.buf = b.buf[:0]
}

func (b *bodyWriter) send(part []byte) {
	b.await(func() error {
		_, err := b.out.Write(part)
		return err
	})
}

// await calls write, which waits until the client reads, unless the client has disconnected.
func (b *bodyWriter) await(write func() error) {
	if b.failed {
		return
	}
	done := b.call.awaitReader()
	err := write()
	done()
	b.failed = err != nil
}
