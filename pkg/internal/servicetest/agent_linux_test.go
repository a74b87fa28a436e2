package servicetest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// agent makes connections to Services and serves them: in a pod, or in the process of the test as a client outside pods.
type agent struct {
	name   string
	source netip.Addr // of the connections; zero: what the system chooses

	mu   sync.Mutex
	held map[string]net.Conn
}

// command is what an agent does.
type command struct {
	Op      string // listen, dial, unconnected, echo, hold, use, hosts, messages, resolve, wrong, stream, refused, time
	What    string // for time: connect, bind, peer, sendmsg, transfer, name; for messages: the way; for refused: the call
	Workers int    // for time
	Network string // tcp, udp
	Address string
	To      []string // for messages: the receivers
	Count   int
	Size    int
}

// result is what a connection has shown.
type result struct {
	Server, Client string // the name of the agent that has answered, and the address that it has seen
	Peer           string // the address of the server for the client
	Direct         bool   // the server has seen the socket of the client
	Refused        bool
	Sent           []int // the lengths of the messages that were sent
	Err            string

	Times []time.Duration `json:",omitempty"` // of the operations, in order
	Took  time.Duration   `json:",omitempty"` // for all of them
}

const (
	agentVariable   = "MINIKCTL_SERVICE_AGENT"
	addressVariable = "MINIKCTL_SERVICE_AGENT_ADDRESS" // where the agent is found; unset: at every address
	agentPort       = "7000"
	// patience bounds the wait for an answer that comes at once.
	patience = 30 * time.Second
	// silence is the wait for a datagram that may be lost.
	silence = time.Second
)

// serveAgent carries out the commands that arrive at the agent's port.
func serveAgent(name string) error {
	l, err := net.Listen("tcp4", net.JoinHostPort(cmp.Or(os.Getenv(addressVariable), "0.0.0.0"), agentPort))
	if err != nil {
		return err
	}
	a := &agent{name: name}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			var c command
			if json.NewDecoder(conn).Decode(&c) == nil {
				_ = json.NewEncoder(conn).Encode(a.do(c))
			}
		}()
	}
}

func (a *agent) do(c command) []result {
	switch c.Op {
	case "listen":
		return []result{failure(a.listen(c))}
	case "hold":
		return []result{a.hold(c)}
	case "use":
		a.mu.Lock()
		conn := a.held[c.Address]
		a.mu.Unlock()
		if conn == nil {
			return []result{{Err: "no connection is held"}}
		}
		return []result{failure(echo(conn, max(c.Size, 1)))}
	case "time":
		return []result{a.time(c)}
	case "messages":
		return messages(c)
	case "resolve":
		return []result{asResolver(c.Address)}
	case "wrong":
		return []result{failure(wrongMessages(c.To[0], c.To[1]))}
	case "stream":
		return []result{failure(stream(c.Address))}
	case "refused":
		return []result{failure(refusedCall(c))}
	}
	var all []result
	for range max(c.Count, 1) {
		switch c.Op {
		case "dial":
			all = append(all, a.dial(c))
		case "unconnected":
			all = append(all, a.unconnected(c))
		case "echo":
			all = append(all, a.echo(c))
		case "hosts":
			all = append(all, hosts(c))
		}
	}
	return all
}

func failure(err error) result {
	if err == nil {
		return result{}
	}
	return result{Err: err.Error(), Refused: errors.Is(err, syscall.ECONNREFUSED)}
}

func (a *agent) connect(c command) (net.Conn, error) {
	d := net.Dialer{Timeout: patience}
	if a.source.IsValid() {
		at := netip.AddrPortFrom(a.source, 0)
		d.LocalAddr = net.TCPAddrFromAddrPort(at)
		if c.Network == "udp" {
			d.LocalAddr = net.UDPAddrFromAddrPort(at)
		}
	}
	conn, err := d.Dial(c.Network, c.Address)
	if err != nil {
		return nil, err
	}
	wait := patience
	if c.Network == "udp" {
		wait = silence
	}
	return conn, conn.SetDeadline(time.Now().Add(wait))
}

// dial connects, and reads the server's line.
func (a *agent) dial(c command) result {
	conn, err := a.connect(c)
	if err != nil {
		return failure(err)
	}
	defer conn.Close()
	if c.Network == "udp" {
		_, _ = conn.Write([]byte(nameRequest))
	}
	return readLine(conn)
}

func readLine(conn net.Conn) result {
	b := make([]byte, 256)
	n, err := conn.Read(b)
	if err != nil {
		return failure(err)
	}
	server, from, _ := strings.Cut(strings.TrimSpace(string(b[:n])), " ")
	client, _, _ := net.SplitHostPort(from)
	return result{Server: server, Client: client, Peer: conn.RemoteAddr().String(), Direct: from == conn.LocalAddr().String()}
}

// unconnected sends a datagram from a socket that it does not connect, as resolvers do.
func (a *agent) unconnected(c command) result {
	at := netip.AddrPort{}
	if a.source.IsValid() {
		at = netip.AddrPortFrom(a.source, 0)
	}
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
	if err != nil {
		return failure(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(silence))
	if _, err := conn.WriteTo([]byte(nameRequest), net.UDPAddrFromAddrPort(netip.MustParseAddrPort(c.Address))); err != nil {
		return failure(err)
	}
	b := make([]byte, 256)
	n, from, err := conn.ReadFrom(b)
	if err != nil {
		return failure(err)
	}
	server, source, _ := strings.Cut(strings.TrimSpace(string(b[:n])), " ")
	client, _, _ := net.SplitHostPort(source)
	return result{Server: server, Client: client, Peer: from.String()}
}

// echo sends bytes and compares what comes back.
func (a *agent) echo(c command) result {
	conn, err := a.connect(c)
	if err != nil {
		return failure(err)
	}
	defer conn.Close()
	if c.Network == "tcp" {
		if r := readLine(conn); r.Err != "" {
			return r
		}
	}
	return failure(echo(conn, c.Size))
}

func echo(conn net.Conn, size int) error {
	want := bytes.Repeat([]byte{'x'}, size)
	go func() { _, _ = conn.Write(want) }() // a failure shows in what comes back
	got := make([]byte, size)
	if _, err := io.ReadFull(conn, got); err != nil {
		return err
	}
	if !bytes.Equal(want, got) {
		return errors.New("the bytes differ")
	}
	return nil
}

// hold opens a connection for later uses by its address.
func (a *agent) hold(c command) result {
	conn, err := a.connect(c)
	if err != nil {
		return failure(err)
	}
	r := readLine(conn)
	_ = conn.SetDeadline(time.Now().Add(10 * patience))
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held == nil {
		a.held = map[string]net.Conn{}
	}
	a.held[c.Address] = conn
	return r
}

// hosts resolves a name with Go's resolver.
func hosts(c command) result {
	all, err := net.LookupHost(c.Address)
	if err != nil {
		return failure(err)
	}
	return result{Server: strings.Join(all, " ")}
}

// nameRequest is the datagram that requests the names of the agent and the client.
const nameRequest = "names"

// listen serves a port until the agent ends: each connection gets a line with the names of the agent and the client, and its own bytes
// back. A datagram with the content nameRequest gets the line, any other its own bytes.
func (a *agent) listen(c command) error {
	if c.Network == "udp" {
		conn, err := net.ListenPacket("udp4", c.Address)
		if err != nil {
			return err
		}
		go a.answer(conn)
		return nil
	}
	l, err := net.Listen("tcp4", c.Address)
	if err != nil {
		return err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.WriteString(conn, a.line(conn.RemoteAddr()))
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return nil
}

func (a *agent) answer(conn net.PacketConn) {
	b := make([]byte, 1<<16)
	for {
		n, from, err := conn.ReadFrom(b)
		if err != nil {
			return
		}
		reply := b[:n]
		if string(reply) == nameRequest {
			reply = []byte(a.line(from))
		}
		_, _ = conn.WriteTo(reply, from)
	}
}

func (a *agent) line(client net.Addr) string { return a.name + " " + client.String() + "\n" }

// ask has the agent in a pod carry out a command.
func ask(ip string, c command) ([]result, error) {
	conn, err := net.DialTimeout("tcp4", net.JoinHostPort(ip, agentPort), patience)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := json.NewEncoder(conn).Encode(c); err != nil {
		return nil, err
	}
	var all []result
	err = json.NewDecoder(conn).Decode(&all)
	return all, err
}

// runAgent runs the agent if this process is one.
func runAgent() {
	if name := os.Getenv(agentVariable); name != "" {
		fmt.Println(serveAgent(name))
		os.Exit(1)
	}
}
