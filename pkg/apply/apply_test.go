package apply

import (
	"net/http"
	"strings"
	"testing"
)

const (
	manifestC = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"default"},"data":{"a":"2"}}`
	storedC   = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"default","resourceVersion":"5","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"}},"data":{"a":"1"}}`
)

func version(stored, v string) string {
	return strings.Replace(stored, `"resourceVersion":"5"`, `"resourceVersion":"`+v+`"`, 1)
}

func TestApply(t *testing.T) {
	ok := func(body string) []response { return []response{{body: body}} }
	notFound := failure(404, "NotFound")
	for _, c := range []struct {
		name      string
		applier   Applier
		manifest  string // "": manifestC
		responses map[string][]response
		want      Outcome
		err       string
		requests  string
		warn      string
	}{
		{name: "a missing object is created", responses: map[string][]response{http.MethodGet: {notFound}, http.MethodPost: ok(storedC)},
			want: Created, requests: "GET POST"},
		{name: "an object that differs is patched", responses: map[string][]response{http.MethodGet: ok(storedC), http.MethodPatch: ok(version(storedC, "6"))},
			want: Configured, requests: "GET PATCH"},
		{name: "a patch that changes nothing", responses: map[string][]response{http.MethodGet: ok(storedC), http.MethodPatch: ok(storedC)},
			want: Unchanged, requests: "GET PATCH"},
		{name: "a conflict is retried with the current object", want: Configured, requests: "GET PATCH GET PATCH",
			responses: map[string][]response{http.MethodGet: ok(storedC), http.MethodPatch: {failure(409, "Conflict"), {body: version(storedC, "7")}}}},
		{name: "conflicts without end", err: "Conflict!", requests: "GET PATCH" + strings.Repeat(" GET PATCH", conflictRetries),
			responses: map[string][]response{http.MethodGet: ok(storedC), http.MethodPatch: {failure(409, "Conflict")}}},
		{name: "a refusal is not tried again", err: "Invalid!", requests: "GET PATCH",
			responses: map[string][]response{http.MethodGet: ok(storedC), http.MethodPatch: {failure(422, "Invalid")}}},
		{name: "force replaces what cannot be patched", applier: Applier{Force: true}, want: Configured, requests: "GET PATCH DELETE GET POST",
			responses: map[string][]response{http.MethodGet: {{body: storedC}, notFound}, http.MethodPatch: {failure(422, "Invalid")},
				http.MethodDelete: ok(`{"kind":"Status","apiVersion":"v1","status":"Success"}`), http.MethodPost: ok(version(storedC, "9"))}},
		{name: "pretending creates nothing", applier: Applier{Pretend: true}, want: Created, requests: "GET",
			responses: map[string][]response{http.MethodGet: {notFound}}},
		{name: "pretending changes nothing", applier: Applier{Pretend: true}, want: Configured, requests: "GET",
			responses: map[string][]response{http.MethodGet: ok(storedC)}},
		{name: "an object without last-applied annotation", want: Configured, requests: "GET PATCH",
			warn:      "resource configmaps/c is missing the kubectl.kubernetes.io/last-applied-configuration annotation which is required by",
			responses: map[string][]response{http.MethodGet: ok(strings.Replace(storedC, "last-applied", "x", 1)), http.MethodPatch: ok(version(storedC, "6"))}},
		{name: "an object that is being deleted", want: Configured, requests: "GET PATCH", warn: "Detected changes to resource c which is currently being deleted.",
			responses: map[string][]response{http.MethodGet: ok(strings.Replace(storedC, `"resourceVersion"`, `"deletionTimestamp":"2026-01-01T00:00:00Z","resourceVersion"`, 1)),
				http.MethodPatch: ok(version(storedC, "6"))}},
		{name: "a name that the server would choose", manifest: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"c-"}}`,
			err: "from c-: cannot use generate name with apply"},
		{name: "no access", responses: map[string][]response{http.MethodGet: {failure(403, "Forbidden")}}, err: "Forbidden!", requests: "GET"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newServer(t, c.responses)
			var warned []string
			c.applier.Overwrite = true
			c.applier.Warn = func(text string) { warned = append(warned, text) }
			if c.manifest == "" {
				c.manifest = manifestC
			}
			info := s.info(t, c.manifest)
			got, err := c.applier.Apply(info)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Fatalf("got error %v, want %q", err, c.err)
			}
			if got != c.want && err == nil {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if s.got() != c.requests {
				t.Errorf("requests:\n got %s\nwant %s", s.got(), c.requests)
			}
			if w := strings.Join(warned, "\n"); c.warn == "" && w != "" || !strings.Contains(w, c.warn) {
				t.Errorf("warnings: got %q, want %q", w, c.warn)
			}
		})
	}
}
