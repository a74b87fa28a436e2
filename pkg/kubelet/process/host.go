// Package process owns the runtime that runs containers as plain processes of this machine: without root, namespaces and a
// container engine. A container has its own session and process group. Its standard input is /dev/null unless the pod sets
// stdin, it can't gain privileges, and its output goes to its log. The runtime reports what it can't provide (Unhonoured,
// Features):
//
//   - The file system is the host's. Where the machine grants mount namespaces (to root, or in a user namespace), a container has its
//     volumes, its hosts file and its termination message at their paths, and the pod's host name; package launch describes how.
//   - Each container also has a root directory with all its mounts below their paths: /etc/config is at $MINIKCTL_ROOT/etc/config. It is
//     the default of the working directory and of $HOME. Without mount namespaces the volumes are only there: the runtime maps the
//     paths of the program and the working directory, replaces $(MINIKCTL_ROOT) in arguments and environment, refuses a container
//     whose mount path is a path of the machine, and reports that volumes are as writable as their sources.
//   - On Linux each pod has its own address in the daemon's 127.N.0.0/16. Sockets that its processes bind to any address
//     or to loopback are bound to that address, so that several pods can use one port. Ports below 1024 need the usual
//     privileges. Where the machine refuses the filter that this takes, and on other systems, pods share 127.0.0.1.
//   - Memory limits are enforced by cgroups of either version where the supervisor may make some, and otherwise watched: a container above
//     its limit is killed as OOMKilled. CPU limits and the limit of a pod's processes are enforced by cgroups, too, and have no effect
//     without.
//
// One Host serves all nodes of a daemon, and each node has a Runtime of the Host. The processes belong to a supervisor
// (pkg/supervisor), which the Host starts and attaches to. Pods run on when the daemon dies, and the next Host over the same
// directory finds them. The Host keeps the pods and their addresses on disk.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/network/addr"
	"github.com/minikctl/minikctl/pkg/supervisor/remove"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// Config configures a Host.
type Config struct {
	Root  string      // the runtime's directory, used by nothing else; created if missing
	Range addr.Range  // the daemon's pod addresses; 0: pods share 127.0.0.1
	Clock clock.Clock // nil: the machine's
	// BestEffort: containers start where they can't have the user or the groups of their security context, with those of the daemon.
	BestEffort bool
	// BestEffortMounts: without a mount namespace containers start whose mounts would hide files of the machine. They work with these files.
	BestEffortMounts bool
	// PodUsers: the kubelets give each pod a user of its own, which Features reports.
	PodUsers bool
	PodPIDs  int64 // the limit of the processes and threads of each pod; 0: none
}

// Host runs the pods of all nodes of one daemon. It is safe for concurrent use.
type Host struct {
	root   string
	clock  clock.Clock
	pool   *addr.Pool // nil: no addresses
	meter  meter
	routes *routes
	probe  string // an address that no pod has, to try whether pods can have addresses
	cancel context.CancelFunc
	ended  chan struct{} // closed when the link has ended

	bestEffort, bestMounts, podUsers bool
	podPIDs                          int64

	starting int // attempts to connect since the last connection; used by the link only

	mu          sync.Mutex
	pods        map[types.UID]*pod
	nodes       map[string]*Runtime
	status      map[string]*wire.Status
	metas       map[string]containerMeta // of the containers in status, decoded once
	pipes       map[string][]*os.File    // kept for the next supervisor
	removed     map[string]struct{}      // removed; older events about them are ignored
	synced      bool                     // status is complete
	syncChanged chan struct{}            // closed and replaced when synced or failed changes
	probed      bool                     // a supervisor has probed the machine
	refused     string                   // why pods share 127.0.0.1; set once synced
	namespaces  bool                     // containers have mount namespaces; set once synced
	// memoryEnforced: the kernel enforces memory limits; set once synced.
	memoryEnforced bool
	cpuEnforced    bool  // the kernel enforces CPU limits; set once synced
	pidsEnforced   bool  // the kernel enforces the limit of a pod's processes; set once synced
	failed         error // why no supervisor could be started, at the last attempt

	namespacesRefused string // why they have none; "": the supervisor is of a version without them
}

// Open returns the host over cfg.Root, with the pods that are there. It takes ctx's values, but lives until Close.
func Open(ctx context.Context, cfg Config) (*Host, error) {
	root, err := filepath.Abs(cfg.Root)
	if err != nil {
		return nil, fmt.Errorf("open process runtime: %w", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h := &Host{
		root:        root,
		clock:       cfg.Clock,
		bestEffort:  cfg.BestEffort,
		bestMounts:  cfg.BestEffortMounts,
		podUsers:    cfg.PodUsers,
		podPIDs:     cfg.PodPIDs,
		cancel:      cancel,
		ended:       make(chan struct{}),
		nodes:       map[string]*Runtime{},
		status:      map[string]*wire.Status{},
		metas:       map[string]containerMeta{},
		pipes:       map[string][]*os.File{},
		removed:     map[string]struct{}{},
		syncChanged: make(chan struct{}),
		routes:      newRoutes(),
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
	for id := range h.pipes {
		h.release(id)
	}
	return nil
}

// StopAll ends all containers and the supervisor. The next Host finds the pods with their exited containers. After StopAll,
// only Close may be called.
func (h *Host) StopAll(ctx context.Context, grace time.Duration) error {
	h.cancel()
	<-h.ended
	for {
		conn, err := wire.Dial(h.path(wire.SocketFile))
		if entries, _ := os.ReadDir(h.path(wire.Containers)); err != nil && len(entries) == 0 {
			return nil
		}
		if err != nil {
			// No supervisor runs, but containers may: they outlive a supervisor that was killed.
			conn, err = h.startSupervisor()
			if err != nil && h.locked() && clock.Sleep(ctx, h.clock, retryFirst) == nil {
				continue // one that a keeper has just started
			}
			if err != nil {
				return fmt.Errorf("stop all containers: %w", err)
			}
		}
		_, err = roundTrip(ctx, conn, &wire.Request{Op: wire.Shutdown, Grace: grace})
		switch {
		case hungUp(err) && ctx.Err() == nil:
			// The supervisor ended before it took the request: it had nothing to do, or was killed.
			if err := h.awaitSupervisorEnd(ctx); err != nil {
				return err
			}
		case err != nil:
			return fmt.Errorf("stop all containers: %w", err)
		default:
			return h.awaitSupervisorEnd(ctx)
		}
	}
}

// hungUp reports whether the other end of a connection has closed it.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// Purge ends everything at once and removes the host's directory.
func (h *Host) Purge(ctx context.Context) error { return h.PurgeAfter(ctx, 0) }

// PurgeAfter is like Purge, and gives the containers a grace period before they are killed.
func (h *Host) PurgeAfter(ctx context.Context, grace time.Duration) error {
	err := h.StopAll(ctx, grace)
	if err := errors.Join(err, h.Close()); err != nil {
		return err
	}
	return remove.All(h.root)
}

// Supervised reports whether there are containers below root and a supervisor that serves them.
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
