package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// defaultPort is where web listens when neither its first argument nor PORT says otherwise.
const defaultPort = "8080"

// drain is how long web lets requests finish when it is told to end.
const drain = 5 * time.Second

// identity is who web says it is. The kubelet tells it by variables.
type identity struct {
	Pod       string `json:"pod"`
	Namespace string `json:"namespace"`
	Node      string `json:"node"`
	Address   string `json:"address"` // the pod's
	Hostname  string `json:"hostname"`
	Image     string `json:"image"`
}

func whoAmI() identity {
	host := os.Getenv("HOSTNAME")
	if host == "" {
		host, _ = os.Hostname() // shown only
	}
	return identity{
		Pod: os.Getenv("MINIKCTL_POD"), Namespace: os.Getenv("MINIKCTL_NAMESPACE"), Node: os.Getenv("MINIKCTL_NODE"),
		Address: os.Getenv("MINIKCTL_POD_IP"), Hostname: host, Image: os.Getenv("MINIKCTL_IMAGE"),
	}
}

// web is a small web server that says who it is. It listens on the port that its first argument or PORT names, answers
// /healthz with ok and everything else with its identity (as JSON to those who ask for it), logs each request, and ends
// on SIGTERM once the requests that are under way have been answered.
func web(args []string) int {
	port := os.Getenv("PORT")
	if len(args) > 0 {
		port = args[0]
	}
	if port == "" {
		port = defaultPort
	}
	l, err := net.Listen("tcp", net.JoinHostPort("", strings.TrimPrefix(port, ":")))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	srv := &http.Server{Handler: webHandler(whoAmI()), ReadHeaderTimeout: drain}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	fmt.Printf("listening on %s\n", l.Addr())
	select {
	case err := <-ended:
		fmt.Fprintln(os.Stderr, err)
		return 1
	case <-ctx.Done():
	}
	fmt.Println("told to end")
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func webHandler(id identity) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Accept"), "application/json") {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(id) // the client has gone
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintf(w, "Hello from pod %s\n\nnamespace  %s\nnode       %s\naddress    %s\nhostname   %s\nimage      %s\nrequest    %s %s\n",
			id.Pod, id.Namespace, id.Node, id.Address, id.Hostname, id.Image, r.Method, r.URL.RequestURI())
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := &status{ResponseWriter: w, code: http.StatusOK}
		mux.ServeHTTP(seen, r)
		fmt.Printf("%s %s %s %d\n", r.RemoteAddr, r.Method, r.URL.RequestURI(), seen.code)
	})
}

// status remembers what a request was answered with.
type status struct {
	http.ResponseWriter
	code int
}

func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}
