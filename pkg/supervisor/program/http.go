package program

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// This is the part of HTTP/1.1 that web needs. Package net/http would initialise before the dispatch of container processes
// (see package early), which takes ten times as long as the whole start of a container.

const (
	plainText = "text/plain; charset=utf-8"
	jsonType  = "application/json"

	maxHeader = 32 << 10
	maxBody   = 1 << 20 // of a request; the body is read and dropped
	headTime  = 5 * time.Second
	idleTime  = time.Minute
)

type request struct {
	method, target, version string
	accept, remote          string
	length                  int64
	last                    bool // the connection ends after it
}

func (r *request) path() string {
	path, _, _ := strings.Cut(r.target, "?")
	return path
}

type response struct {
	code int // 0: 200
	kind string
	body string
	to   string   // the Location of a redirect
	file *os.File // the body instead, which write closes
	size int64    // of the file
}

var reasons = map[int]string{
	200: "OK", 301: "Moved Permanently", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 413: "Content Too Large", 500: "Internal Server Error",
}

// server serves the requests of a listener's connections.
type server struct {
	listener *listener
	respond  func(*request) response
	accepted chan struct{} // closed when run has returned

	mu    sync.Mutex
	ended bool
	conns map[*os.File]connState
	open  sync.WaitGroup // as many as conns
}

// connState is what a connection does.
type connState int

const (
	awaitsFirst connState = iota
	inRequest
	awaitsNext
)

func newServer(l *listener, respond func(*request) response) *server {
	return &server{listener: l, respond: respond, accepted: make(chan struct{}), conns: map[*os.File]connState{}}
}

// run accepts connections until shutdown.
func (s *server) run() {
	defer close(s.accepted)
	for {
		c, remote, err := s.listener.accept()
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			time.Sleep(10 * time.Millisecond) // no descriptors are free
			continue
		}
		s.enter(c, remote)
	}
}

func (s *server) enter(c *os.File, remote string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = awaitsFirst
	s.open.Add(1)
	go s.serve(c, remote)
}

// shutdown serves the requests in progress and the first request of each connection that a client has already made, which may still
// wait in the listener's backlog. It closes those that wait for another request, and returns when all have ended, at most after d. Run
// must have been called.
func (s *server) shutdown(d time.Duration) {
	s.closeIdle()
	for {
		c, remote, err := s.listener.acceptWaiting()
		if err != nil {
			break
		}
		s.enter(c, remote)
	}
	s.listener.close()
	<-s.accepted
	done := make(chan struct{})
	go func() {
		s.open.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(d):
	}
}

// closeIdle makes each connection end after the request in progress, or after its first one.
func (s *server) closeIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for c, state := range s.conns {
		if state == awaitsNext {
			c.Close()
		}
	}
}

// await makes a connection wait for a request. It returns false if none may come: the server has ended, and it had one.
func (s *server) await(c *os.File, state connState) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := headTime
	if state == awaitsNext {
		if s.ended {
			return false
		}
		wait = idleTime
	}
	s.conns[c] = state
	_ = c.SetReadDeadline(time.Now().Add(wait))
	return true
}

// begin records that a connection has a request, and returns whether it is the connection's last one.
func (s *server) begin(c *os.File) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = inRequest
	_ = c.SetReadDeadline(time.Now().Add(headTime))
	return s.ended
}

func (s *server) serve(c *os.File, remote string) {
	defer s.open.Done()
	defer func() {
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		c.Close()
	}()
	limited := &io.LimitedReader{R: c}
	in := bufio.NewReader(limited)
	for state := awaitsFirst; s.await(c, state); state = awaitsNext {
		limited.N = maxHeader
		if _, err := in.Peek(1); err != nil {
			return
		}
		last := s.begin(c)
		r, err := readRequest(in)
		if err != nil {
			_ = write(c, &request{last: true}, response{code: 400, kind: plainText, body: err.Error() + "\n"})
			return
		}
		r.remote, r.last = remote, r.last || last
		if err := s.reply(c, in, limited, r); err != nil || r.last {
			return
		}
	}
}

// reply responds to one request and skips its body.
func (s *server) reply(c *os.File, in *bufio.Reader, limited *io.LimitedReader, r *request) error {
	a := s.respond(r)
	if r.length > maxBody {
		r.last = true
		a.close()
		a = response{code: 413, kind: plainText, body: "too large\n"}
	}
	if err := write(c, r, a); err != nil {
		return err
	}
	fmt.Printf("%s %s %s %d\n", r.remote, r.method, r.target, max(a.code, 200))
	if r.last {
		return nil
	}
	limited.N = maxBody
	_, err := io.CopyN(io.Discard, in, r.length)
	return err
}

func (a *response) close() {
	if a.file != nil {
		a.file.Close()
	}
}

func write(c *os.File, r *request, a response) error {
	defer a.close()
	if a.code == 0 {
		a.code = 200
	}
	if a.file == nil {
		a.size = int64(len(a.body))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nDate: %s\r\n", a.code, reasons[a.code], a.kind,
		a.size, time.Now().UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT"))
	if a.to != "" {
		fmt.Fprintf(&b, "Location: %s\r\n", a.to)
	}
	if r.last {
		b.WriteString("Connection: close\r\n")
	}
	b.WriteString("\r\n")
	if r.method != "HEAD" {
		b.WriteString(a.body)
	}
	_ = c.SetWriteDeadline(time.Now().Add(headTime))
	if _, err := c.WriteString(b.String()); err != nil || a.file == nil || r.method == "HEAD" {
		return err
	}
	_ = c.SetWriteDeadline(time.Now().Add(idleTime))
	_, err := io.CopyN(c, a.file, a.size)
	return err
}

var errRequest = errors.New("not an HTTP/1 request")

// readRequest reads the head of a request.
func readRequest(in *bufio.Reader) (*request, error) {
	line, err := readLine(in)
	if err != nil {
		return nil, err
	}
	words := strings.Split(line, " ")
	if len(words) != 3 || words[0] == "" || words[1] == "" || !strings.HasPrefix(words[2], "HTTP/1.") {
		return nil, errRequest
	}
	r := &request{method: words[0], target: words[1], version: words[2]}
	r.last = r.version == "HTTP/1.0"
	for {
		line, err := readLine(in)
		if err != nil {
			return nil, err
		}
		if line == "" {
			return r, nil
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" || strings.ContainsAny(name, " \t") {
			return nil, errRequest
		}
		if err := r.header(strings.ToLower(name), strings.TrimSpace(value)); err != nil {
			return nil, err
		}
	}
}

func readLine(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"), nil
}

// header interprets one header field.
func (r *request) header(name, value string) error {
	switch name {
	case "accept":
		r.accept = value
	case "connection":
		r.last = r.last || strings.EqualFold(value, "close")
	case "transfer-encoding", "expect", "upgrade":
		r.last = true // the body is not read, so the connection must end with the response
	case "content-length":
		n, err := strconv.ParseUint(value, 10, 62)
		if err != nil {
			return errRequest
		}
		r.length = int64(n)
	}
	return nil
}
