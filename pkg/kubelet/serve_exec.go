package kubelet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream/wsstream"
	utilexec "k8s.io/utils/exec"
)

// The time that a stream may be idle, and that a client may take to open its streams, as in every kubelet.
const (
	idleTimeout   = 4 * time.Hour
	createTimeout = 30 * time.Second
)

// exec serves a command in a container, with its streams over SPDY or WebSocket.
func (s *Server) exec(w http.ResponseWriter, r *http.Request, nodes []*Kubelet) {
	t, ok := s.target(w, r, nodes)
	if !ok {
		return
	}
	opts, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if _, err := t.worker.kubelet.execer(); err != nil {
		writeError(w, err)
		return
	}
	cmd := r.URL.Query()["command"]
	if len(cmd) == 0 {
		http.Error(w, "you must specify at least 1 command", http.StatusBadRequest)
		return
	}
	if wsstream.IsWebSocketRequest(r) {
		serveWebSocket(w, r, opts, "executing command in container", func(ctx context.Context, st Streams) error { return t.exec(ctx, cmd, st) })
		return
	}
	remotecommand.ServeExec(w, r, spdyExec{t}, t.pod.Name, string(t.pod.UID), t.name, cmd, opts,
		idleTimeout, createTimeout, remotecommand.SupportedStreamingProtocols)
}

// exec runs a command in the target's container. An exit code other than 0 is a CodeExitError.
func (t target) exec(ctx context.Context, cmd []string, st Streams) error {
	ex, err := t.worker.kubelet.execer()
	if err != nil {
		return err
	}
	run, err := t.running()
	if err != nil {
		return err
	}
	if c, _ := container(t.pod, t.name); c != nil {
		cmd = t.worker.kubelet.execCommand(c, cmd)
	}
	code, err := ex.Exec(ctx, run.ID, cmd, st)
	if err != nil {
		return err
	}
	if code != 0 {
		return utilexec.CodeExitError{Err: fmt.Errorf("exit status %d", code), Code: code}
	}
	return nil
}

// spdyExec adapts target.exec to the SPDY server.
type spdyExec struct{ target }

func (e spdyExec) ExecInContainer(ctx context.Context, _, _, _ string, cmd []string, in io.Reader, out, err io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	st, stop := streams(ctx, in, out, err, tty, resize)
	defer stop()
	return e.exec(ctx, cmd, st)
}

// streams converts the streams of an SPDY request for a runtime. The returned function ends the copying of sizes.
func streams(ctx context.Context, in io.Reader, out, err io.Writer, tty bool, resize <-chan remotecommand.TerminalSize) (Streams, func()) {
	st := Streams{In: in, Out: out, Err: err, TTY: tty}
	if resize == nil {
		return st, func() {}
	}
	sizes := make(chan WindowSize)
	ctx, cancel := context.WithCancel(ctx)
	var passing sync.WaitGroup
	passing.Go(func() {
		defer close(sizes)
		for {
			select {
			case <-ctx.Done():
				return
			case size, ok := <-resize:
				if !ok {
					return
				}
				select {
				case sizes <- WindowSize(size):
				case <-ctx.Done():
					return
				}
			}
		}
	})
	st.Resize = sizes
	return st, func() {
		cancel()
		passing.Wait()
	}
}
