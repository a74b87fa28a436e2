package program

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/minikctl/minikctl/pkg/supervisor/trim"
)

// defaultPort is web's port if neither its first argument, nor PORT, nor the pod's first containerPort gives one. It also
// replaces a containerPort that only root may bind.
const defaultPort = "8080"

// drain is how long web waits for requests in progress after SIGTERM.
const drain = 5 * time.Second

// identity is the content of web's responses. The kubelet provides it in environment variables.
type identity struct {
	Pod       string `json:"pod"`
	Namespace string `json:"namespace"`
	Node      string `json:"node"`
	Address   string `json:"address"` // the pod's
	Hostname  string `json:"hostname"`
	Image     string `json:"image"`

	site *site // nil: none
}

func ownIdentity() identity {
	host := os.Getenv("HOSTNAME")
	if host == "" {
		host, _ = os.Hostname() // an empty name is fine
	}
	return identity{
		Pod: os.Getenv("MINIKCTL_POD"), Namespace: os.Getenv("MINIKCTL_NAMESPACE"), Node: os.Getenv("MINIKCTL_NODE"),
		Address: os.Getenv("MINIKCTL_POD_IP"), Hostname: host, Image: os.Getenv("MINIKCTL_IMAGE"),
	}
}

// web is a small web server that shows its identity. It listens on the port of its first argument, of PORT or of the pod.
// It responds to /healthz with ok, to /busyz?ms=N after N milliseconds of computing, and to every other path with the files of the directory that
// MINIKCTL_FOLDER names. Without one it responds to /resolve?name=NAME with the addresses that the pod finds for a name, and to every other path with
// its identity, as JSON if the request accepts JSON. It logs each request, and ends on SIGTERM once the requests in progress have ended. Without
// any port it listens on port 80 as well, if it may: the web servers whose images are mapped to it do.
func web(args []string) int {
	port, declared := os.Getenv("PORT"), os.Getenv("MINIKCTL_PORT")
	if len(args) > 0 {
		port = args[0]
	}
	explicit := port != ""
	if port == "" {
		port = declared
	}
	undeclared := port == ""
	if undeclared {
		port = defaultPort
	}
	number, err := strconv.ParseUint(strings.TrimPrefix(port, ":"), 10, 16)
	if err != nil {
		fmt.Fprintf(os.Stderr, "port %q is no number up to 65535\n", port)
		return 1
	}
	l, err := listen(anyAddress, int(number))
	if !explicit && errors.Is(err, syscall.EACCES) {
		fmt.Printf("port %s is for root alone: listening on %s instead\n", port, defaultPort)
		l, err = listen(anyAddress, 8080)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "listen on port %s: %v\n", port, err)
		return 1
	}
	id := ownIdentity()
	if id.site, err = openSite(os.Getenv("MINIKCTL_FOLDER")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	listeners := []*listener{l}
	if undeclared {
		if l, err := listen(anyAddress, 80); err == nil {
			listeners = append(listeners, l)
		}
	}
	serve(id, listeners, end)
	return 0
}

// serve serves until end receives a signal.
func serve(id identity, listeners []*listener, end <-chan os.Signal) {
	var servers []*server
	for _, l := range listeners {
		srv := newServer(l, id.respond)
		servers = append(servers, srv)
		go srv.run()
		fmt.Println(listening(l.address(), l.port))
	}
	trim.Later()
	<-end
	fmt.Println("ending")
	var ended sync.WaitGroup
	for _, srv := range servers {
		ended.Go(func() { srv.shutdown(drain) })
	}
	ended.Wait()
}

// listening returns the line of the log about a listener on a port. A port below 1024 may have another number outside of the pod.
func listening(address string, port int) string {
	line := "listening on " + address
	if port != 0 && !strings.HasSuffix(address, ":"+strconv.Itoa(port)) {
		line += fmt.Sprintf(", which is port %d of the pod", port)
	}
	return line
}

func (id identity) respond(r *request) response {
	switch {
	case r.path() == "/healthz":
		return response{kind: plainText, body: "ok\n"}
	case r.path() == "/busyz":
		return busy(r)
	case id.site != nil:
		return id.site.respond(r)
	case r.path() == "/resolve":
		return lookUp(r)
	case strings.Contains(r.accept, jsonType):
		b, err := json.Marshal(id)
		if err != nil {
			return response{code: 500, kind: plainText, body: err.Error() + "\n"}
		}
		return response{kind: jsonType, body: string(b) + "\n"}
	}
	return response{kind: plainText, body: fmt.Sprintf(
		"Hello from pod %s\n\nnamespace  %s\nnode       %s\naddress    %s\nhostname   %s\nimage      %s\nrequest    %s %s\n",
		id.Pod, id.Namespace, id.Node, id.Address, id.Hostname, id.Image, r.method, r.target)}
}

// maxBusy limits how long one request computes.
const maxBusy = time.Second

// busy keeps a processor busy for as many milliseconds as the request says, which gives autoscalers a load.
func busy(r *request) response {
	_, query, _ := strings.Cut(r.target, "?")
	text, _ := strings.CutPrefix(query, "ms=")
	ms, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return response{code: 400, kind: plainText, body: "want /busyz?ms=NUMBER\n"}
	}
	for end := time.Now().Add(min(time.Duration(ms)*time.Millisecond, maxBusy)); time.Now().Before(end); {
	}
	return response{kind: plainText, body: "done\n"}
}
