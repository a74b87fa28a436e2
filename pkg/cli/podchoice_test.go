package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

// TestChosenPod checks which pod of a workload the verbs choose whose ready pods are being deleted.
func TestChosenPod(t *testing.T) {
	cmdutil.BehaviorOnFatal(func(string, int) {}) // kubectl's verbs would end the process
	t.Cleanup(cmdutil.DefaultBehaviorOnFatal)
	pod := func(name, phase, ready, deleted string) string {
		if deleted != "" {
			deleted = `"deletionTimestamp":"` + deleted + `",`
		}
		return fmt.Sprintf(`{"metadata":{%s"name":%q,"namespace":"default"},"spec":{"nodeName":"n","containers":[{"name":"c"}]},
			"status":{"phase":%q,"conditions":[{"type":"Ready","status":%q,"lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`, deleted, name, phase, ready)
	}
	const deleted = "2026-01-02T03:04:05Z"
	for _, c := range []struct {
		name string
		pods []string
		want string
	}{
		{"one runs", []string{pod("ends", "Running", "True", deleted), pod("creating", "Pending", "False", ""), pod("runs", "Running", "False", "")}, "runs"},
		{"two run", []string{pod("ends", "Running", "True", deleted), pod("starts", "Running", "False", ""), pod("ready", "Running", "True", "")}, "ready"},
		{"none runs but one that ends", []string{pod("creating", "Pending", "False", ""), pod("ends", "Running", "True", deleted)}, "ends"},
	} {
		var mu sync.Mutex
		var asked []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			name, verb := path.Base(path.Dir(r.URL.Path)), path.Base(r.URL.Path)
			switch {
			case r.URL.Path == "/api":
				fmt.Fprint(w, `{"kind":"APIVersions","versions":["v1"]}`)
			case r.URL.Path == "/apis":
				fmt.Fprint(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
			case r.URL.Path == "/api/v1":
				fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[
					{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get","list"]},
					{"name":"services","singularName":"service","namespaced":true,"kind":"Service","verbs":["get","list"]}]}`)
			case verb == "web":
				fmt.Fprint(w, `{"kind":"Service","apiVersion":"v1","metadata":{"name":"web","namespace":"default"},"spec":{"selector":{"app":"web"},"ports":[{"port":80,"targetPort":8080}]}}`)
			case verb == "pods":
				fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","items":[%s]}`, strings.Join(c.pods, ","))
			case name == "pods":
				i := slices.IndexFunc(c.pods, func(pod string) bool { return strings.Contains(pod, `"name":"`+verb+`"`) })
				fmt.Fprint(w, `{"kind":"Pod","apiVersion":"v1",`+strings.TrimPrefix(c.pods[i], "{"))
			default:
				mu.Lock()
				asked = append(asked, name)
				mu.Unlock()
				w.WriteHeader(http.StatusForbidden)
			}
		}))
		for _, args := range [][]string{{"exec", "service/web", "--", "x"}, {"attach", "service/web"}, {"port-forward", "service/web", ":80"}, {"logs", "service/web"}} {
			t.Run(c.name+"/"+args[0], func(t *testing.T) {
				asked = nil
				code, out, errOut := run(t, append([]string{"minikctl", "--cache-dir", t.TempDir(), "--server", server.URL}, args...)...)
				mu.Lock()
				defer mu.Unlock()
				if len(asked) == 0 || slices.ContainsFunc(asked, func(name string) bool { return name != c.want }) {
					t.Errorf("asked for %q, want %s; %d, %s%s", asked, c.want, code, out, errOut)
				}
			})
		}
		server.Close()
	}
}
