package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/minikctl/minikctl/pkg/autostart"
	_ "github.com/minikctl/minikctl/pkg/cli/internal/english" // before kubectl's verbs
	"github.com/minikctl/minikctl/pkg/daemon"
	"github.com/minikctl/minikctl/pkg/early"
)

// Target selects the cluster of a verb. It is the RESTClientGetter of kubectl's factory. The first call of a getter starts the
// local daemon if it does not run.
type Target struct {
	*genericclioptions.ConfigFlags
	flags  *pflag.FlagSet
	name   string
	verb   string // of the command line; it decides whether the daemon may be started
	remote bool   // called as kubectl: uses the kubeconfig, never the local daemon
	notice io.Writer

	once sync.Once
	err  error
}

func newTarget(remote bool, notice io.Writer) *Target {
	return &Target{name: daemon.DefaultName(), ConfigFlags: genericclioptions.NewConfigFlags(true).WithDiscoveryBurst(300).WithDiscoveryQPS(50), remote: remote, notice: notice}
}

// AddFlags adds kubectl's connection flags and --name.
func (t *Target) AddFlags(flags *pflag.FlagSet) {
	t.flags = flags
	t.ConfigFlags.AddFlags(flags)
	if !t.remote {
		flags.StringVar(&t.name, "name", daemon.DefaultName(), "name of the local cluster")
	}
}

// Paths returns the paths of the local daemon.
func (t *Target) Paths() daemon.Paths { return daemon.PathsOf(t.name) }

// local reports whether the verb uses the local daemon.
func (t *Target) local() bool {
	return !t.remote && !t.chosen()
}

// chosen reports whether a flag selects another server than the local daemon.
func (t *Target) chosen() bool {
	return slices.ContainsFunc(autostart.Elsewhere, func(name string) bool {
		flag := t.flags.Lookup(name)
		return flag != nil && flag.Changed
	})
}

// ready starts the local daemon if it does not run, and sets the flags that connect to it.
func (t *Target) ready() error {
	t.once.Do(func() {
		if !t.local() {
			return
		}
		paths := t.Paths()
		if t.err = t.start(paths); t.err != nil {
			return
		}
		*t.KubeConfig = paths.Kubeconfig
		t.WrapConfigFn = func(cfg *rest.Config) *rest.Config { return toDaemon(cfg, paths.Socket) }
		if !t.flags.Changed("cache-dir") {
			*t.CacheDir = paths.DiscoveryCache
		}
	})
	return t.err
}

// running reports whether the local daemon runs.
func (t *Target) running() bool { return daemon.Running(t.Paths()) }

func (t *Target) start(paths daemon.Paths) error {
	if err := daemon.CheckName(t.name); err != nil {
		return err
	}
	ctx := context.Background() //nolint:forbidigo // kubectl's getters have no context
	if daemon.Ready(ctx, paths) {
		early.DropDaemon()
		return nil
	}
	if !autostart.NeedsCluster(t.verb) {
		return fmt.Errorf("no daemon %q runs; start it with: %s", t.name, autostart.Up(t.name))
	}
	if err := autostart.Check(daemon.Home(), t.name); err != nil {
		return err
	}
	stop := "minikctl down"
	if t.flags.Changed("name") {
		stop += " --name " + t.name
	}
	fmt.Fprintf(t.notice, "minikctl: no daemon %q runs, starting one (stop it with: %s)\n", t.name, stop)
	err := daemon.Spawn(ctx, paths, nil)
	if err != nil && daemon.Ready(ctx, paths) {
		return nil // another command has started it meanwhile
	}
	return err
}

// ToRESTConfig implements genericclioptions.RESTClientGetter.
func (t *Target) ToRESTConfig() (*rest.Config, error) {
	if err := t.ready(); err != nil {
		return nil, err
	}
	return t.ConfigFlags.ToRESTConfig()
}

// toDaemon changes a configuration into one for the local daemon: over its socket, and without a limit of requests, as the server has its own.
// With client-go's limit, 5 requests a second, "delete -f" of 800 objects takes 160 s instead of one or two.
func toDaemon(cfg *rest.Config, socket string) *rest.Config {
	cfg.Wrap(overSocket(socket))
	cfg.QPS = -1
	return cfg
}

// overSocket sends requests through the daemon's socket, which needs no TLS and identifies the caller by its user id. Exec and
// port-forward upgrade their connection with a transport of another type, which uses the address in the kubeconfig.
func overSocket(path string) func(http.RoundTripper) http.RoundTripper {
	return func(rt http.RoundTripper) http.RoundTripper {
		if _, plain := rt.(*http.Transport); !plain {
			return rt
		}
		return socketTransport{&http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", path)
			},
		}}
	}
}

type socketTransport struct{ plain *http.Transport }

// RoundTrip implements http.RoundTripper.
func (t socketTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme = "http"
	return t.plain.RoundTrip(r)
}

// ToDiscoveryClient implements genericclioptions.RESTClientGetter.
func (t *Target) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	if err := t.ready(); err != nil {
		return nil, err
	}
	return t.ConfigFlags.ToDiscoveryClient()
}

// ToRESTMapper implements genericclioptions.RESTClientGetter.
func (t *Target) ToRESTMapper() (meta.RESTMapper, error) {
	if err := t.ready(); err != nil {
		return nil, err
	}
	return t.ConfigFlags.ToRESTMapper()
}

// ToRawKubeConfigLoader implements genericclioptions.RESTClientGetter.
func (t *Target) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	if err := t.ready(); err != nil {
		return unavailable{err}
	}
	return t.ConfigFlags.ToRawKubeConfigLoader()
}

// unavailable is the kubeconfig of a daemon that could not be started.
type unavailable struct{ err error }

func (u unavailable) RawConfig() (clientcmdapi.Config, error) { return clientcmdapi.Config{}, u.err }
func (u unavailable) ClientConfig() (*rest.Config, error)     { return nil, u.err }
func (u unavailable) Namespace() (string, bool, error)        { return "", false, u.err }
func (u unavailable) ConfigAccess() clientcmd.ConfigAccess    { return clientcmd.NewDefaultPathOptions() }
