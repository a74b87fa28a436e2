package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestWhyWaitsForADecision runs why against a server that has a decision only after the begin of a watch, or none.
func TestWhyWaitsForADecision(t *testing.T) {
	for _, decided := range []bool{true, false} {
		var recorded atomic.Bool
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			decision := `{"kind":"Decision","apiVersion":"minikctl.dev/v1","metadata":{"name":"7","namespace":"default"},"pod":"db","attempt":1,"outcome":"Scheduled","node":"sim-2"}`
			switch {
			case strings.HasSuffix(r.URL.Path, "/pods/db"):
				fmt.Fprint(w, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"db","namespace":"default"},"spec":{"schedulerName":"careful"}}`)
			case !strings.HasSuffix(r.URL.Path, "/namespaces/default/decisions"):
				w.WriteHeader(http.StatusNotFound)
			case r.URL.Query().Get("watch") == "":
				items := ""
				if recorded.Load() {
					items = decision
				}
				fmt.Fprintf(w, `{"kind":"DecisionList","apiVersion":"minikctl.dev/v1","metadata":{"resourceVersion":"6"},"items":[%s]}`, items)
			case r.URL.Query().Get("resourceVersion") != "6" || r.URL.Query().Get("timeoutSeconds") != "2":
				t.Errorf("the watch is %s", r.URL)
			case decided:
				recorded.Store(true)
				fmt.Fprintf(w, `{"type":"ADDED","object":%s}`, decision)
			}
		}))
		defer server.Close()
		code, out, errOut := run(t, "minikctl", "--server", server.URL, "why", "pod/db")
		if decided && (code != 0 || !strings.HasPrefix(out, "pod/db: attempt 1")) {
			t.Errorf("code %d, %s%s", code, out, errOut)
		}
		if !decided && (code != 1 || !strings.Contains(errOut, `no decision about pod "db" is recorded in namespace "default"; its scheduler is careful`)) {
			t.Errorf("without a decision: code %d, %s%s", code, out, errOut)
		}
	}
}
