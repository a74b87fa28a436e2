package scheduler

import (
	"context"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
)

// upstream is client-go as plugins know it, over this scheduler's client. It is made when a plugin first asks for it.
type upstream struct {
	client client.Client
	clock  clock.Clock
}

func newUpstream(c client.Client, clk clock.Clock) *upstream { return &upstream{client: c, clock: clk} }

func (u *upstream) clientset() kubernetes.Interface            { return nil }
func (u *upstream) informers() informers.SharedInformerFactory { return nil }
func (u *upstream) config() *rest.Config                       { return nil }
func (u *upstream) run(ctx context.Context)                    { <-ctx.Done() }
