// Package process owns the runtime that runs containers as plain processes of this machine: no root, no namespaces, no
// container engine. A container has its own session and process group, its standard input is /dev/null unless the pod asks
// for one, it can't gain privileges, and its output goes to its log. What a process of this machine can't have, the runtime says (Unhonoured,
// Features) instead of pretending:
//
//   - The file system is the host's. A volume can't be shown at the path where the pod mounts it, so each container has a
//     folder of its own in which all its mounts are found below their path: /etc/config is at $MINIKCTL_ROOT/etc/config.
//     The runtime itself honours it for the program and the working directory, puts the folder for $(MINIKCTL_ROOT) in
//     arguments and environment, starts in it when the pod names no working directory, and lets it be $HOME unless the pod
//     says otherwise. A mount is as writable as its source.
//   - On Linux each pod has an address of its own in the daemon's 127.N.0.0/16: what its processes bind on any address or
//     on loopback is bound there, so that several pods can use one port. A port below 1024 needs what it always needs.
//     Where the machine refuses the filter that this takes, and on other systems, pods share 127.0.0.1.
//   - Limits of memory are watched (and the container killed as OOMKilled), not enforced; limits of CPU are not.
//
// One Host serves all nodes of a daemon; each node has a Runtime of it. The processes belong to a supervisor
// (pkg/supervisor), which the Host starts and attaches to: a daemon that dies leaves its pods running, and the next Host over
// the same folder finds them. The Host keeps the pods themselves, and with them their addresses, on disk.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/network/addr"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// Config says where a Host keeps its things.
type Config struct {
	Root  string      // a folder of its own; made if missing
	Range addr.Range  // the daemon's pod addresses; 0: pods share 127.0.0.1
	Clock clock.Clock // nil: the machine's
}

// Host runs the pods of all nodes of one daemon. It is safe for concurrent use.
type Host struct {
	root   string
	clock  clock.Clock
	pool   *addr.Pool // nil: no addresses
	probe  string     // an address that no pod has, to find out whether pods can have one
	cancel context.CancelFunc
	ended  chan struct{} // closed when the link has ended

	mu      sync.Mutex
	pods    map[types.UID]*pod
	nodes   map[string]*Runtime
	status  map[string]*wire.Status
	notify  map[string]*os.File   // kept for the next supervisor
	pipes   map[string][]*os.File // likewise
	removed map[string]struct{}   // told to be removed; older news of them is void
	synced  bool                  // status is complete
	turned  chan struct{}         // closed and replaced when synced or failed changes
	refused string                // why pods share 127.0.0.1; known once synced
	failed  error                 // why no supervisor could be started, at the last attempt
}

// Open returns the host over cfg.Root, with the pods that are there. It takes ctx's values, but lives until Close.
func Open(ctx context.Context, cfg Config) (*Host, error) {
	root, err := filepath.Abs(cfg.Root)
	if err != nil {
		return nil, fmt.Errorf("open process runtime: %w", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h := &Host{
		root:    root,
		clock:   cfg.Clock,
		cancel:  cancel,
		ended:   make(chan struct{}),
		nodes:   map[string]*Runtime{},
		status:  map[string]*wire.Status{},
		notify:  map[string]*os.File{},
		pipes:   map[string][]*os.File{},
		removed: map[string]struct{}{},
		turned:  make(chan struct{}),
	}
	if h.clock == nil {
		h.clock = clock.Real()
	}
	if cfg.Range.Valid() {
		h.pool = addr.NewPool(cfg.Range)
		h.probe = cfg.Range.Own(255).String()
	}
	if err := h.load(); err != nil {
		cancel()
		return nil, fmt.Errorf("open process runtime: %w", err)
	}
	go h.link(ctx)
	return h, nil
}

// Runtime returns the runtime of a node. Calling it again for the node returns the same.
func (h *Host) Runtime(node string) *Runtime {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.nodes[node]
	if r == nil {
		r = &Runtime{host: h, node: node, changed: make(chan struct{}, 1)}
		h.nodes[node] = r
	}
	return r
}

// Close detaches from the supervisor. Pods run on.
func (h *Host) Close() error {
	h.cancel()
	<-h.ended
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range h.held() {
		h.letGo(id)
	}
	return nil
}

// StopAll ends all containers, and the supervisor with them. The pods stay known, with their exited containers, to the
// next host; this one can only be closed.
func (h *Host) StopAll(ctx context.Context, grace time.Duration) error {
	h.cancel()
	<-h.ended
	conn, err := wire.Dial(h.path(wire.SocketFile))
	if entries, _ := os.ReadDir(h.path(wire.Containers)); err != nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		// Nobody is there; but containers may be: they outlive a supervisor that was killed.
		if conn, err = h.startSupervisor(); err != nil {
			return fmt.Errorf("stop all containers: %w", err)
		}
	}
	if _, _, err := roundTrip(ctx, conn, &wire.Request{Op: wire.Shutdown, Grace: grace}); err != nil {
		return fmt.Errorf("stop all containers: %w", err)
	}
	return h.awaitSupervisorEnd(ctx)
}

// Purge ends everything at once and removes the host's folder.
func (h *Host) Purge(ctx context.Context) error {
	err := h.StopAll(ctx, 0)
	if err := errors.Join(err, h.Close()); err != nil {
		return err
	}
	return os.RemoveAll(h.root)
}

// Supervised reports whether a host's containers have outlived it: whether there are some below root, and a supervisor
// that looks after them.
func Supervised(root string) bool {
	entries, _ := os.ReadDir(filepath.Join(root, wire.Containers))
	if len(entries) == 0 {
		return false
	}
	conn, err := wire.Dial(filepath.Join(root, wire.SocketFile))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

func (h *Host) path(name string) string { return filepath.Join(h.root, name) }
