package process

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// Attach implements kubelet.Attacher.
func (r *Runtime) Attach(ctx context.Context, id kubelet.ContainerID, streams kubelet.Streams) error {
	var p execPipes
	defer p.close()
	if err := p.connect(streams); err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	ended := make(chan struct{})
	var sizes sync.WaitGroup
	sizes.Go(func() {
		eachSize(streams.Resize, ended, func(size kubelet.WindowSize) {
			// The only error is that the container has ended, which also ends the attach.
			_, _ = r.host.call(ctx, &wire.Request{Op: wire.Resize, ID: string(id), Size: &wire.Size{Width: size.Width, Height: size.Height}})
		})
	})
	_, err := r.host.call(ctx, &wire.Request{Op: wire.Join, ID: string(id), Input: streams.In != nil}, p.theirs...)
	close(ended)
	sizes.Wait()
	cut := r.host.clock.AfterFunc(drain, p.cut)
	p.finish()
	cut.Stop()
	if errors.Is(err, wire.ErrStopped) || errors.Is(err, wire.ErrNotFound) {
		return fmt.Errorf("attach: %w", err)
	}
	return err
}
