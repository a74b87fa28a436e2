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
)

// Server answers, over HTTPS, for the nodes of a host: logs, exec, attach, port-forward and what is running. The API
// server asks it on behalf of users; it is the only client, beside administrators.
type Server struct {
	Port int32 // on which it listens

	listener net.Listener
	tls      *tls.Config
	host     *Host // set by NewHost
}

// callers are the users and groups whose certificates the server answers to.
var callers = struct{ user, group string }{"kube-apiserver-kubelet-client", "system:masters"}

// NewServer returns a server on a listener that is open already. Its configuration has to verify clients' certificates
// against the cluster's authority.
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

// Run serves until ctx ends. Streams that are open then are cut.
func (s *Server) Run(ctx context.Context) error {
	srv := &http.Server{
		Handler: s.Handler(), TLSConfig: s.tls, ReadHeaderTimeout: 30 * time.Second,
		ErrorLog:    log.New(io.Discard, "", 0), // handshakes that clients break off
		BaseContext: func(net.Listener) context.Context { return ctx },
		// HTTP/2 cannot be hijacked, which exec needs.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.ServeTLS(s.listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("kubelet server: %w", err)
	}
	return nil
}

// Handler returns the server's paths, which are those of every kubelet.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	mux.HandleFunc("GET /pods", s.pods)
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

// mayCall reports whether the connection's client is one that the server answers to.
func mayCall(c *tls.ConnectionState) bool {
	if len(c.VerifiedChains) == 0 {
		return false
	}
	who := c.PeerCertificates[0].Subject
	return who.CommonName == callers.user || slices.Contains(who.Organization, callers.group)
}

// pods answers with the pods that the host's kubelets work on.
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
	_ = json.NewEncoder(w).Encode(list) // the client has gone
}

// target is what a request is about.
type target struct {
	worker *worker
	pod    *corev1.Pod
	status corev1.PodStatus
	name   string // of the container; "" when the request names none
}

// target finds the pod and container of a request. It has answered when ok is false.
func (s *Server) target(w http.ResponseWriter, r *http.Request) (target, bool) {
	t, err := s.find(objects.Key{Namespace: r.PathValue("namespace"), Name: r.PathValue("pod")}, r.PathValue("container"))
	if err != nil {
		refuse(w, err)
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
	t := target{worker: s.host.worker(k, key, pod.UID), pod: pod, status: pod.Status, name: name}
	t.worker.mu.Lock()
	defer t.worker.mu.Unlock()
	if t.worker.status != nil {
		t.status = *t.worker.status
	}
	return t, nil
}

// running returns the container of a request, if it runs.
func (t target) running() (Container, error) {
	seen, _ := t.worker.view(t.worker.uid)
	c, ok := seen.latest(t.name)
	if !ok || !c.Running {
		return Container{}, apierrors.NewNotFound(corev1.Resource("pods"), fmt.Sprintf("container not found (%q)", t.name))
	}
	return c, nil
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	if st, ok := errors.AsType[*apierrors.StatusError](err); ok {
		code = int(st.ErrStatus.Code)
	}
	http.Error(w, err.Error(), code)
}
