package program

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestWebServesFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"secret": "s", "site/index.html": "<p>home", "site/app.js": "go()", "site/a b/x.txt": "x", "site/empty/.keep": ""} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../secret", filepath.Join(dir, "site/link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "site/pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := openSite(filepath.Join(dir, "site"))
	if err != nil {
		t.Fatal(err)
	}
	url, _ := serveWeb(t, identity{site: s})
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, c := range []struct{ method, path, want string }{
		{"GET", "/", "200 text/html; charset=utf-8 <p>home"},
		{"HEAD", "/", "200 text/html; charset=utf-8 "},
		{"GET", "/app.js?v=1", "200 text/javascript; charset=utf-8 go()"},
		{"GET", "/a%20b/x.txt", "200 text/plain; charset=utf-8 x"},
		{"GET", "/a%20b", "301 text/plain; charset=utf-8 to /a%20b/"},
		{"GET", "/empty/", "404 text/plain; charset=utf-8 not found\n"},
		{"GET", "/%2e%2e/secret", "404 text/plain; charset=utf-8 not found\n"},
		{"GET", "/link", "404 text/plain; charset=utf-8 not found\n"},
		{"GET", "/pipe", "404 text/plain; charset=utf-8 not found\n"},
		{"GET", "/app.js%00", "400 text/plain; charset=utf-8 the path has an invalid % escape\n"},
		{"POST", "/", "405 text/plain; charset=utf-8 only GET and HEAD\n"},
		{"GET", "/healthz", "200 text/plain; charset=utf-8 ok\n"},
	} {
		req, err := http.NewRequest(c.method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.URL.Opaque = c.path
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		got := fmt.Sprintf("%d %s %s", resp.StatusCode, resp.Header.Get("Content-Type"), body)
		if to := resp.Header.Get("Location"); to != "" {
			got += "to " + to
		}
		if got != c.want {
			t.Errorf("%s %s: got %q, want %q", c.method, c.path, got, c.want)
		}
	}
}
