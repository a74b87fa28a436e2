package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/early"
	"github.com/minikctl/minikctl/pkg/supervisor"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

const (
	retryFirst = 10 * time.Millisecond
	retryMax   = time.Second
)

// link stays attached to a supervisor, and starts one where there is none.
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

// attach follows one supervisor until it is gone, and tells whether it had got as far as to tell of all its containers.
func (h *Host) attach(ctx context.Context) bool {
	conn, err := h.connect()
	if err != nil {
		h.fail(err)
		return false
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	defer conn.Close()
	h.forget()
	if err := conn.Send(wire.Request{Op: wire.Attach, Probe: h.probe}); err != nil {
		return false
	}
	h.handOver(ctx)
	synced := false
	for {
		var e wire.Event
		files, err := conn.Receive(&e)
		if err != nil {
			h.unsync()
			return synced
		}
		synced = synced || e.Synced
		h.take(&e, files)
	}
}

// connect returns a connection to the supervisor, starting it if need be.
func (h *Host) connect() (*wire.Conn, error) {
	if conn, err := wire.Dial(h.path(wire.SocketFile)); err == nil {
		return conn, nil
	}
	return h.startSupervisor()
}

// startTime bounds how long a supervisor may take to start, which is some milliseconds.
const startTime = 30 * time.Second

// startSupervisor is not cut short: whoever ends the host must find a supervisor that can be told, or none.
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
	go func() { _ = cmd.Wait() }() // its log says why it ended
	late := h.clock.AfterFunc(startTime, func() { _ = ready.SetReadDeadline(time.Unix(1, 0)) })
	defer late.Stop()
	if _, err := io.Copy(io.Discard, ready); err != nil { // ends when it serves, or dies
		return nil, fmt.Errorf("start supervisor: %w", err)
	}
	conn, err := wire.Dial(h.path(wire.SocketFile))
	if err != nil {
		return nil, fmt.Errorf("start supervisor: %w; see %s", err, h.path(wire.LogFile))
	}
	return conn, nil
}

// awaitSupervisorEnd waits until the supervisor has given up its lock, and with it all its files.
func (h *Host) awaitSupervisorEnd(ctx context.Context) error {
	f, err := os.OpenFile(h.path(wire.LockFile), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return nil
		}
		if err := clock.Sleep(ctx, h.clock, time.Millisecond); err != nil {
			return fmt.Errorf("wait for the supervisor to end: %w", err)
		}
	}
}

// forget drops what a supervisor that is gone has told. Its containers' descriptors stay.
func (h *Host) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.status)
	clear(h.removed)
}

// fail records that no supervisor could be started. Calls fail with err until one serves, and the nodes are not Ready.
func (h *Host) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turn(false, err)
}

func (h *Host) unsync() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turn(false, h.failed)
}

// turn records whether status is complete and why no supervisor could be started, wakes the calls that wait for either,
// and announces a change of health to the nodes. h.mu must be held.
func (h *Host) turn(synced bool, failed error) {
	healthy := (h.failed == nil) == (failed == nil)
	h.synced, h.failed = synced, failed
	close(h.turned)
	h.turned = make(chan struct{})
	if synced || !healthy {
		for _, r := range h.nodes {
			r.nudge()
		}
	}
}

// health returns why no supervisor can be started, or nil.
func (h *Host) health() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failed
}

// handOver gives a new supervisor the descriptors through which the old one answered the pods' bind and connect calls.
// One that has them already lets these go.
func (h *Host) handOver(ctx context.Context) {
	h.mu.Lock()
	kept := make(map[string]*os.File, len(h.notify))
	for id, f := range h.notify {
		kept[id] = f
	}
	h.mu.Unlock()
	for id, f := range kept {
		conn, err := wire.Dial(h.path(wire.SocketFile))
		if err != nil {
			return // gone again: the next one gets them
		}
		_, got, _ := roundTrip(ctx, conn, &wire.Request{Op: wire.Handover, ID: id}, f)
		wire.CloseFiles(got)
	}
}

// take takes in what the supervisor tells.
func (h *Host) take(e *wire.Event, files []*os.File) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case e.Synced:
		h.refused = e.Refused
		h.sync()
	case e.Status != nil:
		h.learn(e.Status)
	case e.Removed != "":
		h.drop(e.Removed)
		delete(h.removed, e.Removed)
	case e.Notify != "":
		h.hold(e.Notify, files)
		return
	}
	wire.CloseFiles(files)
}

// sync notes that status is complete. h.mu must be held.
func (h *Host) sync() {
	for _, id := range h.held() {
		if h.status[id] == nil {
			h.letGo(id)
		}
	}
	h.turn(true, nil)
}

// learn notes what became of a container, unless it is old news. h.mu must be held.
func (h *Host) learn(s *wire.Status) {
	id := s.Spec.ID
	if _, gone := h.removed[id]; gone {
		return
	}
	if old := h.status[id]; old != nil && old.Revision >= s.Revision {
		return
	}
	h.status[id] = s
	switch {
	case !s.Running:
		h.letGo(id)
	case h.pipes[id] == nil:
		h.pipes[id] = holdPipes(s.Spec)
	}
	if s.Closed {
		h.letInputGo(id)
	}
	h.nudge(types.UID(s.Spec.Pod))
}

// drop forgets a container. h.mu must be held.
func (h *Host) drop(id string) {
	s := h.status[id]
	if s == nil {
		return
	}
	delete(h.status, id)
	h.letGo(id)
	h.nudge(types.UID(s.Spec.Pod))
}

// nudge tells the pod's node to look again. h.mu must be held.
func (h *Host) nudge(uid types.UID) {
	if p := h.pods[uid]; p != nil && h.nodes[p.Node] != nil {
		h.nodes[p.Node].nudge()
	}
}

// call asks the supervisor, and waits for one if there is none just now.
func (h *Host) call(ctx context.Context, req *wire.Request, files ...*os.File) (wire.Reply, error) {
	reply, got, err := h.callFiles(ctx, req, files...)
	wire.CloseFiles(got)
	return reply, err
}

// callFiles is call for requests whose reply comes with files, which are the caller's.
func (h *Host) callFiles(ctx context.Context, req *wire.Request, files ...*os.File) (wire.Reply, []*os.File, error) {
	if err := h.await(ctx); err != nil {
		return wire.Reply{}, nil, err
	}
	conn, err := wire.Dial(h.path(wire.SocketFile))
	if err != nil {
		// It died a moment ago, or ended while nothing ran.
		if conn, err = h.redial(ctx); err != nil {
			return wire.Reply{}, nil, err
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
		synced, turned, failed := h.synced, h.turned, h.failed
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
func roundTrip(ctx context.Context, conn *wire.Conn, req *wire.Request, files ...*os.File) (wire.Reply, []*os.File, error) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	defer conn.Close()
	var reply wire.Reply
	var got []*os.File
	err := conn.Send(req, files...)
	if err == nil {
		got, err = conn.Receive(&reply)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return wire.Reply{}, nil, fmt.Errorf("%s: supervisor: %w", req.Op, err)
	}
	return reply, got, reply.Err()
}
