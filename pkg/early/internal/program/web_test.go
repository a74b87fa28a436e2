package program

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestWebSaysWhoItIs(t *testing.T) {
	id := identity{Pod: "web-1", Namespace: "shop", Node: "node-2", Address: "127.5.0.7", Hostname: "web-1", Image: "nginx"}
	srv := httptest.NewServer(webHandler(id))
	defer srv.Close()
	get := func(path, accept string) string {
		req, err := http.NewRequest(http.MethodGet, srv.URL+path, nil)
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
	_, body, _ := strings.Cut(get("/", "application/json"), "\r\n\r\n")
	var got identity
	if err := json.Unmarshal([]byte(body), &got); err != nil || got != id {
		t.Errorf("as JSON: got %+v (%v), want %+v", got, err, id)
	}
}
