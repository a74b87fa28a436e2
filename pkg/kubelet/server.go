package kubelet

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/health"
	"github.com/minikctl/minikctl/pkg/logs"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/metrics"
)

// Server serves logs, exec, attach, port-forward, the list of pods, metrics and what pods use for the nodes of a host, over HTTPS. Its clients are
// the API server, on behalf of users, and users with rights to subresources of nodes. The nodes share the server: a request is about the node
// whose name is its host.
type Server struct {
	Port int32 // of the listener

	listener net.Listener
	tls      *tls.Config
	host     *Host // set by NewHost
}

// NewServer returns a server on an open TCP listener. cfg must verify the certificates that clients show by the cluster's authority.
func NewServer(l net.Listener, cfg *tls.Config) (*Server, error) {
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return nil, fmt.Errorf("kubelet server: %s is not a TCP address", l.Addr())
	}
	if cfg == nil || cfg.ClientCAs == nil || cfg.ClientAuth != tls.RequireAndVerifyClientCert && cfg.ClientAuth != tls.VerifyClientCertIfGiven {
		return nil, errors.New("kubelet server: clients' certificates have to be verified")
	}
	return &Server{Port: int32(addr.Port), listener: l, tls: cfg}, nil
}

// Run serves until ctx ends, and then closes all connections.
func (s *Server) Run(ctx context.Context) error {
	srv := &http.Server{
		Handler: s.Handler(), TLSConfig: s.tls, ReadHeaderTimeout: 30 * time.Second,
		ErrorLog:    log.New(io.Discard, "", 0), // of failed handshakes
		BaseContext: func(net.Listener) context.Context { return ctx },
		// Exec hijacks connections, which HTTP/2 does not allow.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.ServeTLS(s.listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("kubelet server: %w", err)
	}
	return nil
}

// debugPaths are those that /statusz names.
var debugPaths = [...]string{"/checkpoint", "/configz", "/flagz", "/healthz", "/metrics", "/pods", "/stats", "/statusz"}

// checksOf returns the checks of the health of kubelets.
func checksOf(nodes []*Kubelet) []health.Check {
	return []health.Check{health.Ping, logs.Check, {Name: "syncloop", Run: func(context.Context) error {
		if slices.ContainsFunc(nodes, (*Kubelet).stalled) {
			return errors.New("sync Loop took longer than expected")
		}
		return nil
	}}}
}

// Handler serves the paths of the kubelet's API.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	serve := func(pattern string, to subresources, h handler) { mux.Handle(pattern, s.authorized(to, h)) }
	proxy := subresources{"proxy"}
	serve("/", proxy, func(w http.ResponseWriter, r *http.Request, _ []*Kubelet) { http.NotFound(w, r) })
	healths := health.NewServer()
	for _, path := range []string{"/healthz", "/healthz/"} {
		serve("GET "+path, subresources{"healthz", "proxy"}, func(w http.ResponseWriter, r *http.Request, nodes []*Kubelet) { healths.Serve(w, r, checksOf(nodes)) })
	}
	serve("GET /metrics/slis", subresources{"metrics"}, func(w http.ResponseWriter, r *http.Request, _ []*Kubelet) { healths.Metrics(w, r) })
	serve("/statusz", subresources{"statusz"}, func(w http.ResponseWriter, r *http.Request, _ []*Kubelet) { s.host.zpages.Statusz(w, r) })
	serve("/flagz", subresources{"configz"}, func(w http.ResponseWriter, r *http.Request, _ []*Kubelet) { s.host.zpages.Flagz(w, r) })
	serve("/debug/flags/v", proxy, func(w http.ResponseWriter, r *http.Request, _ []*Kubelet) { logs.Verbosity(w, r) })
	serve("/configz", subresources{"configz", "proxy"}, oneNode(s.configz))
	for _, path := range []string{"/pods", "/pods/{$}"} {
		serve("GET "+path, subresources{"pods", "proxy"}, s.pods)
	}
	serve("GET /stats/summary", subresources{"stats"}, oneNode(serveSummary))
	serve("GET /metrics", subresources{"metrics"}, serveMetrics)
	serve("GET /metrics/resource", subresources{"metrics"}, oneNode(serveResourceMetrics))
	serve("GET /metrics/cadvisor", subresources{"metrics"}, oneNode(serveContainerMetrics))
	serve("GET /metrics/probes", subresources{"metrics"}, oneNode(serveProbeMetrics))
	serve("POST /checkpoint/{namespace}/{pod}/{container}", subresources{"checkpoint"}, s.checkpoint)
	serve("GET "+metrics.ReportedPods, proxy, s.usageOfPods)
	serve("GET "+metrics.ReportedNodes, proxy, s.usageOfNodes)
	serve("GET /containerLogs/{namespace}/{pod}/{container}", proxy, s.logs)
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		serve(method+" /exec/{namespace}/{pod}/{container}", proxy, s.exec)
		serve(method+" /attach/{namespace}/{pod}/{container}", proxy, s.attach)
		serve(method+" /portForward/{namespace}/{pod}", proxy, s.portForward)
	}
	return mux
}

// oneNode returns a handler of requests about one node, and refuses those about several.
func oneNode(h func(w http.ResponseWriter, r *http.Request, k *Kubelet)) handler {
	return func(w http.ResponseWriter, r *http.Request, nodes []*Kubelet) {
		if len(nodes) > 1 {
			http.Error(w, fmt.Sprintf("%d nodes share this address: name one of them as the request's host, or use the path /api/v1/nodes/NAME/proxy%s of the API server",
				len(nodes), r.URL.Path), http.StatusBadRequest)
			return
		}
		h(w, r, nodes[0])
	}
}

// checkpoint refuses to write the state of a container to a file, as a kubelet whose runtime cannot do that.
func (s *Server) checkpoint(w http.ResponseWriter, r *http.Request, nodes []*Kubelet) {
	t, ok := s.target(w, r, nodes)
	if !ok {
		return
	}
	http.Error(w, fmt.Sprintf("checkpointing of %s/%s/%s failed (the runtime %q cannot checkpoint containers)",
		t.pod.Namespace, t.pod.Name, t.name, t.worker.kubelet.Tier.Name), http.StatusInternalServerError)
}

// pods serves the pods of nodes.
func (s *Server) pods(w http.ResponseWriter, _ *http.Request, nodes []*Kubelet) {
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{}}
	for _, worker := range s.host.allWorkers() {
		if !slices.Contains(nodes, worker.kubelet) {
			continue
		}
		worker.mu.Lock()
		if pod := worker.pod; pod != nil {
			shown := *pod
			if worker.status != nil {
				shown.Status = *worker.status
			}
			list.Items = append(list.Items, shown)
		}
		worker.mu.Unlock()
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list) // the client has disconnected
}

// target is the pod and container of a request.
type target struct {
	worker *podWorker
	pod    *corev1.Pod
	status corev1.PodStatus
	name   string // of the container; "" when the request names none
}

// target returns the pod and container of a request about nodes. If the nodes do not have them it writes the error and returns false.
func (s *Server) target(w http.ResponseWriter, r *http.Request, nodes []*Kubelet) (target, bool) {
	t, err := s.find(nodes, objects.Key{Namespace: r.PathValue("namespace"), Name: r.PathValue("pod")}, r.PathValue("container"))
	if err != nil {
		writeError(w, err)
		return target{}, false
	}
	return t, true
}

func (s *Server) find(nodes []*Kubelet, key objects.Key, name string) (target, error) {
	gr := corev1.Resource("pods")
	pod, ok := s.host.pod(key)
	if !ok {
		return target{}, apierrors.NewNotFound(gr, key.Name)
	}
	if name != "" {
		if c, _ := container(pod, name); c == nil {
			return target{}, apierrors.NewNotFound(gr, key.Name+"/"+name)
		}
	}
	k := s.host.kubelet(pod.Spec.NodeName)
	if k == nil || !slices.Contains(nodes, k) {
		return target{}, apierrors.NewNotFound(gr, key.Name)
	}
	w := s.host.worker(k, key, pod.UID)
	return target{worker: w, pod: pod, status: w.lastStatus(pod), name: name}, nil
}

// running returns the request's container, or NotFound if it does not run.
func (t target) running() (Container, error) {
	seen, _ := t.worker.seen()
	c, ok := seen.latest(t.name)
	if !ok || !c.Running {
		return Container{}, apierrors.NewNotFound(corev1.Resource("pods"), fmt.Sprintf("container not found (%q)", t.name))
	}
	return c, nil
}

// writeError writes an error with its status code.
func writeError(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	if st, ok := errors.AsType[*apierrors.StatusError](err); ok {
		code = int(st.ErrStatus.Code)
	}
	http.Error(w, err.Error(), code)
}
