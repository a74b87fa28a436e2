package proxy

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/minikctl/minikctl/pkg/clock"
)

const (
	// udpIdle is how long a client keeps its endpoint without a packet, as connection tracking does in Kubernetes.
	udpIdle = 2 * time.Minute
	// maxPacket is the size of the largest UDP packet.
	maxPacket = 1 << 16
	// maxFlows bounds the clients of one frontend, so that it leaves room for others.
	maxFlows = 4096
)

// udpServer passes the packets to a UDP frontend on to its endpoints. The packets of one client go to one endpoint.
type udpServer struct {
	*chooser
	conn    *net.UDPConn
	sockets sockets
	machine clock.Clock

	mu    sync.Mutex
	flows map[netip.AddrPort]*flow // by client; nil once closed
	wg    sync.WaitGroup
}

// flow is the socket through which the packets of one client go.
type flow struct {
	to   endpoint
	conn *net.UDPConn
}

func serveUDP(at netip.AddrPort, c *chooser, all sockets, machine clock.Clock) (*udpServer, error) {
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
	if err != nil {
		return nil, err
	}
	s := &udpServer{chooser: c, conn: conn, sockets: all, machine: machine, flows: map[netip.AddrPort]*flow{}}
	s.wg.Go(s.receive)
	return s, nil
}

func (s *udpServer) receive() {
	buf := make([]byte, maxPacket)
	for {
		n, client, err := s.conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			return // closed
		}
		if f := s.flow(netip.AddrPortFrom(client.Addr().Unmap(), client.Port())); f != nil {
			_ = f.conn.SetReadDeadline(s.machine.Now().Add(udpIdle))
			_, _ = f.conn.Write(buf[:n]) // UDP does not report lost packets either
		}
	}
}

// flow returns the flow of a client, which it makes if there is none to a current endpoint; nil if no endpoint can be reached.
func (s *udpServer) flow(client netip.AddrPort) *flow {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flows == nil {
		return nil
	}
	if f := s.flows[client]; f != nil {
		if s.has(f.to) {
			return f
		}
		f.conn.Close()
		delete(s.flows, client)
	}
	if len(s.flows) >= maxFlows || !s.sockets.tryTake() {
		return nil
	}
	for _, e := range s.choose(client.Addr()) {
		var from *net.UDPAddr
		if client.Addr().IsLoopback() && e.address.Addr().IsLoopback() {
			from = net.UDPAddrFromAddrPort(netip.AddrPortFrom(client.Addr(), 0))
		}
		conn, err := net.DialUDP("udp4", from, net.UDPAddrFromAddrPort(e.address))
		if err != nil {
			continue
		}
		f := &flow{e, conn}
		s.flows[client] = f
		s.wg.Go(func() { s.reply(client, f) })
		return f
	}
	s.sockets.put()
	return nil
}

// reply sends the packets of an endpoint to the client, until there are none for a while.
func (s *udpServer) reply(client netip.AddrPort, f *flow) {
	defer func() {
		f.conn.Close()
		s.mu.Lock()
		if s.flows[client] == f {
			delete(s.flows, client)
		}
		s.mu.Unlock()
		s.sockets.put()
	}()
	raw, err := f.conn.SyscallConn()
	if err != nil {
		return // closed
	}
	for {
		_ = f.conn.SetReadDeadline(s.machine.Now().Add(udpIdle))
		err := next(raw, func(packet []byte) error {
			_, err := s.conn.WriteToUDPAddrPort(packet, client)
			return err
		})
		if err != nil {
			return
		}
	}
}

// refuse ends the server: without endpoints there is nothing to pass on.
func (s *udpServer) refuse() { s.close() }

func (s *udpServer) close() {
	s.conn.Close()
	s.mu.Lock()
	for _, f := range s.flows {
		f.conn.Close()
	}
	s.flows = nil
	s.mu.Unlock()
	s.wg.Wait()
}
