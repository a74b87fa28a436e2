package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/early"
	"github.com/minikctl/minikctl/pkg/filelock"
	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/supervisor"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

const (
	retryFirst = 10 * time.Millisecond
	retryMax   = time.Second
)

// link stays attached to a supervisor, and starts one if none runs.
func (h *Host) link(ctx context.Context) {
	defer close(h.ended)
	wait := retryFirst
	for ctx.Err() == nil {
		if h.attach(ctx) {
			wait = retryFirst
			continue
		}
		if clock.Sleep(ctx, h.clock, wait) != nil {
			return
		}
		wait = min(2*wait, retryMax)
	}
}

// attach follows the events of one supervisor until that ends. It returns whether the supervisor had reported all its
// containers.
func (h *Host) attach(ctx context.Context) bool {
	conn, err := h.connect()
	if err != nil {
		if h.starting++; !h.locked() || h.starting > maxStarting {
			h.fail(err)
		}
		return false
	}
	h.starting = 0
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	h.dropStatuses()
	if err := conn.Send(wire.Request{Op: wire.Attach, Probe: h.probe}); err != nil {
		conn.Close()
		return false
	}
	ctx, cancel := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	defer func() {
		cancel()
		conn.Close() // ends a pending send
		tasks.Wait()
	}()
	synced := false
	for {
		var e wire.Event
		files, err := conn.Receive(&e)
		if err != nil {
			h.setUnsynced()
			return synced
		}
		if e.Routes && !synced {
			tasks.Go(func() { h.routes.send(ctx, conn) })
		}
		synced = synced || e.Synced
		wire.CloseFiles(files) // of a supervisor of an older version
		h.handle(&e)
		if e.Status != nil && h.isOrphan(e.Status) {
			tasks.Go(func() { h.removeContainer(ctx, kubelet.ContainerID(e.Status.Spec.ID)) })
		}
	}
}

// isOrphan reports whether a container has no pod. The pod was stopped while the supervisor started the container, and then the supervisor was
// killed, or the daemon that had requested the start.
func (h *Host) isOrphan(s *wire.Status) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.status[s.Spec.ID] != nil && h.pods[types.UID(s.Spec.Pod)] == nil
}

// removeContainer stops and removes a container without a pod. After an error the next supervisor reports the container again.
func (h *Host) removeContainer(ctx context.Context, id kubelet.ContainerID) {
	r := Runtime{host: h}
	if r.Stop(ctx, id, 0) == nil {
		_ = r.Remove(ctx, id)
	}
}

// connect returns a connection to the supervisor, which it starts if none runs.
func (h *Host) connect() (*wire.Conn, error) {
	if conn, err := wire.Dial(h.path(wire.SocketFile)); err == nil {
		return conn, nil
	}
	return h.startSupervisor()
}

// startTime bounds the start of a supervisor, which takes some milliseconds.
const startTime = 30 * time.Second

// startSupervisor starts a supervisor and returns a connection to it. It takes no context, so that the Host does not
// close while a supervisor is started but not reachable yet.
func (h *Host) startSupervisor() (*wire.Conn, error) {
	log, err := os.OpenFile(h.path(wire.LogFile), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start supervisor: %w", err)
	}
	defer log.Close()
	ready, theirs, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start supervisor: %w", err)
	}
	defer ready.Close()
	how := supervisor.Command(h.root)
	cmd := &exec.Cmd{
		Path: how.Path, Args: how.Args, Env: how.Env, Dir: "/", Stderr: log, ExtraFiles: []*os.File{theirs},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	early.KeepDescriptors()
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		return nil, fmt.Errorf("start supervisor: %w", err)
	}
	go func() { _ = cmd.Wait() }() // the reason is in its log
	late := h.clock.AfterFunc(startTime, func() { _ = ready.SetReadDeadline(time.Unix(1, 0)) })
	defer late.Stop()
	if _, err := io.Copy(io.Discard, ready); err != nil { // ends when the supervisor accepts connections, or dies
		return nil, fmt.Errorf("start supervisor: %w", err)
	}
	conn, err := wire.Dial(h.path(wire.SocketFile))
	if err != nil {
		return nil, fmt.Errorf("start supervisor: %w; see %s", err, h.path(wire.LogFile))
	}
	return conn, nil
}

// maxStarting is how often an attempt to connect may find a supervisor that has the lock and does not accept connections yet:
// its keeper has just started it.
const maxStarting = 5

// locked reports whether a supervisor has the lock.
func (h *Host) locked() bool { return filelock.Held(h.path(wire.LockFile)) }

// awaitSupervisorEnd waits until the supervisor has released its lock. It uses no files from then on.
func (h *Host) awaitSupervisorEnd(ctx context.Context) error {
	for h.locked() {
		if err := clock.Sleep(ctx, h.clock, time.Millisecond); err != nil {
			return fmt.Errorf("wait for the supervisor to end: %w", err)
		}
	}
	return nil
}

// dropStatuses drops the statuses that the last supervisor has sent. Held descriptors stay.
func (h *Host) dropStatuses() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.status)
	clear(h.metas)
	clear(h.removed)
}

// fail records that no supervisor could be started. Calls fail with err until one serves, and the nodes are not Ready.
func (h *Host) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.setSynced(false, err)
}

func (h *Host) setUnsynced() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.setSynced(false, h.failed)
}

// setSynced records whether status is complete and why no supervisor could be started, wakes the calls that wait, and
// announces a change of health to the nodes. h.mu must be held.
func (h *Host) setSynced(synced bool, failed error) {
	healthy := (h.failed == nil) == (failed == nil)
	h.synced, h.failed = synced, failed
	close(h.syncChanged)
	h.syncChanged = make(chan struct{})
	if synced || !healthy {
		for _, r := range h.nodes {
			r.hint()
		}
	}
}

// health returns why no supervisor can be started, or nil.
func (h *Host) health() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failed
}

// handle applies an event of the supervisor.
func (h *Host) handle(e *wire.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case e.Synced:
		h.probed = true
		h.refused, h.namespaces, h.namespacesRefused = e.Refused, e.Namespaces, e.NamespacesRefused
		h.memoryEnforced, h.cpuEnforced, h.pidsEnforced = e.MemoryEnforced, e.CPUEnforced, e.PIDsEnforced
		h.sync()
	case e.Status != nil:
		h.observe(e.Status)
	case e.Removed != "":
		h.drop(e.Removed)
		delete(h.removed, e.Removed)
	}
}

// sync records that status is complete. h.mu must be held.
func (h *Host) sync() {
	for id := range h.pipes {
		if h.status[id] == nil {
			h.release(id)
		}
	}
	h.setSynced(true, nil)
}

// observe records the status of a container, unless a later one is recorded. h.mu must be held.
func (h *Host) observe(s *wire.Status) {
	id := s.Spec.ID
	if _, gone := h.removed[id]; gone {
		return
	}
	if old := h.status[id]; old != nil && old.Revision >= s.Revision {
		return
	}
	if h.status[id] == nil {
		h.metas[id] = metaOf(s.Spec)
	}
	h.status[id] = s
	switch {
	case !s.Running:
		h.release(id)
	case h.pipes[id] == nil:
		h.pipes[id] = holdPipes(s.Spec)
	}
	if s.Closed {
		h.releaseInput(id)
	}
	h.hintNode(types.UID(s.Spec.Pod))
}

// drop removes a container from status. h.mu must be held.
func (h *Host) drop(id string) {
	s := h.status[id]
	if s == nil {
		return
	}
	delete(h.status, id)
	delete(h.metas, id)
	h.release(id)
	h.hintNode(types.UID(s.Spec.Pod))
}

// hintNode wakes the pod's node. h.mu must be held.
func (h *Host) hintNode(uid types.UID) {
	if p := h.pods[uid]; p != nil && h.nodes[p.Node] != nil {
		h.nodes[p.Node].hint()
	}
}

// call sends a request to the supervisor and returns its reply. While no supervisor runs, it waits for one.
func (h *Host) call(ctx context.Context, req *wire.Request, files ...*os.File) (wire.Reply, error) {
	if err := h.await(ctx); err != nil {
		return wire.Reply{}, err
	}
	conn, err := wire.Dial(h.path(wire.SocketFile))
	if err != nil {
		// The supervisor has just died, or has ended because nothing ran.
		if conn, err = h.redial(ctx); err != nil {
			return wire.Reply{}, err
		}
	}
	return roundTrip(ctx, conn, req, files...)
}

func (h *Host) redial(ctx context.Context) (*wire.Conn, error) {
	for wait := retryFirst; ; wait = min(2*wait, retryMax) {
		if err := clock.Sleep(ctx, h.clock, wait); err != nil {
			return nil, err
		}
		select {
		case <-h.ended:
			return nil, errClosed
		default:
		}
		if conn, err := wire.Dial(h.path(wire.SocketFile)); err == nil {
			return conn, nil
		}
	}
}

var errClosed = errors.New("the process runtime is closed")

// await waits until the status of all containers is known. It returns an error at once while no supervisor can be started.
func (h *Host) await(ctx context.Context) error {
	for {
		h.mu.Lock()
		synced, turned, failed := h.synced, h.syncChanged, h.failed
		h.mu.Unlock()
		if synced || failed != nil {
			return failed
		}
		select {
		case <-turned:
		case <-h.ended:
			return errClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// roundTrip sends one request, waits for its reply, and closes conn.
func roundTrip(ctx context.Context, conn *wire.Conn, req *wire.Request, files ...*os.File) (wire.Reply, error) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	defer conn.Close()
	var reply wire.Reply
	err := conn.Send(req, files...)
	if err == nil {
		var got []*os.File
		got, err = conn.Receive(&reply)
		wire.CloseFiles(got) // of a supervisor of an older version
	}
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return wire.Reply{}, fmt.Errorf("%s: supervisor: %w", req.Op, err)
	}
	return reply, reply.Err()
}
