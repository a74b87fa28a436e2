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

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/metrics"
)

// Server serves logs, exec, attach, port-forward, the list of pods and what they use for the nodes of a host, over HTTPS. Its clients are
// the API server, on behalf of users, and administrators.
type Server struct {
	Port int32 // of the listener

	listener net.Listener
	tls      *tls.Config
	host     *Host // set by NewHost
}

// callers are the user and the group whose client certificates are authorized.
var callers = struct{ user, group string }{"kube-apiserver-kubelet-client", "system:masters"}

// NewServer returns a server on an open TCP listener. cfg must verify client certificates by the cluster's authority.
func NewServer(l net.Listener, cfg *tls.Config) (*Server, error) {
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return nil, fmt.Errorf("kubelet server: %s is not a TCP address", l.Addr())
	}
	if cfg == nil || cfg.ClientAuth != tls.RequireAndVerifyClientCert {
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

// Handler serves the paths of the kubelet's API.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	mux.HandleFunc("GET /pods", s.pods)
	mux.HandleFunc("GET "+metrics.ReportedPods, s.usageOfPods)
	mux.HandleFunc("GET "+metrics.ReportedNodes, s.usageOfNodes)
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.logs)
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		mux.HandleFunc(method+" /exec/{namespace}/{pod}/{container}", s.exec)
		mux.HandleFunc(method+" /attach/{namespace}/{pod}/{container}", s.attach)
		mux.HandleFunc(method+" /portForward/{namespace}/{pod}", s.portForward)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || !mayCall(r.TLS) {
			http.Error(w, "Forbidden", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// mayCall reports whether the connection's client is authorized.
func mayCall(c *tls.ConnectionState) bool {
	if len(c.VerifiedChains) == 0 {
		return false
	}
	subject := c.PeerCertificates[0].Subject
	return subject.CommonName == callers.user || slices.Contains(subject.Organization, callers.group)
}

// pods serves the pods of the host's kubelets.
func (s *Server) pods(w http.ResponseWriter, _ *http.Request) {
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{}}
	for _, worker := range s.host.allWorkers() {
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

// target returns the pod and container of a request. If they do not exist it writes the error and returns false.
func (s *Server) target(w http.ResponseWriter, r *http.Request) (target, bool) {
	t, err := s.find(objects.Key{Namespace: r.PathValue("namespace"), Name: r.PathValue("pod")}, r.PathValue("container"))
	if err != nil {
		writeError(w, err)
		return target{}, false
	}
	return t, true
}

func (s *Server) find(key objects.Key, name string) (target, error) {
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
	if k == nil {
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
