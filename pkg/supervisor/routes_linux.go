//go:build linux && (amd64 || arm64)

package supervisor

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// routes are the ways from the addresses of Services to their endpoints, as the daemon has sent them. They stay while no daemon is
// attached. They are safe for concurrent use.
type routes struct {
	mu      sync.Mutex
	table   map[socketAddress]*route
	hosts   map[[4]byte]int // how many routes of the table an address has
	ranges  []prefix
	filling map[socketAddress]*route // the table that a Replace has begun; nil: none
	peers   peers
}

// routesServed: the supervisor receives routes.
const routesServed = true

// socketAddress is an address of a protocol.
type socketAddress struct {
	protocol uint8 // IPPROTO_TCP or IPPROTO_UDP
	ip       [4]byte
	port     uint16
}

// route leads to the endpoints of one address. Its lists never change.
type route struct {
	endpoints []endpoint
	affinity  time.Duration
	local     bool
	sources   []prefix
	turn      int
	stuck     map[[4]byte]assignment // by client, with affinity
}

type endpoint struct {
	ip   [4]byte
	port uint16
	node string
}

// assignment is the endpoint of a client with affinity.
type assignment struct {
	to   endpoint
	used time.Time
}

// prefix is a range of IPv4 addresses.
type prefix struct {
	ip   uint32
	mask uint32
}

func (p prefix) contains(ip [4]byte) bool { return toUint32(ip)&p.mask == p.ip }

func (p prefix) loopback() bool { return p.ip>>24 == uint32(localhost[0]) }

func toUint32(b [4]byte) uint32 {
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

// apply carries out a message of the daemon.
func (r *routes) apply(m *wire.Routes) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.Replace {
		r.filling = map[socketAddress]*route{}
	}
	into := r.table
	if r.filling != nil {
		into = r.filling
	}
	if into == nil {
		into = map[socketAddress]*route{}
		r.table = into
	}
	for i := range m.Set {
		r.set(into, &m.Set[i])
	}
	if m.Ranges != nil {
		r.ranges = parsePrefixes(m.Ranges)
	}
	if r.filling != nil && !m.More {
		r.table, r.filling = r.filling, nil
		r.hosts = map[[4]byte]int{}
		for at := range r.table {
			r.hosts[at.ip]++
		}
	}
}

// set changes one route of a table. It keeps the clients' assignments. r.mu must be held.
func (r *routes) set(table map[socketAddress]*route, w *wire.Route) {
	at, ok := parseSocketAddress(w.Protocol, w.Address)
	if !ok {
		return // of a later version
	}
	if r.filling == nil {
		r.count(at, w.Gone)
	}
	if w.Gone {
		delete(table, at)
		return
	}
	to := &route{affinity: w.Affinity, local: w.Local, sources: parsePrefixes(w.Sources)}
	if len(w.Endpoints) > 0 {
		to.endpoints = make([]endpoint, 0, len(w.Endpoints))
	}
	for _, e := range w.Endpoints {
		if ip, port, ok := parseAddressPort(e.Address); ok {
			to.endpoints = append(to.endpoints, endpoint{ip, port, e.Node})
		}
	}
	if old := r.table[at]; old != nil {
		to.turn = old.turn
		if to.affinity > 0 {
			to.stuck = old.stuck
		}
	}
	table[at] = to
}

// count keeps hosts. r.mu must be held.
func (r *routes) count(at socketAddress, gone bool) {
	_, exists := r.table[at]
	if r.hosts == nil {
		r.hosts = map[[4]byte]int{}
	}
	switch {
	case gone && exists:
		if r.hosts[at.ip]--; r.hosts[at.ip] == 0 {
			delete(r.hosts, at.ip)
		}
	case !gone && !exists:
		r.hosts[at.ip]++
	}
}

// concern reports whether connections to an address may take a route, or are refused without one.
func (r *routes) concern(ip [4]byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hosts[ip] > 0 || r.inRanges(ip)
}

// leave reports whether packets for some Services would leave the machine, because their addresses are not on loopback.
func (r *routes) leave() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.ranges {
		if !p.loopback() {
			return true
		}
	}
	for ip := range r.hosts {
		if ip[0] != localhost[0] {
			return true
		}
	}
	return false
}

// home returns an address of the daemon's range; none before a daemon has sent it.
func (r *routes) home() ip {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.ranges {
		if p.loopback() {
			return ipFrom4([4]byte{byte(p.ip >> 24), byte(p.ip >> 16), byte(p.ip >> 8), byte(p.ip)})
		}
	}
	return ip{}
}

// reserved reports whether an address can only be a Service's.
func (r *routes) reserved(ip [4]byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inRanges(ip)
}

func (r *routes) inRanges(ip [4]byte) bool {
	for _, p := range r.ranges {
		if p.contains(ip) {
			return true
		}
	}
	return false
}

// choice is the endpoints of one connection, the best first.
type choice struct {
	list  []endpoint
	first *endpoint // with affinity
	start int
	given int    // how many of list were looked at
	node  string // "": on any node
}

// next returns the next endpoint; false if there is none.
func (c *choice) next() (endpoint, bool) {
	if c.first != nil && c.given == 0 {
		c.given = 1
		return *c.first, true
	}
	offset := 0
	if c.first != nil {
		offset = 1
	}
	for c.given < len(c.list)+offset {
		e := c.list[(c.start+c.given-offset)%len(c.list)]
		c.given++
		if (c.node == "" || e.node == c.node) && (c.first == nil || e != *c.first) {
			return e, true
		}
	}
	return endpoint{}, false
}

// choose returns the endpoints for a connection of a client on a node; false if no route has the address.
func (r *routes) choose(at socketAddress, client [4]byte, node string) (choice, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	to := r.table[at]
	if to == nil {
		return choice{}, false
	}
	if len(to.endpoints) == 0 || !to.serves(client) {
		return choice{}, true
	}
	c := choice{list: to.endpoints, start: to.turn % len(to.endpoints)}
	if to.local {
		c.node = node
	}
	to.turn = c.start + 1
	if to.affinity > 0 {
		to.stick(client, &c)
	}
	return c, true
}

func (to *route) serves(client [4]byte) bool {
	for _, p := range to.sources {
		if p.contains(client) {
			return true
		}
	}
	return len(to.sources) == 0
}

// stick makes the endpoint that the client is assigned to the first one.
func (to *route) stick(client [4]byte, c *choice) {
	now := time.Now()
	for ip, a := range to.stuck {
		if now.Sub(a.used) > to.affinity {
			delete(to.stuck, ip)
		}
	}
	rest := *c
	first, ok := rest.next()
	if !ok {
		return
	}
	if a, ok := to.stuck[client]; ok {
		for _, e := range to.endpoints {
			if e == a.to && (c.node == "" || e.node == c.node) {
				first = e
			}
		}
	}
	if to.stuck == nil {
		to.stuck = map[[4]byte]assignment{}
	}
	to.stuck[client] = assignment{first, now}
	c.first = &first
}

func parseSocketAddress(protocol, address string) (socketAddress, bool) {
	at := socketAddress{protocol: unix.IPPROTO_TCP}
	switch protocol {
	case "TCP":
	case "UDP":
		at.protocol = unix.IPPROTO_UDP
	default:
		return at, false
	}
	var ok bool
	at.ip, at.port, ok = parseAddressPort(address)
	return at, ok
}

func parseAddressPort(s string) (ip [4]byte, port uint16, ok bool) {
	host, number, _ := strings.Cut(s, ":")
	a, ok := parseIP(host)
	n, err := strconv.ParseUint(number, 10, 16)
	return a.as4(), uint16(n), ok && err == nil
}

func parsePrefixes(list []string) []prefix {
	var all []prefix
	for _, s := range list {
		host, bits, _ := strings.Cut(s, "/")
		a, ok := parseIP(host)
		n, err := strconv.ParseUint(bits, 10, 8)
		if !ok || err != nil || n > 32 {
			continue // IPv6, which no pod has
		}
		mask := uint32(uint64(1)<<32 - uint64(1)<<(32-n))
		all = append(all, prefix{toUint32(a.as4()) & mask, mask})
	}
	return all
}
