package httpapi

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/codec"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/fair"
	"github.com/minikctl/minikctl/pkg/clock"
)

// unreadWriter is a response whose client reads nothing: a write returns when closed is closed.
type unreadWriter struct {
	*httptest.ResponseRecorder
	closed chan struct{}
}

func (w unreadWriter) Write([]byte) (int, error) {
	<-w.closed
	return 0, io.ErrClosedPipe
}

func callRequest(header ...string) (*http.Request, *call) {
	r := httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	c := &call{clock: clock.Real(), user: &user.DefaultInfo{Name: "alice"}, address: parseAddress(r.Method, r.URL)}
	return r.WithContext(withCall(context.Background(), c)), c
}

// parts yields n parts of a size, and counts those that it has made.
func parts(n, size int, made *int) codec.Pieces {
	return func(yield func([]byte, error) bool) {
		for range n {
			*made++
			if !yield(bytes.Repeat([]byte("x"), size), nil) {
				return
			}
		}
	}
}

// TestUnreadList writes a list of 20 MB to a client that reads nothing: only its beginning is encoded.
func TestUnreadList(t *testing.T) {
	for _, encoding := range []string{"", "gzip"} {
		synctest.Test(t, func(t *testing.T) {
			r, _ := callRequest("Accept-Encoding", encoding)
			w := unreadWriter{httptest.NewRecorder(), make(chan struct{})}
			made := 0
			go func() {
				if err := writePieces(w, r, codec.MediaJSON, parts(20_000, 1000, &made)); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
			// A compressor holds up to 64 KB of what it has compressed, which may be many parts that are alike.
			if most := 2 * gzipFrom / 1000; encoding == "" && made > most {
				t.Errorf("%d parts are encoded, want %d at most", made, most)
			}
			close(w.closed)
			synctest.Wait()
			if made == 20_000 {
				t.Error("the list is encoded after the client has disconnected")
			}
		})
	}
}

// TestCompressors writes more large responses at a time than there are compressors: the others are not compressed.
func TestCompressors(t *testing.T) {
	part := bytes.Repeat([]byte("x"), gzipFrom)
	var all []*bodyWriter
	for range compressors + 1 {
		r, _ := callRequest("Accept-Encoding", "gzip")
		w := httptest.NewRecorder()
		b := newBodyWriter(w, r, codec.MediaJSON, http.StatusOK)
		b.add(part)
		want := "gzip"
		if len(all) == compressors {
			want = ""
		}
		if got := w.Header().Get("Content-Encoding"); got != want {
			t.Errorf("response %d has encoding %q, want %q", len(all), got, want)
		}
		all = append(all, b)
	}
	for _, b := range all {
		b.end()
		b.release()
	}
	if n := len(compressing); n != 0 {
		t.Errorf("%d compressors are in use", n)
	}
}

// TestPieces reads lists of different sizes as a client gets them.
func TestPieces(t *testing.T) {
	for _, n := range []int{1, 40, 1000} {
		for _, encoding := range []string{"", "gzip"} {
			r, _ := callRequest("Accept-Encoding", encoding)
			w, made := httptest.NewRecorder(), 0
			if err := writePieces(w, r, codec.MediaJSON, parts(n, 1000, &made)); err != nil {
				t.Fatal(err)
			}
			zipped := w.Header().Get("Content-Encoding") == "gzip"
			if want := encoding == "gzip" && n == 1000; zipped != want {
				t.Errorf("%d parts: compressed: %v, want %v", n, zipped, want)
			}
			var body io.Reader = w.Body
			if zipped {
				gz, err := gzip.NewReader(w.Body)
				if err != nil {
					t.Fatal(err)
				}
				body = gz
			}
			if b, err := io.ReadAll(body); err != nil || len(b) != n*1000 {
				t.Errorf("%d parts: read %d bytes, %v", n, len(b), err)
			}
		}
	}
}

// TestPieceError has an error before and after a response has begun.
func TestPieceError(t *testing.T) {
	broken := errors.New("broken")
	list := func(n int) codec.Pieces {
		return func(yield func([]byte, error) bool) {
			made := 0
			for b := range parts(n, 1000, &made) {
				if !yield(b, nil) {
					return
				}
			}
			yield(nil, broken)
		}
	}
	r, _ := callRequest()
	w := httptest.NewRecorder()
	if err := writePieces(w, r, codec.MediaJSON, list(3)); !errors.Is(err, broken) || w.Body.Len() > 0 {
		t.Errorf("got error %v and %d bytes", err, w.Body.Len())
	}
	defer func() {
		if p := recover(); p != http.ErrAbortHandler {
			t.Errorf("the response ends with %v", p)
		}
	}()
	_ = writePieces(httptest.NewRecorder(), r, codec.MediaJSON, list(500))
	t.Error("the response ends as if it were whole")
}

// TestSlowClientLeavesSeat has requests whose client does not read, or does not send its body: another request gets the seat.
func TestSlowClientLeavesSeat(t *testing.T) {
	for _, body := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			limit := fair.New(fair.Config{Seats: 1, PerFlow: 1, QueueTimeout: queueTimeout, Clock: clock.Real()})
			r, c := callRequest()
			if err := limit.Enter(r.Context(), &c.seat, "", fair.Flow{Distinguisher: "alice"}, 1); err != nil {
				t.Fatal(err)
			}
			w := unreadWriter{httptest.NewRecorder(), make(chan struct{})}
			done := make(chan struct{})
			go func() {
				defer close(done)
				if body {
					reader, writer := io.Pipe()
					go func() {
						<-w.closed
						_ = writer.Close()
					}()
					r.Body = reader
					_, _ = readBody(w, r, codec.JSON)
				} else {
					writeBody(w, r, codec.MediaJSON, http.StatusOK, []byte(strings.Repeat("x", 100)))
				}
			}()
			var other fair.Seat
			if err := limit.Enter(t.Context(), &other, "", fair.Flow{Distinguisher: "bob"}, 1); err != nil {
				t.Errorf("body %v: the other request: %v", body, err)
			}
			other.Leave()
			close(w.closed)
			<-done
			c.seat.Leave()
		})
	}
}

// TestCrowd refuses requests beyond the bounds of a user and of all.
func TestCrowd(t *testing.T) {
	c := newCrowd(3, 2)
	for i, want := range []struct {
		user string
		ok   bool
	}{{"a", true}, {"a", true}, {"a", false}, {"b", true}, {"b", false}} {
		if got := c.enter(want.user); got != want.ok {
			t.Errorf("request %d: %v, want %v", i, got, want.ok)
		}
	}
	c.leave("a")
	if !c.enter("b") {
		t.Error("a request is refused although another has ended")
	}
	for _, user := range []string{"a", "b", "b"} {
		c.leave(user)
	}
	if c.count != 0 || len(c.users) != 0 {
		t.Errorf("%d requests of %v are left", c.count, c.users)
	}
}

// TestReceivedBodies has a large body while others of full size are being received: it is refused before it is held. A small one is read.
func TestReceivedBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Handler{config: Config{Clock: clock.Real()}}
		s.bodies, s.received = s.newBodies(), s.newReceived()
		for range bodiesReceived / maxBody {
			if _, err := s.received.Enter(t.Context(), "slow", maxBody); err != nil {
				t.Fatal(err)
			}
		}
		for size, want := range map[int]bool{maxBody: false, smallBody / 2: true} {
			r, _ := callRequest()
			r.ContentLength = int64(size)
			read := &countingReader{Reader: bytes.NewReader(make([]byte, size))}
			body := &limitedBody{ReadCloser: io.NopCloser(read), limit: s.bodies, received: s.received, clock: s.config.Clock}
			r.Body = body
			_, err := readBody(httptest.NewRecorder(), r, codec.JSON)
			if ok := err == nil; ok != want || read.bytes > smallBody+1 {
				t.Errorf("a body of %d bytes: error %v, %d bytes read", size, err, read.bytes)
			}
			body.leave()
		}
	})
}

type countingReader struct {
	io.Reader
	bytes int
}

func (r *countingReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.bytes += n
	return n, err
}
