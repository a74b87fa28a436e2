package health

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
)

func TestServe(t *testing.T) {
	checks := []Check{Ping, {"store", func(context.Context) error { return errors.New("secret") }}}
	server := NewServer()
	for _, c := range []struct {
		path string
		of   []Check
		code int
		body string
	}{
		{"/livez", checks[:1], 200, "ok"},
		{"/livez?verbose", checks[:1], 200, "[+]ping ok\nlivez check passed\n"},
		{"/readyz", checks, 500, "[+]ping ok\n[-]store failed: reason withheld\nreadyz check failed\n"},
		{"/readyz?verbose&exclude=store", checks, 200, "[+]ping ok\n[+]store excluded: ok\nreadyz check passed\n"},
		{"/readyz/ping", checks, 200, "ok"},
		{"/readyz/store", checks, 500, "internal server error: [-]store failed: reason withheld\n"},
		{"/readyz/other", checks, 404, "404 page not found\n"},
	} {
		w := httptest.NewRecorder()
		server.Serve(w, httptest.NewRequest("GET", c.path, nil), c.of)
		if w.Code != c.code || w.Body.String() != c.body {
			t.Errorf("%s: %d %q, want %d %q", c.path, w.Code, w.Body, c.code, c.body)
		}
	}
	w := httptest.NewRecorder()
	server.Metrics(w, httptest.NewRequest("GET", "/metrics/slis", nil))
	const want = `# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.
# TYPE kubernetes_healthcheck gauge
kubernetes_healthcheck{name="ping",type="livez"} 1
kubernetes_healthcheck{name="ping",type="readyz"} 1
kubernetes_healthcheck{name="store",type="readyz"} 0
# HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.
# TYPE kubernetes_healthchecks_total counter
kubernetes_healthchecks_total{name="ping",status="success",type="livez"} 2
kubernetes_healthchecks_total{name="ping",status="success",type="readyz"} 2
kubernetes_healthchecks_total{name="store",status="error",type="readyz"} 1
`
	if got := w.Body.String(); got != want {
		t.Errorf("got\n%s", got)
	}
}
