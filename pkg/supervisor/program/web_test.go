package program

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

func serveWeb(t *testing.T, id identity) (url string, srv *server) {
	t.Helper()
	l, err := listen(loopback, 0)
	if err != nil {
		t.Fatal(err)
	}
	srv = newServer(l, id.respond)
	ended := make(chan struct{})
	go func() {
		srv.run()
		close(ended)
	}()
	t.Cleanup(func() {
		srv.shutdown(drain)
		<-ended
	})
	return "http://" + l.address(), srv
}

// TestListening checks the lines of the log about the ports.
func TestListening(t *testing.T) {
	for _, c := range []struct {
		address string
		port    int
		want    string
	}{
		{"127.106.1.2:8080", 8080, "listening on 127.106.1.2:8080"},
		{"127.106.1.2:64592", 80, "listening on 127.106.1.2:64592, which is port 80 of the pod"},
		{"127.106.1.2:40001", 0, "listening on 127.106.1.2:40001"},
	} {
		if got := listening(c.address, c.port); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestWebShowsIdentity(t *testing.T) {
	id := identity{Pod: "web-1", Namespace: "shop", Node: "node-2", Address: "127.5.0.7", Hostname: "web-1", Image: "nginx"}
	url, _ := serveWeb(t, id)
	get := func(path, accept string) string {
		req, err := http.NewRequest(http.MethodGet, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", accept)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var b strings.Builder
		if err := resp.Write(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for _, want := range []string{"web-1", "shop", "node-2", "127.5.0.7", "nginx", "GET /a?b=c"} {
		if got := get("/a?b=c", "*/*"); !strings.Contains(got, want) {
			t.Errorf("GET /a?b=c: %q is missing in %q", want, got)
		}
	}
	if got := get("/healthz", "*/*"); !strings.Contains(got, "200 OK") || !strings.HasSuffix(got, "ok\n") {
		t.Errorf("GET /healthz: got %q", got)
	}
	if got := get("/busyz?ms=1", "*/*"); !strings.Contains(got, "200 OK") {
		t.Errorf("GET /busyz?ms=1: got %q", got)
	}
	if got := get("/busyz?ms=-1", "*/*"); !strings.Contains(got, "400 Bad Request") {
		t.Errorf("GET /busyz?ms=-1: got %q", got)
	}
	_, body, _ := strings.Cut(get("/", "application/json"), "\r\n\r\n")
	var got identity
	if err := json.Unmarshal([]byte(body), &got); err != nil || got != id {
		t.Errorf("as JSON: got %+v (%v), want %+v", got, err, id)
	}
}

func TestWebReadsRequests(t *testing.T) {
	url, _ := serveWeb(t, identity{})
	address := strings.TrimPrefix(url, "http://")
	for _, c := range []struct{ name, send, status string }{
		{"one after the other", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n", "200 200"},
		{"body is read over", "POST /healthz HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET /healthz HTTP/1.0\r\n\r\n", "200 200"},
		{"old version closes", "GET /healthz HTTP/1.0\r\n\r\nGET /healthz HTTP/1.0\r\n\r\n", "200"},
		{"chunks are not read", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "200"},
		{"too large", "POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", "413"},
		{"garbage", "hello\r\n\r\n", "400"},
		{"bad header", "GET / HTTP/1.1\r\nno colon\r\n\r\n", "400"},
		{"bad length", "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "400"},
		{"endless header", "GET / HTTP/1.1\r\nA: " + strings.Repeat("x", 2*maxHeader), "400"},
		{"nothing", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, c.send); err != nil {
				t.Fatal(err)
			}
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil && c.status == "" {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(conn) // the connection may be reset, because the server did not read the whole request
			var got []string
			for _, m := range regexp.MustCompile(`HTTP/1.1 (\d+) `).FindAllStringSubmatch(string(b), -1) {
				got = append(got, m[1])
			}
			if strings.Join(got, " ") != c.status {
				t.Errorf("got %q, want %s", b, c.status)
			}
		})
	}
}

func TestWebHeadHasNoBody(t *testing.T) {
	url, _ := serveWeb(t, identity{})
	resp, err := http.Head(url + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 || resp.ContentLength != 3 {
		t.Errorf("got %+v", resp)
	}
}

func TestWebEndsIdleConnections(t *testing.T) {
	url, srv := serveWeb(t, identity{})
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	srv.shutdown(drain)
	if _, err := io.ReadAll(conn); err != nil {
		t.Errorf("read to the end: %v", err)
	}
}

func TestWebServesConnectionsMadeBeforeShutdown(t *testing.T) {
	url, srv := serveWeb(t, identity{})
	address := strings.TrimPrefix(url, "http://")
	conns := make([]net.Conn, 20) // of which some still wait in the backlog
	for i := range conns {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns[i] = c
	}
	done := make(chan struct{})
	go func() {
		srv.shutdown(drain)
		close(done)
	}()
	<-srv.accepted
	for i, c := range conns {
		if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(c)
		if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 200 OK\r\n") || !strings.Contains(string(got), "Connection: close\r\n") {
			t.Errorf("connection %d: got %q, %v", i, got, err)
		}
	}
	<-done
}

func FuzzReadRequest(f *testing.F) {
	f.Add("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	f.Add("POST /a HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello")
	f.Fuzz(func(t *testing.T, s string) {
		r, err := readRequest(bufio.NewReader(strings.NewReader(s)))
		if err == nil && (r.method == "" || r.target == "" || r.length < 0) {
			t.Errorf("%q: got %+v", s, r)
		}
	})
}
