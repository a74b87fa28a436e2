package kubelet

import (
	"context"
	"io"
	"net/http"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// attach serves a container's own streams over SPDY or WebSocket.
func (s *Server) attach(w http.ResponseWriter, r *http.Request, nodes []*Kubelet) {
	t, ok := s.target(w, r, nodes)
	if !ok {
		return
	}
	opts, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if _, err := t.worker.kubelet.attacher(); err != nil {
		writeError(w, err)
		return
	}
	if wsstream.IsWebSocketRequest(r) {
		serveWebSocket(w, r, opts, "attaching to container", t.attach)
		return
	}
	remotecommand.ServeAttach(w, r, spdyAttach{t}, t.pod.Name, string(t.pod.UID), t.name, opts,
		idleTimeout, createTimeout, remotecommand.SupportedStreamingProtocols)
}

// attach connects st with the target's container until that ends.
func (t target) attach(ctx context.Context, st Streams) error {
	at, err := t.worker.kubelet.attacher()
	if err != nil {
		return err
	}
	run, err := t.running()
	if err != nil {
		return err
	}
	return at.Attach(ctx, run.ID, st)
}

// spdyAttach adapts target.attach to the SPDY server.
type spdyAttach struct{ target }

func (a spdyAttach) AttachContainer(ctx context.Context, _, _, _ string, in io.Reader, out, err io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	st, stop := streams(ctx, in, out, err, tty, resize)
	defer stop()
	return a.attach(ctx, st)
}
