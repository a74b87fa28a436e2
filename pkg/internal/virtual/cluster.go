// Package virtual runs whole clusters on a manual clock in a test's process: API server, controllers, scheduler and simulated nodes. Each
// component can be ended and started again while the others run.
package virtual

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/images"
	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/kubelet/sim"
	"github.com/minikctl/minikctl/pkg/kubelet/stage"
	"github.com/minikctl/minikctl/pkg/schedplugins"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// Began is the time at which clusters start.
var Began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Config configures a Cluster. Its zero value is a cluster without nodes.
type Config struct {
	Nodes []string // names
	Seed  uint64   // 0: 1

	Stages bool // the kubelets play kwok's Stages

	// Concurrent has the components act at the same time, as on a machine's clock. By default they take turns, so that a run can be repeated.
	Concurrent bool

	// Server changes the configuration of the API server. nil: it is not changed.
	Server func(*apiserver.Config)

	// Client changes the clients of the controllers and the scheduler. user is the name of a service account in kube-system, or
	// kube-scheduler. nil: they are not changed.
	Client func(user string, c client.Client) client.Client
}

// Cluster is a running cluster. Its Client may do everything. Only one goroutine may call its methods.
type Cluster struct {
	testing.TB
	client.Client
	Env   *apiservertest.Env
	Clock *clock.Manual

	cfg      Config
	ctx      context.Context // of all components
	source   *clock.Source
	images   *images.Store
	dir      string // of the kubelets
	sims     *sim.Cluster
	runtimes map[string]kubelet.Runtime // by node; pods outlive the kubelets

	control, schedule *part            // controllers, scheduler
	kubelets          map[string]*part // by node; those that run
}

// part is a component that runs.
type part struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func (p *part) stop() {
	p.cancel()
	p.running.Wait()
}

// Start starts a cluster that ends with the test, and waits until it has settled.
func Start(t testing.TB, cfg Config) *Cluster {
	t.Helper()
	m := clock.NewManual(Began, clock.Real())
	if !cfg.Concurrent {
		m.TakeTurns()
	}
	starting := clock.NewWork(m, "start of the cluster") // before all components are there, none acts
	starting.Add(1)
	source := clock.NewSource(max(cfg.Seed, 1))
	env := apiservertest.New(t, func(c *apiserver.Config) {
		c.Clock, c.Source, c.Stages = m, source, cfg.Stages
		if cfg.Server != nil {
			cfg.Server(c)
		}
	})
	store, err := images.New(images.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{TB: t, Client: env.Client("test"), Env: env, Clock: m, cfg: cfg, ctx: t.Context(), source: source, images: store,
		dir: t.TempDir(), runtimes: map[string]kubelet.Runtime{}, kubelets: map[string]*part{}}
	c.sims = sim.NewCluster(m, c.as("simulation", user.SystemPrivilegedGroup))
	t.Cleanup(c.stop)
	c.startControllers()
	c.startScheduler()
	for _, name := range cfg.Nodes {
		c.StartNode(name)
	}
	starting.End()
	c.Advance(0)
	return c
}

// stop ends all components.
func (c *Cluster) stop() {
	for _, p := range c.parts() {
		p.cancel()
	}
	for _, p := range c.parts() {
		p.running.Wait()
	}
}

// parts returns the components that run.
func (c *Cluster) parts() []*part {
	parts := slices.Collect(maps.Values(c.kubelets))
	for _, p := range []*part{c.control, c.schedule} {
		if p != nil { // the start has failed
			parts = append(parts, p)
		}
	}
	return parts
}

// Advance advances the clock by d, and waits until the cluster has settled.
func (c *Cluster) Advance(d time.Duration) {
	c.Helper()
	if _, err := c.Clock.Advance(c.Context(), c.Clock.Now().Add(d), 0); err != nil {
		c.Fatal(err)
	}
}

// RestartControllers ends the controllers, in the middle of what they do, and starts them again.
func (c *Cluster) RestartControllers() {
	c.control.stop()
	c.startControllers()
}

// RestartScheduler ends the scheduler and starts it again.
func (c *Cluster) RestartScheduler() {
	c.schedule.stop()
	c.startScheduler()
}

// RestartKubelets ends all kubelets and starts those again that ran. The pods' containers run on.
func (c *Cluster) RestartKubelets() {
	for _, name := range c.Running() {
		c.StopNode(name)
		c.StartNode(name)
	}
}

// Running returns the nodes whose kubelets run.
func (c *Cluster) Running() []string {
	return slices.Sorted(maps.Keys(c.kubelets))
}

// StopNode ends the kubelet of a node, as a loss of its network does: its containers run on.
func (c *Cluster) StopNode(name string) {
	if k := c.kubelets[name]; k != nil {
		k.stop()
		delete(c.kubelets, name)
	}
}

// Reboot ends all containers of a node whose kubelet does not run.
func (c *Cluster) Reboot(name string) { delete(c.runtimes, name) }

// StartNode starts the kubelet of a node that does not run.
func (c *Cluster) StartNode(name string) {
	c.Helper()
	if c.kubelets[name] != nil {
		return
	}
	if c.runtimes[name] == nil {
		c.runtimes[name] = c.sims.Runtime(name)
	}
	caches := client.NewCaches(c.as("kubelet", user.SystemPrivilegedGroup), c.Clock)
	hostConfig := kubelet.HostConfig{Caches: caches, Images: c.images, Clock: c.Clock, Source: c.source, Dir: filepath.Join(c.dir, name)}
	parts := []func(context.Context) error{caches.Run}
	if c.cfg.Stages {
		stages := c.stages(caches, name)
		hostConfig.Stages = stages
		parts = append(parts, stages.Run)
	}
	host, err := kubelet.NewHost(hostConfig)
	if err != nil {
		c.Fatal(err)
	}
	k, err := kubelet.New(kubelet.Config{
		Node: kubelet.NodeConfig{Name: name, Tier: sim.Tier}, Host: host, Client: c.as("node:"+name, user.NodesGroup), Runtime: c.runtimes[name],
	})
	if err != nil {
		c.Fatal(err)
	}
	c.kubelets[name] = c.run("kubelet "+name, append(parts, host.Run, k.Run)...)
}

// stages returns what plays the Stages for one node.
func (c *Cluster) stages(caches *client.Caches, node string) *stage.Engine {
	c.Helper()
	e, err := stage.New(stage.Config{
		Client: c.as("stages", user.SystemPrivilegedGroup), Caches: caches, Clock: c.Clock, Source: c.source,
		Simulated: func(name string) bool { return name == node },
	})
	if err != nil {
		c.Fatal(err)
	}
	e.SetPool(c.sims)
	return e
}

func (c *Cluster) startScheduler() {
	c.Helper()
	s, err := scheduler.New(scheduler.Config{
		Client: c.changed("kube-scheduler", c.as("kube-scheduler")), Clock: c.Clock, Source: c.source, Registry: schedplugins.Registry,
	})
	if err != nil {
		c.Fatal(err)
	}
	c.schedule = c.run("scheduler", s.Run)
}

func (c *Cluster) startControllers() {
	caches := client.NewCaches(c.as("kube-controller-manager", user.SystemPrivilegedGroup), c.Clock)
	cert, key := c.Env.PKI.Authority()
	c.control = c.run("controllers", caches.Run, func(ctx context.Context) error {
		return controllers.Run(ctx, controllers.Config{
			Client: func(name string) client.Client {
				return c.changed(name, c.as("serviceaccount:kube-system:"+name, "system:serviceaccounts", "system:serviceaccounts:kube-system"))
			},
			Caches: caches, Clock: c.Clock, Source: c.source, Authority: controller.Authority{Cert: cert, Key: key}, Token: c.Env.Server.SecretToken,
			REST: func(name string) (*rest.Config, error) {
				info := &user.DefaultInfo{Name: "system:serviceaccount:kube-system:" + name, Groups: []string{user.AllAuthenticated}}
				return &rest.Config{Host: "http://localhost", Transport: c.Env.Server.Documents(info), QPS: -1}, nil
			},
		})
	})
}

// as returns a client of the user system:NAME.
func (c *Cluster) as(name string, groups ...string) client.Client {
	info := &user.DefaultInfo{Name: "system:" + name, Groups: append(groups, user.AllAuthenticated)}
	return c.Env.Server.Client(info, name[strings.LastIndex(name, ":")+1:])
}

func (c *Cluster) changed(user string, cl client.Client) client.Client {
	if c.cfg.Client == nil {
		return cl
	}
	return c.cfg.Client(user, cl)
}

// run runs a component's functions until it is stopped. They count as busy from now on.
func (c *Cluster) run(name string, parts ...func(context.Context) error) *part {
	ctx, cancel := context.WithCancel(c.ctx)
	p := &part{cancel: cancel}
	for _, f := range parts {
		in := clock.Starting(c.Clock, name)
		p.running.Go(func() {
			ctx := in(ctx)
			if err := f(ctx); err != nil && ctx.Err() == nil {
				c.Error(fmt.Errorf("%s: %w", name, err))
			}
			clock.WorkOf(ctx).End() // f may have ended before it had work of its own
		})
	}
	return p
}
