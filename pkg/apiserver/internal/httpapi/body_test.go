package httpapi

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/codec"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/fair"
	"github.com/minikctl/minikctl/pkg/clock"
)

// unreadWriter is a response whose client reads nothing: a write beyond room bytes returns when closed is closed.
type unreadWriter struct {
	*httptest.ResponseRecorder
	room   int
	closed chan struct{}
}

func (w *unreadWriter) Write(b []byte) (int, error) {
	if w.room -= len(b); w.room < 0 {
		<-w.closed
		return 0, io.ErrClosedPipe
	}
	return len(b), nil
}

func newUnreadWriter(room int) *unreadWriter {
	return &unreadWriter{httptest.NewRecorder(), room, make(chan struct{})}
}

func callRequest(header ...string) (*http.Request, *call) {
	r := httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	c := &call{clock: clock.Real(), user: &user.DefaultInfo{Name: "alice"}, address: parseAddress(r.Method, r.URL)}
	return r.WithContext(withCall(context.Background(), c)), c
}

// parts yields n parts of a size, which can't be compressed, and counts those that it has made.
func parts(n, size int, made *int) codec.Pieces {
	return func(yield func([]byte, error) bool) {
		random := rand.NewChaCha8([32]byte{})
		for range n {
			*made++
			part := make([]byte, size)
			_, _ = random.Read(part) // never fails
			if !yield(part, nil) {
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
			w := newUnreadWriter(0)
			made := 0
			go func() {
				if err := writePieces(w, r, codec.MediaJSON, parts(20_000, 1000, &made)); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
			if most := 2 * gzipFrom / 1000; made > most {
				t.Errorf("encoding %q: %d parts are encoded, want %d at most", encoding, made, most)
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
	for range cap(compressing) + 1 {
		r, _ := callRequest("Accept-Encoding", "gzip")
		w := httptest.NewRecorder()
		b := newBodyWriter(w, r, codec.MediaJSON, http.StatusOK)
		b.add(part)
		want := "gzip"
		if len(all) == cap(compressing) {
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

// TestNearClient sends a large response to a client of this machine, which accepts gzip.
func TestNearClient(t *testing.T) {
	for _, from := range []string{"127.0.0.1:5", "127.200.1.7:5", "[::1]:5", "[::ffff:127.0.0.1]:5", "@", ""} {
		r, _ := callRequest("Accept-Encoding", "gzip")
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		b := newBodyWriter(w, r, codec.MediaJSON, http.StatusOK)
		b.add(make([]byte, gzipFrom))
		b.end()
		b.release()
		if got := w.Header().Get("Content-Encoding"); got != "" || w.Body.Len() != gzipFrom {
			t.Errorf("from %q: %d bytes in encoding %q", from, w.Body.Len(), got)
		}
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

// TestSlowClientLeavesSeat has requests whose client does not read, or does not send its body, or whose body waits to be admitted:
// another request gets the seat.
func TestSlowClientLeavesSeat(t *testing.T) {
	large := bytes.Repeat([]byte("x"), gzipFrom)
	respond := func(w http.ResponseWriter, r *http.Request, body []byte) {
		r.Header.Set("Accept-Encoding", "gzip")
		writeBody(w, r, codec.MediaJSON, http.StatusOK, body)
	}
	compressed := httptest.NewRecorder()
	r, _ := callRequest()
	respond(compressed, r, large)
	for name, slow := range map[string]struct {
		room int
		do   func(w *unreadWriter, r *http.Request)
	}{
		"response": {0, func(w *unreadWriter, r *http.Request) { respond(w, r, []byte("x")) }},
		// The end of the response is what the compressor writes when it is closed.
		"compressed response": {compressed.Body.Len() - 1, func(w *unreadWriter, r *http.Request) { respond(w, r, large) }},
		"body": {0, func(w *unreadWriter, r *http.Request) {
			reader, writer := io.Pipe()
			go func() {
				<-w.closed
				_ = writer.Close()
			}()
			r.Body = reader
			_, _ = readBody(w, r, codec.JSON)
		}},
		"admission": {0, func(w *unreadWriter, r *http.Request) {
			s := &Handler{machine: clock.Real()}
			s.bodies, s.received = s.newBodies(), s.newReceived()
			leave, err := s.bodies.Enter(r.Context(), "bob", bodiesInWork)
			if err != nil {
				t.Error(err)
				return
			}
			go func() {
				<-w.closed
				leave()
			}()
			body := &limitedBody{ReadCloser: io.NopCloser(bytes.NewReader(large)), limit: s.bodies, received: s.received, clock: s.machine}
			defer body.leave()
			r.Body = body
			if b, err := readBody(w, r, codec.JSON); err != nil || len(b) != len(large) {
				t.Errorf("admission: %d bytes, %v", len(b), err)
			}
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			limit := fair.New(fair.Config{Seats: 1, PerFlow: 1, QueueTimeout: queueTimeout, Clock: clock.Real()})
			r, c := callRequest()
			if err := limit.Enter(r.Context(), &c.seat, "", fair.Flow{Distinguisher: "alice"}, 1); err != nil {
				t.Fatal(err)
			}
			w := newUnreadWriter(slow.room)
			done := make(chan struct{})
			go func() {
				defer close(done)
				slow.do(w, r)
			}()
			var other fair.Seat
			if err := limit.Enter(t.Context(), &other, "", fair.Flow{Distinguisher: "bob"}, 1); err != nil {
				t.Errorf("%s: the other request: %v", name, err)
			}
			other.Leave()
			close(w.closed)
			<-done
			c.seat.Leave()
		})
	}
}

// TestContentLength writes objects that are not compressed: their length is known, whatever it is.
func TestContentLength(t *testing.T) {
	for _, size := range []int{0, 100, chunk + 1, 2 * gzipFrom} {
		r, _ := callRequest()
		w := httptest.NewRecorder()
		writeBody(w, r, codec.MediaJSON, http.StatusOK, make([]byte, size), newline)
		if got, want := w.Header().Get("Content-Length"), strconv.Itoa(size+1); got != want || w.Body.Len() != size+1 {
			t.Errorf("Content-Length is %q of %d bytes, want %s", got, w.Body.Len(), want)
		}
	}
}

// TestCrowd refuses requests beyond the bounds of a user and of all.
func TestCrowd(t *testing.T) {
	c := newInflightLimit(3, 2)
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
		s := &Handler{machine: clock.Real()}
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
			body := &limitedBody{ReadCloser: io.NopCloser(read), limit: s.bodies, received: s.received, clock: s.machine}
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

// cutReader is a body that arrives at a rate until its request's reads are cut.
type cutReader struct {
	*httptest.ResponseRecorder
	rate    int // bytes a second
	left    int // bytes, of which some have arrived
	arrived int
	cut     chan struct{}
}

func (r *cutReader) SetReadDeadline(time.Time) error {
	close(r.cut)
	return nil
}

func (r *cutReader) Read(b []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	if r.arrived == 0 {
		select {
		case <-r.cut:
			return 0, os.ErrDeadlineExceeded
		case <-time.After(time.Second):
			r.arrived = r.rate
		}
	}
	n := min(len(b), r.arrived, r.left)
	r.left, r.arrived = r.left-n, r.arrived-n
	return n, nil
}

// TestSlowBody receives bodies at different rates: those that arrive more slowly than receiveRate are refused.
func TestSlowBody(t *testing.T) {
	for rate, want := range map[int]time.Duration{
		0: receiveTime, 1: receiveTime, receiveRate / 2: 2 * receiveTime, 4 * receiveRate: 0,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &Handler{machine: clock.Real()}
			s.bodies, s.received = s.newBodies(), s.newReceived()
			r, _ := callRequest()
			w := &cutReader{ResponseRecorder: httptest.NewRecorder(), rate: rate, left: maxBody - smallBody, cut: make(chan struct{})}
			begin := bytes.NewReader(make([]byte, smallBody))
			body := &limitedBody{ReadCloser: io.NopCloser(io.MultiReader(begin, w)), limit: s.bodies, received: s.received, clock: s.machine}
			r.Body = body
			began := time.Now()
			b, err := readBody(w, r, codec.JSON)
			took := time.Since(began)
			body.leave()
			switch {
			case want == 0 && (err != nil || len(b) != maxBody):
				t.Errorf("%d bytes a second: %v after %v", rate, err, took)
			case want > 0 && (!apierrors.IsTimeout(err) || (took-want).Abs() > 2*time.Second):
				t.Errorf("%d bytes a second: %v after %v, want a timeout after %v", rate, err, took, want)
			}
		})
	}
}
