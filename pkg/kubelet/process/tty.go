package process

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/supervisor/terminal"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// execTTY carries out Exec with a terminal, which has one stream in each direction.
func (r *Runtime) execTTY(ctx context.Context, id kubelet.ContainerID, argv []string, streams kubelet.Streams) (int, error) {
	ours, theirs, err := terminal.Open()
	if err != nil {
		return 0, fmt.Errorf("exec: open a terminal: %w", err)
	}
	defer ours.Close()
	if streams.In != nil {
		go func() { _, _ = io.Copy(ours, streams.In) }() // ends with the caller's stream, or at the first byte after the command has ended
	}
	var output, sizes sync.WaitGroup
	output.Go(func() {
		if streams.Out != nil {
			_, _ = io.Copy(streams.Out, ours) // ends with an error once no process has the terminal open
		}
		_, _ = io.Copy(io.Discard, ours)
	})
	ended := make(chan struct{})
	sizes.Go(func() { resize(ours, streams.Resize, ended) })
	command := &wire.Command{Argv: argv, TTY: true}
	reply, err := r.host.call(ctx, &wire.Request{Op: wire.Exec, ID: string(id), Exec: command}, theirs, theirs, theirs)
	theirs.Close()
	close(ended)
	sizes.Wait()
	cut := r.host.clock.AfterFunc(drain, func() { ours.Close() })
	output.Wait()
	cut.Stop()
	return reply.Exit, err
}

// resize applies the sizes of the caller's terminal.
func resize(to *os.File, sizes <-chan kubelet.WindowSize, ended <-chan struct{}) {
	eachSize(sizes, ended, func(size kubelet.WindowSize) {
		_ = terminal.Resize(to, size.Width, size.Height) // an error means that the command has ended
	})
}

// eachSize calls do for each size until sizes ends or ctx is done.
func eachSize(sizes <-chan kubelet.WindowSize, ended <-chan struct{}, do func(kubelet.WindowSize)) {
	for {
		select {
		case size, ok := <-sizes:
			if !ok {
				return
			}
			do(size)
		case <-ended:
			return
		}
	}
}
