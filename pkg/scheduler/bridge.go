package scheduler

import (
	"context"
	"sync"

	"k8s.io/client-go/informers"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/client/upstream"
)

// bridge gives plugins client-go's clientset and informers over this scheduler's client. Each is made at its first use.
type bridge struct {
	*upstream.Bridge
	mu      sync.Mutex
	factory informers.SharedInformerFactory // nil: not used yet
}

// newBridge returns a bridge to c. If c is nil, as in a simulation, all requests fail.
func newBridge(c client.Client) *bridge {
	if c == nil {
		c = offline{}
	}
	return &bridge{Bridge: upstream.New(c)}
}

func (b *bridge) informers() informers.SharedInformerFactory {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.factory == nil {
		b.factory = b.Informers()
	}
	return b.factory
}

// start runs the informers that plugins use until ctx ends, and waits until they are synced.
func (b *bridge) start(ctx context.Context) {
	b.mu.Lock()
	f := b.factory
	b.mu.Unlock()
	if f != nil {
		f.Start(ctx.Done())
		f.WaitForCacheSync(ctx.Done())
	}
}

// stop waits until the informers have ended.
func (b *bridge) stop() {
	b.mu.Lock()
	f := b.factory
	b.mu.Unlock()
	if f != nil {
		f.Shutdown()
	}
}
