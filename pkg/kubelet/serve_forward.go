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

	"github.com/gorilla/websocket"
	tunnel "k8s.io/client-go/tools/portforward"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"github.com/minikctl/minikctl/pkg/network/addr"
)

// portForward serves connections to the ports of a pod.
func (s *Server) portForward(w http.ResponseWriter, r *http.Request, nodes []*Kubelet) {
	t, ok := s.target(w, r, nodes)
	if !ok {
		return
	}
	opts, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if t.worker.simulated() {
		writeError(w, fmt.Errorf("the pods of simulated node %s have no ports", t.worker.kubelet.Name))
		return
	}
	if wsstream.IsWebSocketRequestWithTunnelingProtocol(r) {
		var closer func()
		if w, r, closer, err = openTunnel(w, r); err != nil {
			return // openTunnel has written the error
		}
		defer closer()
	}
	portforward.ServePortForward(w, r, forwarder{t}, t.pod.Name, string(t.pod.UID), opts,
		idleTimeout, createTimeout, portforward.SupportedProtocols)
}

type forwarder struct{ target }

// PortForward copies between a stream and a port of the pod until one of them ends.
func (f forwarder) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	defer func() { _ = stream.Close() }() // the client has disconnected, or receives the end of its stream
	host := f.worker.host(f.pod, "")
	if host == "" { // Dial would take "" for this machine
		return fmt.Errorf("pod %s has no address yet", f.pod.Name)
	}
	address := net.JoinHostPort(host, strconv.Itoa(int(port)))
	conn, err := addr.Dial(new(net.Dialer))(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("failed to connect to %s inside pod %s: %w", address, f.pod.Name, err)
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.Copy(conn, stream) // ends with either side
		if half, ok := conn.(*net.TCPConn); ok {
			_ = half.CloseWrite()
		}
	}()
	_, err = io.Copy(stream, conn)
	_ = stream.Close()
	<-sent
	return err
}

// tunnelPrefix is the prefix of a WebSocket's subprotocol that carries an SPDY connection in its messages.
const tunnelPrefix = "SPDY/3.1+"

// openTunnel opens a WebSocket that carries an SPDY connection, and returns the response writer and the request of that
// connection. On an error it has written the response.
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
		err := fmt.Errorf("unable to upgrade: unable to negotiate protocol: client supports %v, server accepts %v", offered, portforward.SupportedProtocols)
		http.Error(w, err.Error(), http.StatusForbidden)
		return nil, nil, nil, err
	}
	upgrader := websocket.Upgrader{Subprotocols: protocols, CheckOrigin: func(*http.Request) bool { return true }} // the only client is the API server
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	through := tunnel.NewTunnelingConnection("port-forward", conn)
	return &tunnelWriter{conn: through, header: http.Header{}}, inner, func() { _ = through.Close() }, nil
}

// tunnelWriter is the response writer of an SPDY request in a tunnel: Hijack returns the tunnel's connection. A status and
// headers are dropped, since the WebSocket's handshake has agreed on the protocol.
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
