package process

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// routes are the ways to Services that the supervisor has or will have. They are safe for concurrent use.
type routes struct {
	mu       sync.Mutex
	table    map[routeKey]wire.Route
	ranges   []string
	complete bool                  // SetRoutes has been called: until then the supervisor keeps what an earlier daemon has sent
	changed  map[routeKey]struct{} // since the last message
	reranged bool
	sockets  func() ([]*os.File, error) // see KeepSockets
	wake     chan struct{}              // receives when there is something to send
}

type routeKey struct{ protocol, address string }

func keyOf(r *wire.Route) routeKey { return routeKey{r.Protocol, r.Address} }

func newRoutes() *routes {
	return &routes{table: map[routeKey]wire.Route{}, changed: map[routeKey]struct{}{}, wake: make(chan struct{}, 1)}
}

// SetRoutes makes all the routes of pods to Services. Until it is called for the first time, the routes of an earlier Host are in effect.
// ranges are the prefixes of the Services' addresses: those without a route refuse connections.
func (h *Host) SetRoutes(ranges []string, all []wire.Route) {
	r := h.routes
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.table {
		r.changed[key] = struct{}{}
	}
	clear(r.table)
	for i := range all {
		r.table[keyOf(&all[i])] = all[i]
		r.changed[keyOf(&all[i])] = struct{}{}
	}
	r.ranges, r.reranged, r.complete = ranges, true, true
	r.notify()
}

// ChangeRoutes changes some of the routes, after SetRoutes. Pods' next connections take them.
func (h *Host) ChangeRoutes(changed []wire.Route) {
	r := h.routes
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range changed {
		key := keyOf(&changed[i])
		if old, ok := r.table[key]; ok != changed[i].Gone && (!ok || reflect.DeepEqual(old, changed[i])) {
			continue // as before
		}
		if changed[i].Gone {
			delete(r.table, key)
		} else {
			r.table[key] = changed[i]
		}
		r.changed[key] = struct{}{}
	}
	r.notify()
}

// SetServiceRanges changes the prefixes of the Services' addresses.
func (h *Host) SetServiceRanges(ranges []string) {
	r := h.routes
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ranges, r.reranged = ranges, true
	r.notify()
}

// OlderPods returns the pods with containers that were started when no Service had an address off loopback: the supervisor does not get all the
// packets that they send to one. There are none where the machine refuses the supervisor those of every pod.
func (h *Host) OlderPods() []types.UID {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refused != "" {
		return nil
	}
	pods := map[types.UID]bool{}
	for _, s := range h.status {
		if s.Running && !s.AllDatagrams {
			pods[types.UID(s.Spec.Pod)] = true
		}
	}
	return slices.Collect(maps.Keys(pods))
}

// notify wakes the sender. r.mu must be held.
func (r *routes) notify() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// KeepSockets makes the supervisor keep copies of this process's listening sockets for the next process, which gets them from HeldSockets. open
// returns the copies, which the Host closes. The Host calls it once for each supervisor.
func (h *Host) KeepSockets(open func() ([]*os.File, error)) {
	h.routes.mu.Lock()
	defer h.routes.mu.Unlock()
	h.routes.sockets = open
	h.routes.notify()
}

// sendSockets sends the sockets to keep, and reports whether there were any.
func (r *routes) sendSockets(conn *wire.Conn) bool {
	r.mu.Lock()
	open := r.sockets
	r.mu.Unlock()
	if open == nil {
		return false
	}
	files, err := open()
	defer wire.CloseFiles(files)
	if err != nil {
		slog.Warn("clients of this daemon's DNS server will not outlive it", "err", err)
		return true
	}
	_ = conn.Send(wire.Routes{Sockets: true}, files...) // the next supervisor gets them
	return true
}

// HeldSockets returns the sockets that the supervisor keeps of an earlier process (KeepSockets), in their order. The caller closes them. There are
// none if no supervisor runs, and the supervisor closes them some time after the end of that process.
func (h *Host) HeldSockets() ([]*os.File, error) {
	conn, err := wire.Dial(h.path(wire.SocketFile))
	if err != nil {
		return nil, nil // no supervisor runs
	}
	defer conn.Close()
	var reply wire.Reply
	if err := conn.Send(wire.Request{Op: wire.Sockets}); err != nil {
		return nil, err
	}
	files, err := conn.Receive(&reply)
	if err == nil && reply.Error != "" {
		wire.CloseFiles(files)
		return nil, reply.Err()
	}
	return files, err
}

// maxRoutes is the number of routes in one message.
const maxRoutes = 256

// send sends the routes to a supervisor that has just been attached to: all of them, and then the changes. It returns when ctx ends or the
// supervisor hangs up.
func (r *routes) send(ctx context.Context, conn *wire.Conn) {
	r.mu.Lock()
	r.notify()
	r.mu.Unlock()
	for first, kept := true, false; ; {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		}
		if !kept {
			kept = r.sendSockets(conn)
		}
		for _, m := range r.messages(&first) {
			if conn.Send(m) != nil {
				return // the next supervisor gets all of them
			}
		}
	}
}

// messages returns the messages with what has changed. The first ones have everything, and replace the supervisor's table.
func (r *routes) messages(first *bool) []wire.Routes {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.complete {
		return nil
	}
	var set []wire.Route
	if *first {
		for _, route := range r.table {
			set = append(set, route)
		}
	} else {
		for key := range r.changed {
			route, ok := r.table[key]
			if !ok {
				route = wire.Route{Protocol: key.protocol, Address: key.address, Gone: true}
			}
			set = append(set, route)
		}
	}
	var all []wire.Routes
	for len(set) > maxRoutes {
		all, set = append(all, wire.Routes{Set: set[:maxRoutes], More: *first}), set[maxRoutes:]
	}
	all = append(all, wire.Routes{Set: set})
	if *first {
		all[0].Replace = true
	}
	if *first || r.reranged {
		all[0].Ranges = append([]string{}, r.ranges...)
	}
	*first, r.reranged = false, false
	clear(r.changed)
	return all
}
