package kubelet

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gorilla/websocket"
	tunnel "k8s.io/client-go/tools/portforward"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// portForward connects a client with ports of a pod.
func (s *Server) portForward(w http.ResponseWriter, r *http.Request) {
	t, ok := s.target(w, r)
	if !ok {
		return
	}
	opts, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if t.worker.Tier.Simulated {
		refuse(w, fmt.Errorf("the pods of simulated node %s have no ports", t.worker.Name))
		return
	}
	if wsstream.IsWebSocketRequestWithTunnelingProtocol(r) {
		var closer func()
		if w, r, closer, err = openTunnel(w, r); err != nil {
			return // the client has been told
		}
		defer closer()
	}
	portforward.ServePortForward(w, r, forwarder{t}, t.pod.Name, string(t.pod.UID), opts,
		idleTimeout, createTimeout, portforward.SupportedProtocols)
}

type forwarder struct{ target }

// PortForward copies between a stream and a port of the pod, until one of them ends.
func (f forwarder) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	defer func() { _ = stream.Close() }() // the client has gone, or is told by it
	host := f.worker.hostOf(f.pod, "")
	if host == "" { // which would be this machine
		return fmt.Errorf("pod %s has no address yet", f.pod.Name)
	}
	var d net.Dialer
	address := net.JoinHostPort(host, strconv.Itoa(int(port)))
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("failed to connect to %s inside pod %s: %w", address, f.pod.Name, err)
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.Copy(conn, stream) // the end of either side
		if half, ok := conn.(*net.TCPConn); ok {
			_ = half.CloseWrite()
		}
	}()
	_, err = io.Copy(stream, conn)
	_ = stream.Close()
	<-sent
	return err
}

// tunnelPrefix is what a WebSocket's protocol begins with whose messages are the bytes of a connection in SPDY.
const tunnelPrefix = "SPDY/3.1+"

// openTunnel opens a WebSocket that a connection in SPDY comes through, and returns the request to open that.
func openTunnel(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request, func(), error) {
	inner := r.Clone(r.Context())
	inner.Method = http.MethodPost
	inner.Header = http.Header{httpstream.HeaderConnection: {httpstream.HeaderUpgrade}, httpstream.HeaderUpgrade: {spdy.HeaderSpdy31}}
	offered := websocket.Subprotocols(r)
	for _, p := range portforward.SupportedProtocols {
		if slices.Contains(offered, tunnelPrefix+p) {
			inner.Header.Add(httpstream.HeaderProtocolVersion, p)
		}
	}
	var protocols []string
	for _, p := range inner.Header.Values(httpstream.HeaderProtocolVersion) {
		protocols = append(protocols, tunnelPrefix+p)
	}
	if len(protocols) == 0 {
		err := fmt.Errorf("unable to upgrade: none of the protocols is known: %s", strings.Join(offered, ", "))
		http.Error(w, err.Error(), http.StatusForbidden)
		return nil, nil, nil, err
	}
	upgrader := websocket.Upgrader{Subprotocols: protocols, CheckOrigin: func(*http.Request) bool { return true }} // only the API server calls
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	through := tunnel.NewTunnelingConnection("port-forward", conn)
	return &tunnelWriter{conn: through, header: http.Header{}}, inner, func() { _ = through.Close() }, nil
}

// tunnelWriter gives the connection of a tunnel to who takes over a request's. What is answered before goes nowhere: the
// tunnel's own protocol has said it.
type tunnelWriter struct {
	conn   net.Conn
	header http.Header
}

func (t *tunnelWriter) Header() http.Header         { return t.header }
func (t *tunnelWriter) WriteHeader(int)             {}
func (t *tunnelWriter) Write(b []byte) (int, error) { return len(b), nil }

// Hijack implements http.Hijacker.
func (t *tunnelWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return t.conn, bufio.NewReadWriter(bufio.NewReader(t.conn), bufio.NewWriter(t.conn)), nil
}
