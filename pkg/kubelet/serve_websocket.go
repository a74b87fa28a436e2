package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream/wsstream"
	utilexec "k8s.io/utils/exec"
)

// The channel numbers of a WebSocket's streams.
const (
	stdinChannel = iota
	stdoutChannel
	stderrChannel
	errorChannel
	resizeChannel
	channelCount
)

// serveWebSocket calls run with the streams of a WebSocket. It supports version 1 of the protocol, version 4, which sends the
// exit code, and version 5, which can also close a single stream. doing is for the message of an error.
func serveWebSocket(w http.ResponseWriter, r *http.Request, opts *remotecommand.Options, doing string, run func(context.Context, Streams) error) {
	conn := wsstream.NewConn(webSocketProtocols(opts))
	conn.SetIdleTimeout(idleTimeout)
	// The library logs the normal end of a connection as an error: the empty logger drops it.
	protocol, ch, err := conn.Open(w, r.WithContext(klog.NewContext(r.Context(), klog.Logger{})))
	if err != nil {
		return // Open has written the error
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	st := Streams{TTY: opts.TTY}
	first := ch[errorChannel]
	if opts.Stdin {
		st.In = ch[stdinChannel]
	}
	if opts.Stderr && !opts.TTY {
		st.Err, first = ch[stderrChannel], ch[stderrChannel]
	}
	if opts.Stdout {
		st.Out, first = ch[stdoutChannel], ch[stdoutChannel]
	}
	_, _ = first.Write(nil) // an empty message: the streams are open
	if opts.TTY {
		sizes := make(chan WindowSize)
		st.Resize = sizes
		go readSizes(ctx, ch[resizeChannel], sizes)
	} else {
		go func() { _, _ = io.Copy(io.Discard, ch[resizeChannel]) }() // an unread channel blocks the others
	}
	writeOutcome(ch[errorChannel], protocol, outcome(doing, run(ctx, st)))
}

func webSocketProtocols(opts *remotecommand.Options) map[string]wsstream.ChannelProtocolConfig {
	kinds := make([]wsstream.ChannelType, channelCount)
	kinds[errorChannel], kinds[resizeChannel] = wsstream.WriteChannel, wsstream.ReadChannel
	if opts.Stdin {
		kinds[stdinChannel] = wsstream.ReadChannel
	}
	if opts.Stdout {
		kinds[stdoutChannel] = wsstream.WriteChannel
	}
	if opts.Stderr {
		kinds[stderrChannel] = wsstream.WriteChannel
	}
	out := map[string]wsstream.ChannelProtocolConfig{}
	for _, version := range []string{"", "v4.", "v5."} {
		out[version+wsstream.ChannelWebSocketProtocol] = wsstream.ChannelProtocolConfig{Binary: true, Channels: kinds}
	}
	for _, version := range []string{"", "v4."} {
		out[version+wsstream.Base64ChannelWebSocketProtocol] = wsstream.ChannelProtocolConfig{Channels: kinds}
	}
	out[""] = wsstream.ChannelProtocolConfig{Binary: true, Channels: kinds}
	return out
}

// readSizes copies the terminal sizes from the client to the channel.
func readSizes(ctx context.Context, from io.Reader, to chan<- WindowSize) {
	defer close(to)
	for d := json.NewDecoder(from); ; {
		var size WindowSize
		if d.Decode(&size) != nil {
			return
		}
		select {
		case to <- size:
		case <-ctx.Done():
			return
		}
	}
}

// writeOutcome writes the command's outcome: as a Status, or in version 1 as the message of a failure.
func writeOutcome(to io.Writer, protocol string, status metav1.Status) {
	switch protocol {
	case "v5." + wsstream.ChannelWebSocketProtocol, "v4." + wsstream.ChannelWebSocketProtocol, "v4." + wsstream.Base64ChannelWebSocketProtocol:
		b, err := json.Marshal(status)
		if err == nil {
			_, _ = to.Write(b) // the client has disconnected
		}
	default:
		if status.Status != metav1.StatusSuccess {
			_, _ = io.WriteString(to, status.Message)
		}
	}
}

// outcome returns the Status of a command that ended with err. doing is for the message of other errors than exit codes.
func outcome(doing string, err error) metav1.Status {
	if err == nil {
		return metav1.Status{Status: metav1.StatusSuccess}
	}
	if exit, ok := errors.AsType[utilexec.CodeExitError](err); ok {
		return metav1.Status{
			Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason,
			Message: fmt.Sprintf("command terminated with non-zero exit code: %v", exit),
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{
				Type: remotecommand.ExitCodeCauseType, Message: fmt.Sprint(exit.Code),
			}}},
		}
	}
	return metav1.Status{
		Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError, Code: http.StatusInternalServerError,
		Message: fmt.Sprintf("Internal error occurred: error %s: %v", doing, err),
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: fmt.Sprintf("error %s: %v", doing, err)}}},
	}
}
