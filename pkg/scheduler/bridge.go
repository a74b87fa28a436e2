package scheduler

import (
	"context"
	"sync"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/client/upstream"
)

// bridge gives plugins client-go's clientset and informers over this scheduler's client. Each is made at its first use.
type bridge struct {
	*upstream.Bridge
	mu      sync.Mutex
	factory informers.SharedInformerFactory // nil: not used yet
}

func newBridge(c client.Client) *bridge {
	if c == nil {
		return &bridge{} // a simulation: there is no API
	}
	return &bridge{Bridge: upstream.New(c)}
}

func (b *bridge) clientset() kubernetes.Interface {
	if b.Bridge == nil {
		return nil
	}
	return b.ClientSet()
}

func (b *bridge) config() *rest.Config {
	if b.Bridge == nil {
		return nil
	}
	return b.Config()
}

func (b *bridge) informers() informers.SharedInformerFactory {
	if b.Bridge == nil {
		return nil
	}
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
