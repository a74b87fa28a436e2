package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/pki"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/objects/builtin"
	"github.com/minikctl/minikctl/pkg/objects/networking"
	"github.com/minikctl/minikctl/pkg/plug"
	"github.com/minikctl/minikctl/pkg/scheduler"
	"github.com/minikctl/minikctl/pkg/scheduler/serving"
	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/badger"
	"github.com/minikctl/minikctl/pkg/store/memory"
)

// api connects the parts of this process to the API server: local when it is in this process, remote over HTTP.
type api interface {
	// client returns a client that acts as a user of these groups. agent names the part.
	client(name, agent string, groups ...string) (client.Client, error)
	// rest returns a configuration that acts as the same user as client, for discovery, OpenAPI and metrics.
	rest(name, agent string, groups ...string) *rest.Config
	// authority returns the cluster's CA certificates, PEM.
	authority() []byte
	// signer returns the cluster's certificate authority; empty when the API server is in another process.
	signer() controller.Authority
	// tokens returns the function that creates the tokens of Secrets; nil when the API server is in another process.
	tokens() controller.TokenFor
	// kubeletTLS returns the TLS configuration of the server of this process's kubelets. An API server in this process
	// verifies its certificate.
	kubeletTLS(node, host string, clk clock.Clock) (*tls.Config, error)
	kubeconfig(name, address string) (*clientcmdapi.Config, error)
}

// stores are the store drivers by their names in the config.
var stores = plug.Set[func(p Paths) (store.Store, error)]{What: "store", Parts: map[string]func(Paths) (store.Store, error){
	"badger": func(p Paths) (store.Store, error) {
		s, err := badger.Open(badger.Config{Dir: p.Store, MustExist: hasStore(p)})
		if err != nil {
			return nil, storeHelp(p, err)
		}
		return s, nil
	},
	"memory": func(Paths) (store.Store, error) { return memory.New(), nil }, //nolint:unparam // the other drivers return errors
}}

// local is the api of an API server in this process.
type local struct {
	server *apiserver.Server
	keys   *pki.PKI
}

func (l local) client(name, agent string, groups ...string) (client.Client, error) {
	return l.server.Client(&user.DefaultInfo{Name: name, Groups: append(slices.Clone(groups), user.AllAuthenticated)}, agent), nil
}

func (l local) rest(name, agent string, groups ...string) *rest.Config {
	as := &user.DefaultInfo{Name: name, Groups: append(slices.Clone(groups), user.AllAuthenticated)}
	return &rest.Config{Host: "http://localhost", UserAgent: agent, Transport: l.server.Documents(as), QPS: -1}
}

func (l local) authority() []byte { return l.keys.CA() }

func (l local) signer() controller.Authority {
	cert, key := l.keys.Authority()
	return controller.Authority{Cert: cert, Key: key}
}

func (l local) kubeletTLS(node, host string, _ clock.Clock) (*tls.Config, error) {
	return l.keys.KubeletTLS(node, host)
}

func (l local) tokens() controller.TokenFor { return l.server.SecretToken }

func (l local) kubeconfig(name, address string) (*clientcmdapi.Config, error) {
	admin, err := l.keys.Admin()
	if err != nil {
		return nil, err
	}
	context := name
	if name != "minikctl" {
		context = "minikctl-" + name
	}
	return pki.Kubeconfig(pki.Access{Server: address, CA: l.keys.CA(), Cluster: context, Context: context, User: context + "-admin", Client: admin}), nil
}

// addAPIServer opens the store and creates the API server over it.
func (d *Daemon) addAPIServer(ctx context.Context) error {
	open, err := stores.Find(d.cfg.Store)
	if err != nil {
		return err
	}
	if err := checkSocket(d.paths); err != nil {
		return err
	}
	s, keys, err := d.openFiles(open)
	if err != nil {
		return err
	}
	head, err := s.Head(ctx)
	if err != nil {
		return fmt.Errorf("read the store: %w", err)
	}
	d.source.Continue(uint64(head))
	serviceAddresses, err := d.serviceAddresses()
	if err != nil {
		return err
	}
	server, err := apiserver.New(apiserver.Config{
		ServiceAddresses: serviceAddresses,
		Store:            s, Resources: builtin.ResourcesWith(d.cfg.features), Features: d.cfg.features, Clock: d.clock, Source: d.source, PKI: keys,
		Listen: d.listen(), Socket: d.paths.Socket, TokenFile: d.cfg.TokenAuthFile, TraceDir: d.paths.Traces,
		Audit: apiserver.AuditConfig{
			Policy: d.cfg.AuditPolicyFile, Path: d.cfg.AuditLogPath,
			MaxSize: d.cfg.AuditLogMaxSize, MaxBackups: d.cfg.AuditLogMaxBackup, MaxAge: d.cfg.AuditLogMaxAge,
		},
		PodWarnings: d.podWarnings(), ServiceWarnings: d.serviceWarnings(), WithoutController: d.withoutController(), Components: d.components(),
		VerifiedNode: d.verifiedNode(), DirClass: d.cfg.Runs("controllers") && d.realNodes(), IngressClass: d.servesServices(),
		Stages: d.cfg.Runs("kubelet") && len(d.simulatedNodes()) > 0, MemoryLimit: d.memoryLimit, Flags: d.cfg.flags(), Metrics: d.metrics,
	})
	if err != nil {
		return err
	}
	d.releases = append(d.releases, server.Release)
	d.api, d.address = local{server, keys}, "https://"+server.Addr()
	d.services = append(d.services, service{name: "apiserver", run: server.Run, ready: server.Ready()})
	if d.cfg.Backup.Every.Duration > 0 {
		d.services = append(d.services, service{name: "backups", run: backups{d.cfg.Backup, d.paths.Backups, s, d.machine}.run})
	}
	return nil
}

// openFiles opens the store and the keys at the same time: both wait for the disk.
func (d *Daemon) openFiles(open func(Paths) (store.Store, error)) (s store.Store, keys *pki.PKI, err error) {
	var g errgroup.Group
	g.Go(func() (err error) {
		if s, err = open(d.paths); err == nil {
			d.closers = append(d.closers, s.Close)
		}
		return err
	})
	g.Go(func() (err error) {
		keys, err = pki.Open(d.paths.PKI, d.machine)
		return err
	})
	err = g.Wait()
	return s, keys, err
}

// verifiedNode returns a function that reports whether a node is one of this process, whose kubelets have a certificate of
// the cluster's authority.
func (d *Daemon) verifiedNode() func(string) bool {
	names := map[string]bool{}
	if d.cfg.Runs("kubelet") {
		for _, n := range d.cfg.Nodes {
			for _, name := range n.names() {
				names[name] = true
			}
		}
	}
	return func(node string) bool { return names[node] }
}

// realNodes reports whether a node of this daemon runs its pods for real.
func (d *Daemon) realNodes() bool {
	return slices.ContainsFunc(d.cfg.Nodes, func(n NodeConfig) bool {
		driver, ok := drivers.Parts[n.Runtime.Name]
		return ok && !driver.Tier.Simulated
	})
}

// volumes returns the directory of the volumes that the cluster's own provisioner makes; "" while pods are simulated.
func (d *Daemon) volumes() string {
	if d.realNodes() {
		return d.paths.Volumes
	}
	return ""
}

// podWarnings returns a function that lists the fields of a pod that this daemon's nodes ignore, and those that this machine can't give;
// nil without kubelets or with simulated nodes only. The function may be called once the daemon is built.
func (d *Daemon) podWarnings() func(context.Context, *corev1.PodSpec) []string {
	if !d.cfg.Runs("kubelet") {
		return nil
	}
	var tiers []kubelet.Tier
	for name, driver := range drivers.Parts {
		if !driver.Tier.Simulated && slices.ContainsFunc(d.cfg.Nodes, func(n NodeConfig) bool { return n.Runtime.Name == name }) {
			tiers = append(tiers, driver.Tier)
		}
	}
	if len(tiers) == 0 {
		return nil
	}
	slices.SortFunc(tiers, func(a, b kubelet.Tier) int { return strings.Compare(a.Name, b.Name) })
	return func(ctx context.Context, spec *corev1.PodSpec) []string {
		var out []string
		for _, t := range tiers {
			out = append(out, kubelet.FieldWarnings(spec, t)...)
			if w, ok := d.nodes[t.Name].(kubelet.Warner); ok {
				out = append(out, w.Warnings(ctx, spec, kubelet.ProgramsOf(d.images))...)
			}
		}
		return out
	}
}

// withoutController returns the resources without a controller in this daemon; none if the daemon runs no controllers at all.
func (d *Daemon) withoutController() []schema.GroupResource {
	if !d.cfg.Runs("controllers") {
		return nil
	}
	var others []string
	if d.servesServices() {
		others = append(others, networking.IngressComponent)
	}
	return controllers.WithoutController(builtin.ResourcesWith(d.cfg.features), d.cfg.controllers, others...)
}

// listen returns the address to listen on. For port 0 it is the port of the last start if that is free, so that kubeconfigs stay
// valid.
func (d *Daemon) listen() string {
	if host, free := strings.CutSuffix(d.cfg.Listen, ":0"); free {
		if s, err := ReadState(d.paths); err == nil {
			if _, last, err := net.SplitHostPort(strings.TrimPrefix(s.Address, "https://")); err == nil && portFree(host+":"+last) {
				return host + ":" + last
			}
		}
	}
	return d.cfg.Listen
}

// remote is the api of an API server in another process. Each part impersonates its own user; the kubeconfig's user needs the
// permission to impersonate.
type remote struct{ cfg *rest.Config }

func (r remote) client(name, agent string, groups ...string) (client.Client, error) {
	return client.HTTP(r.as(name, groups), agent)
}

func (r remote) rest(name, agent string, groups ...string) *rest.Config {
	cfg := r.as(name, groups)
	cfg.UserAgent, cfg.QPS = agent, -1
	return cfg
}

func (r remote) as(name string, groups []string) *rest.Config {
	cfg := rest.CopyConfig(r.cfg)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: groups}
	return cfg
}

func (r remote) authority() []byte { return r.cfg.CAData }

func (remote) signer() controller.Authority { return controller.Authority{} }

func (r remote) kubeletTLS(node, host string, clk clock.Clock) (*tls.Config, error) {
	return pki.SelfSignedKubeletTLS(node, []string{host}, pool(r.authority()), clk)
}

func (remote) tokens() controller.TokenFor { return nil }

func (r remote) kubeconfig(string, string) (*clientcmdapi.Config, error) {
	return nil, fmt.Errorf("the kubeconfig is written by the process that runs the API server")
}

// connect reads the kubeconfig of the API server in another process.
func (d *Daemon) connect(ctx context.Context) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", d.cfg.Kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig %s: %w", d.cfg.Kubeconfig, err)
	}
	if err := rest.LoadTLSFiles(cfg); err != nil {
		return fmt.Errorf("read kubeconfig %s: %w", d.cfg.Kubeconfig, err)
	}
	d.api = remote{cfg}
	return d.followClock(ctx, cfg)
}

func (d *Daemon) addControllers(context.Context) error {
	watcher, err := d.api.client(controllerManager, "kube-controller-manager")
	if err != nil {
		return err
	}
	caches := client.NewCaches(watcher, d.clock)
	d.awaitDefaultAccount(caches)
	clients := map[string]client.Client{}
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:kube-system"}
	name := func(account string) string { return "system:serviceaccount:kube-system:" + account }
	for _, c := range d.cfg.controllers {
		if clients[c.Account], err = d.api.client(name(c.Account), c.Account, groups...); err != nil {
			return err
		}
	}
	balancers, err := d.loadBalancers()
	if err != nil {
		return err
	}
	d.services = append(d.services,
		d.counted(service{name: "caches of the controllers", run: caches.Run}),
		d.counted(service{name: "controllers", run: d.controllers.of(func(ctx context.Context) error {
			return controllers.Run(ctx, controllers.Config{
				Controllers: d.cfg.controllers,
				Client:      func(name string) client.Client { return clients[name] },
				Caches:      caches, Clock: d.clock, Source: d.source, Volumes: d.volumes(), RootCA: d.api.authority(), Authority: d.api.signer(), Token: d.api.tokens(),
				NodeLifecycle: d.cfg.nodeLifecycle, Features: d.cfg.features,
				PodCIDRs: d.cfg.podCIDRs, LoadBalancers: balancers,
				REST: func(account string) (*rest.Config, error) { return d.api.rest(name(account), account, groups...), nil },
			})
		})}))
	return nil
}

// The user names with which the parts make requests.
const (
	controllerManager = "system:kube-controller-manager"
	kubeScheduler     = "system:kube-scheduler"
)

func (d *Daemon) addScheduler(context.Context) error {
	c, err := d.api.client(kubeScheduler, "kube-scheduler")
	if err != nil {
		return err
	}
	_, elsewhere := d.api.(remote)
	s, err := scheduler.New(scheduler.Config{
		Client: c, Remote: elsewhere, Clock: d.clock, Source: d.source, Registry: d.plugins, Features: d.cfg.features, ConfigFile: d.cfg.SchedulerConfig,
	})
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; --scheduler-config FILE sets another, and --scheduler-config= none", err)
	}
	if err != nil {
		return err
	}
	d.metrics.MustRegister(serving.Collector{Scheduler: s})
	d.releases = append(d.releases, s.Release)
	d.services = append(d.services, d.counted(service{name: "scheduler", run: d.scheduler.of(s.Run)}))
	return d.addSchedulerServer(s, c)
}

// addSchedulerServer opens the scheduler's own server, if the config has an address for it.
func (d *Daemon) addSchedulerServer(s *scheduler.Scheduler, c client.Client) error {
	if d.cfg.SchedulerListen == "" {
		return nil
	}
	l, err := net.Listen("tcp", d.cfg.SchedulerListen)
	if err != nil {
		return fmt.Errorf("listen for the scheduler: %w", err)
	}
	hosts := []string{"localhost"}
	if host, _, err := net.SplitHostPort(d.cfg.SchedulerListen); err == nil && host != "" {
		hosts = append(hosts, host)
	}
	conf, err := pki.SelfSignedTLS("kube-scheduler", hosts, pool(d.api.authority()), d.machine)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	slog.Info("scheduler server listens", "address", l.Addr().String())
	server := &serving.Server{Listener: l, TLS: conf, Client: c, Scheduler: s, Clock: d.machine, Flags: d.cfg.flags()}
	d.services = append(d.services, service{name: "scheduler server", run: server.Run})
	return nil
}

func pool(pem []byte) *x509.CertPool {
	p := x509.NewCertPool()
	p.AppendCertsFromPEM(pem)
	return p
}
