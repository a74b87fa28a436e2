package proxy

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

// chooser chooses the endpoints of one frontend's connections, in turn. It is safe for concurrent use.
type chooser struct {
	nodeOf func(client netip.Addr) string // of a pod; "" for other clients
	now    func() time.Time

	mu    sync.Mutex
	to    backends
	next  int
	stuck map[netip.Addr]assignment // by client, with affinity
}

// assignment is the endpoint of a client with affinity.
type assignment struct {
	to   endpoint
	used time.Time
}

func (c *chooser) set(to backends) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.to = to
	if to.affinity == 0 {
		c.stuck = nil
	}
}

// choose returns the endpoints for a connection of client, the best first: a connection that is refused by one goes to the next.
func (c *chooser) choose(client netip.Addr) []endpoint {
	node := ""
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.to.sources) > 0 && !slices.ContainsFunc(c.to.sources, func(p netip.Prefix) bool { return p.Contains(client) }) {
		return nil
	}
	if c.to.local {
		node = c.nodeOf(client)
	}
	var list []endpoint
	for i := range c.to.endpoints {
		e := c.to.endpoints[(c.next+i)%len(c.to.endpoints)]
		if node == "" || e.node == node {
			list = append(list, e)
		}
	}
	c.next++
	if c.to.affinity == 0 || len(list) == 0 {
		return list
	}
	return c.stick(client, list)
}

// stick puts the endpoint that the client is assigned to first.
func (c *chooser) stick(client netip.Addr, list []endpoint) []endpoint {
	now := c.now()
	for ip, a := range c.stuck {
		if now.Sub(a.used) > c.to.affinity {
			delete(c.stuck, ip)
		}
	}
	first := list[0]
	if a, ok := c.stuck[client]; ok {
		for i, e := range list {
			if e == a.to {
				list[0], list[i] = e, first
				first = e
			}
		}
	}
	if c.stuck == nil {
		c.stuck = map[netip.Addr]assignment{}
	}
	c.stuck[client] = assignment{first, now}
	return list
}

// has reports whether an endpoint is one of the current ones.
func (c *chooser) has(e endpoint) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, have := range c.to.endpoints {
		if have == e {
			return true
		}
	}
	return false
}
