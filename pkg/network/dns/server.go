// Package dns owns the cluster's DNS server: it answers for the names of Services, their endpoints and pods after Kubernetes'
// specification, and passes other questions on to the machine's own resolvers.
package dns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/network/addr"
)

// Config configures a Server.
type Config struct {
	Caches *client.Caches // the caller runs them
	Domain string         // of the cluster: cluster.local
	Listen netip.AddrPort // port 53 where the process may listen on it, else addr.Unprivileged of it
	// Resolvers are the servers for names outside the cluster, by address and port. Without any such a question is refused.
	Resolvers []netip.AddrPort
	// Held returns the sockets of an earlier Server that still listen, in the order of Sockets; none if there are none. New calls it if the address
	// is in use. nil: there are none.
	Held func() ([]*os.File, error)
}

// Server is a DNS server over UDP and TCP.
type Server struct {
	cfg     Config
	records records
	zone    string
	udp     net.PacketConn
	tcp     net.Listener
}

// New opens the sockets of a Server. It answers once it runs.
func New(cfg Config) (*Server, error) {
	zone := dns.Fqdn(strings.ToLower(cfg.Domain))
	s := &Server{cfg: cfg, zone: zone, records: records{
		zone:       zone,
		services:   client.CacheOf[*corev1.Service](cfg.Caches, client.Services),
		slices:     client.CacheOf[*discoveryv1.EndpointSlice](cfg.Caches, client.EndpointSlices),
		namespaces: cfg.Caches.Namespaces(),
		pods:       cfg.Caches.Pods(),
	}}
	err := s.listen(cfg.Listen)
	if other, ok := addr.Unprivileged(cfg.Listen.Port()); ok && errors.Is(err, syscall.EACCES) {
		cfg.Listen = netip.AddrPortFrom(cfg.Listen.Addr(), other)
		err = s.listen(cfg.Listen)
	}
	if errors.Is(err, syscall.EADDRINUSE) && cfg.Held != nil {
		failed := s.takeOver(cfg)
		if err = nil; failed != nil { // they may have been closed meanwhile
			err = s.listen(cfg.Listen)
		}
		if err != nil {
			err = fmt.Errorf("%w; take over the sockets of an earlier server: %w", err, failed)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("listen for DNS: %w", err)
	}
	return s, nil
}

func (s *Server) listen(at netip.AddrPort) (err error) {
	if s.udp, err = net.ListenPacket("udp4", at.String()); err != nil {
		return err
	}
	if s.tcp, err = net.Listen("tcp4", at.String()); err != nil {
		return errors.Join(err, s.udp.Close())
	}
	return nil
}

// takeOver listens on the sockets of an earlier Server, which may hold questions that it has not answered.
func (s *Server) takeOver(cfg Config) error {
	files, err := cfg.Held()
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	if err != nil {
		return err
	}
	const sockets = 2
	if len(files) != sockets {
		return fmt.Errorf("%d sockets are held", len(files))
	}
	if s.udp, err = net.FilePacketConn(files[0]); err != nil {
		return err
	}
	if s.tcp, err = net.FileListener(files[1]); err != nil {
		return errors.Join(err, s.udp.Close())
	}
	if at := cfg.Listen.String(); s.udp.LocalAddr().String() != at || s.tcp.Addr().String() != at {
		return errors.Join(fmt.Errorf("sockets of %s and %s are held", s.udp.LocalAddr(), s.tcp.Addr()), s.udp.Close(), s.tcp.Close())
	}
	return nil
}

// Sockets returns copies of the Server's sockets, which the caller closes. While one of them is open, questions wait for a later Server.
func (s *Server) Sockets() ([]*os.File, error) {
	var files []*os.File
	for _, socket := range []any{s.udp, s.tcp} {
		f, err := socket.(interface{ File() (*os.File, error) }).File()
		if err != nil {
			return files, err
		}
		files = append(files, f)
	}
	return files, nil
}

// Run answers until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	if err := s.cfg.Caches.WaitSynced(ctx); err != nil {
		return errors.Join(s.udp.Close(), s.tcp.Close())
	}
	servers := []*dns.Server{{PacketConn: s.udp, Handler: s, UDPSize: dns.DefaultMsgSize}, {Listener: s.tcp, Handler: s}}
	var running sync.WaitGroup
	failed := make([]error, len(servers))
	started := make([]chan struct{}, len(servers))
	for i, server := range servers {
		started[i] = make(chan struct{})
		server.NotifyStartedFunc = sync.OnceFunc(func() { close(started[i]) })
		running.Go(func() {
			defer server.NotifyStartedFunc()
			failed[i] = server.ActivateAndServe()
		})
	}
	<-ctx.Done()
	for i, server := range servers {
		<-started[i] // a server that has not started can't be shut down
		_ = server.Shutdown()
	}
	running.Wait()
	return errors.Join(failed...)
}

// ServeDNS implements dns.Handler.
func (s *Server) ServeDNS(w dns.ResponseWriter, req *dns.Msg) {
	reply := new(dns.Msg).SetReply(req)
	reply.RecursionAvailable = true
	_, overTCP := w.RemoteAddr().(*net.TCPAddr)
	switch {
	case len(req.Question) != 1:
		reply.Rcode = dns.RcodeFormatError
	case req.Opcode != dns.OpcodeQuery:
		reply.Rcode = dns.RcodeNotImplemented
	case req.Question[0].Qclass != dns.ClassINET:
		reply.Rcode = dns.RcodeRefused
	default:
		reply = s.answer(req, reply, clientOf(w), overTCP)
	}
	size := dns.MaxMsgSize
	if !overTCP {
		size = dns.MinMsgSize
		if opt := req.IsEdns0(); opt != nil {
			size = max(size, int(opt.UDPSize()))
		}
	}
	reply.Truncate(size)
	if err := w.WriteMsg(reply); err != nil {
		slog.Debug("dns reply", "err", err)
	}
}

// clientOf returns the address of the client that asks.
func clientOf(w dns.ResponseWriter) netip.Addr {
	from, _ := netip.ParseAddrPort(w.RemoteAddr().String())
	return from.Addr().Unmap()
}

// answer answers a question of the client at from by the records, or has a resolver answer it.
func (s *Server) answer(req, reply *dns.Msg, from netip.Addr, overTCP bool) *dns.Msg {
	q := req.Question[0]
	name := strings.ToLower(q.Name)
	var a answer
	var ours bool
	if dns.IsSubDomain(s.zone, name) || dns.IsSubDomain(reverseZone, name) {
		a, ours = s.records.lookUp(name, q.Qtype)
	} else {
		a, ours = s.records.search(from, name, q.Qtype)
	}
	if !ours {
		return s.forward(req, reply, overTCP)
	}
	reply.Authoritative = true
	reply.Answer, reply.Extra = a.records, a.extra
	s.resolveAlias(reply, q, overTCP)
	if !a.exists {
		reply.Rcode = dns.RcodeNameError
	}
	if len(a.records) == 0 {
		reply.Ns = []dns.RR{s.authority()}
	}
	for _, rr := range reply.Answer {
		if strings.EqualFold(rr.Header().Name, q.Name) {
			rr.Header().Name = q.Name // resolvers compare the letters that they have sent
		}
	}
	return reply
}

// authority is the record that tells resolvers how long they may keep a negative answer.
func (s *Server) authority() dns.RR {
	return &dns.SOA{
		Hdr: header(s.zone, dns.TypeSOA), Ns: "ns.dns." + s.zone, Mbox: "hostmaster." + s.zone,
		Serial: 1, Refresh: 7200, Retry: 1800, Expire: 86400, Minttl: ttl,
	}
}

// maxAliases bounds a chain of ExternalName Services, which may be a circle.
const maxAliases = 8

// resolveAlias adds the records of the target of an ExternalName Service: those of the cluster, or those that a resolver has.
func (s *Server) resolveAlias(reply *dns.Msg, q dns.Question, overTCP bool) {
	if q.Qtype == dns.TypeCNAME {
		return
	}
	for range maxAliases {
		if len(reply.Answer) == 0 {
			return
		}
		alias, ok := reply.Answer[len(reply.Answer)-1].(*dns.CNAME)
		if !ok {
			return
		}
		if target := strings.ToLower(alias.Target); dns.IsSubDomain(s.zone, target) {
			a, _ := s.records.lookUp(target, q.Qtype)
			if len(a.records) == 0 {
				return
			}
			reply.Answer, reply.Extra = append(reply.Answer, a.records...), append(reply.Extra, a.extra...)
			continue
		}
		req := new(dns.Msg).SetQuestion(alias.Target, q.Qtype)
		if got := s.forward(req, new(dns.Msg).SetReply(req), overTCP); got.Rcode == dns.RcodeSuccess {
			reply.Answer = append(reply.Answer, got.Answer...)
		}
		return
	}
}

// resolveTime bounds the wait for one resolver.
const resolveTime = 2 * time.Second

// forward asks the resolvers one after the other.
func (s *Server) forward(req, reply *dns.Msg, overTCP bool) *dns.Msg {
	c := &dns.Client{Timeout: resolveTime, UDPSize: dns.DefaultMsgSize}
	if overTCP {
		c.Net = "tcp"
	}
	reply.Rcode = dns.RcodeRefused
	for _, r := range s.cfg.Resolvers {
		got, _, err := c.Exchange(req, r.String())
		if err == nil {
			got.Id = req.Id
			return got
		}
		reply.Rcode = dns.RcodeServerFailure
	}
	return reply
}
