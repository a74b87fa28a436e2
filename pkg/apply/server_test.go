package apply

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// response is a server's response to one request.
type response struct {
	code int // 0: 200
	body string
}

// server responds to requests with the responses of a test, in order.
type server struct {
	*httptest.Server
	responses map[string][]response                       // by method; the last stays
	watches   []func(event func(string), r *http.Request) // of the object, one per connection; the last stays open
	pods      func(event func(string), r *http.Request)   // the watch of pods
	events    func(event func(string), r *http.Request)   // the watch of Events
	paths     map[string]string                           // bodies of GET by path; they take precedence over responses

	mu       sync.Mutex
	requests []string // METHOD, and the selector of a watch of pods
	watched  int
}

func newServer(t *testing.T, responses map[string][]response) *server {
	s := &server{responses: responses}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") != "" {
		s.watch(w, r)
		return
	}
	if body, ok := s.paths[r.URL.Path]; ok && r.Method == http.MethodGet {
		io.WriteString(w, body)
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, r.Method)
	a := s.responses[r.Method][0]
	if len(s.responses[r.Method]) > 1 {
		s.responses[r.Method] = s.responses[r.Method][1:]
	}
	s.mu.Unlock()
	if a.code != 0 {
		w.WriteHeader(a.code)
	}
	io.WriteString(w, a.body)
}

func (s *server) watch(w http.ResponseWriter, r *http.Request) {
	event := func(line string) {
		io.WriteString(w, line+"\n")
		w.(http.Flusher).Flush()
	}
	w.(http.Flusher).Flush()
	if strings.HasSuffix(r.URL.Path, "/pods") && r.URL.Query().Get("labelSelector") != "" {
		s.mu.Lock()
		s.requests = append(s.requests, "pods "+r.URL.Query().Get("labelSelector"))
		s.mu.Unlock()
		if s.pods != nil {
			s.pods(event, r)
		}
		<-r.Context().Done()
		return
	}
	if strings.HasSuffix(r.URL.Path, "/events") {
		if s.events != nil {
			s.events(event, r)
		}
		<-r.Context().Done()
		return
	}
	s.mu.Lock()
	n := s.watched
	s.watched++
	s.mu.Unlock()
	if n < len(s.watches) {
		s.watches[n](event, r)
	}
	if n >= len(s.watches)-1 {
		<-r.Context().Done()
	}
}

func (s *server) got() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.requests, " ")
}

// info is the object that a manifest names, on s.
func (s *server) info(t *testing.T, manifest string) *resource.Info {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(manifest), u); err != nil {
		t.Fatal(err)
	}
	gvk := u.GroupVersionKind()
	cfg := &rest.Config{Host: s.URL, APIPath: "/apis", ContentConfig: resource.UnstructuredPlusDefaultContentConfig()}
	if gvk.Group == "" {
		cfg.APIPath = "/api"
	}
	gv := gvk.GroupVersion()
	cfg.GroupVersion = &gv
	client, err := rest.RESTClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	plural := strings.ToLower(gvk.Kind) + "s"
	return &resource.Info{
		Client: client, Namespace: "default", Name: u.GetName(), Object: u,
		Mapping: &meta.RESTMapping{Resource: gvk.GroupVersion().WithResource(plural), GroupVersionKind: gvk, Scope: meta.RESTScopeNamespace},
	}
}

func (s *server) clients(t *testing.T) kubernetes.Interface {
	t.Helper()
	c, err := kubernetes.NewForConfig(&rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// failure is an error as the API server sends it.
func failure(code int, reason string) response {
	return response{code, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"%s!","reason":%q,"code":%d}`, reason, reason, code)}
}

func event(kind, object string) string { return fmt.Sprintf(`{"type":%q,"object":%s}`, kind, object) }
