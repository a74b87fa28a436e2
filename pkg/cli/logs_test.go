package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestLogsOfEndedPod checks that logs prints the log of another pod when the chosen one is gone, and does not try for ever.
func TestLogsOfEndedPod(t *testing.T) {
	for _, c := range []struct {
		gone int // pods that are gone when their log is requested
		code int
		out  string
		err  string
	}{
		{1, 0, "log of pod-1", ""},
		{100, 1, "", `pods "pod-4" not found`},
	} {
		lists := -1
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			name := fmt.Sprintf("pod-%d", lists)
			switch r.URL.Path {
			case "/api":
				fmt.Fprint(w, `{"kind":"APIVersions","versions":["v1"]}`)
			case "/apis":
				fmt.Fprint(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
			case "/api/v1":
				fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[
					{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get","list"]},
					{"name":"services","singularName":"service","namespaced":true,"kind":"Service","verbs":["get","list"]}]}`)
			case "/api/v1/namespaces/default/services/web":
				fmt.Fprint(w, `{"kind":"Service","apiVersion":"v1","metadata":{"name":"web","namespace":"default"},"spec":{"selector":{"app":"web"}}}`)
			case "/api/v1/namespaces/default/pods":
				lists++
				fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"pod-%d","namespace":"default"},"spec":{"containers":[{"name":"c"}]}},
					{"metadata":{"name":"zz","namespace":"default"},"spec":{"containers":[{"name":"c"}]}}]}`, lists)
			case "/api/v1/namespaces/default/pods/" + name + "/log":
				if lists >= c.gone {
					fmt.Fprintf(w, "log of %s", name)
					return
				}
				w.WriteHeader(http.StatusNotFound)
				fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","message":"pods \"%s\" not found","code":404}`, name)
			default:
				w.WriteHeader(http.StatusNotFound)
			}
		}))
		code, out, errOut := run(t, "minikctl", "--cache-dir", t.TempDir(), "--server", server.URL, "logs", "service/web")
		server.Close()
		if code != c.code || out != c.out || !strings.Contains(errOut, c.err) {
			t.Errorf("%d gone: got %d, %q, %s", c.gone, code, out, errOut)
		}
	}
}
