package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/network/addr"
)

// dialTime bounds the connection to an endpoint. Endpoints are on this machine: they accept or refuse at once.
const dialTime = 5 * time.Second

// noKeepAlive disables TCP keep-alive on connections to endpoints. Endpoints run on this machine, whose kernel closes their connections when
// they end.
const noKeepAlive = -1

// tcpServer passes the connections to a TCP frontend on to its endpoints.
type tcpServer struct {
	*chooser
	listener net.Listener
	sockets  sockets
	machine  clock.Clock
	ctx      context.Context //nolint:containedctx // of the dials: it ends with the server
	cancel   context.CancelFunc

	mu    sync.Mutex
	conns map[net.Conn]struct{} // of clients; nil once the server is closed with its connections
	wg    sync.WaitGroup
}

func serveTCP(at netip.AddrPort, c *chooser, all sockets, machine clock.Clock) (*tcpServer, error) {
	l, err := net.Listen("tcp4", at.String())
	if err != nil {
		return nil, err
	}
	s := &tcpServer{chooser: c, listener: l, sockets: all, machine: machine, conns: map[net.Conn]struct{}{}}
	s.ctx, s.cancel = context.WithCancel(context.Background()) //nolint:forbidigo // connections of clients outlive every call of the proxy's methods
	s.wg.Go(s.accept)
	return s, nil
}

func (s *tcpServer) accept() {
	for {
		conn, err := s.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // out of descriptors: some may be closed soon
			<-s.machine.After(10 * time.Millisecond)
			continue
		}
		if !s.sockets.take(s.ctx) { // until then further clients wait in the kernel
			conn.Close()
			return
		}
		if !s.add(conn) {
			s.sockets.put()
			return
		}
		s.wg.Go(func() {
			defer s.sockets.put()
			s.serve(conn.(*net.TCPConn))
		})
	}
}

func (s *tcpServer) add(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		conn.Close()
		return false
	}
	s.conns[conn] = struct{}{}
	return true
}

func (s *tcpServer) serve(client *net.TCPConn) {
	defer func() {
		client.Close()
		s.mu.Lock()
		delete(s.conns, client)
		s.mu.Unlock()
	}()
	server := s.dial(addrOf(client.RemoteAddr()))
	if server == nil {
		_ = client.SetLinger(0) // a reset: the client learns that it is not served
		return
	}
	defer server.Close()
	var copies sync.WaitGroup
	copies.Go(func() { pass(server, client) })
	copies.Go(func() { pass(client, server) })
	copies.Wait()
}

// dial connects to an endpoint, with the client's address as the source where that is possible. It returns nil if none accepts.
func (s *tcpServer) dial(client netip.Addr) *net.TCPConn {
	for _, e := range s.choose(client) {
		d := net.Dialer{Timeout: dialTime, KeepAlive: noKeepAlive, Control: lateSourcePort}
		if client.IsLoopback() && e.address.Addr().IsLoopback() {
			d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(client, 0))
		}
		if conn, err := addr.Dial(&d)(s.ctx, "tcp4", e.address.String()); err == nil {
			return conn.(*net.TCPConn)
		}
	}
	return nil
}

// lateSourcePort makes the kernel choose the source port when the socket connects, so that connections to different endpoints may
// share it.
func lateSourcePort(_, _ string, raw syscall.RawConn) error {
	var failed error
	err := raw.Control(func(fd uintptr) { failed = setLateSourcePort(int(fd)) })
	return errors.Join(err, failed)
}

func addrOf(a net.Addr) netip.Addr {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.AddrPort().Addr().Unmap()
	case *net.UDPAddr:
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// refuse closes the listener. Connections go on, as they do when a Service loses its endpoints in Kubernetes.
func (s *tcpServer) refuse() { s.listener.Close() }

// close ends the connections, too, and waits for their end.
func (s *tcpServer) close() {
	s.listener.Close()
	s.cancel()
	s.mu.Lock()
	for conn := range s.conns {
		conn.Close()
	}
	s.conns = nil
	s.mu.Unlock()
	s.wg.Wait()
}
