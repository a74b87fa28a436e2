package daemon

import (
	"context"
	"fmt"
	"net"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/pki"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/images"
	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/kubelet/process"
	"github.com/minikctl/minikctl/pkg/kubelet/sim"
	"github.com/minikctl/minikctl/pkg/plug"
)

// newRuntime makes the runtime of one node, and says what tier it is.
type newRuntime func(d *Daemon, ctx context.Context, node string) (kubelet.Runtime, kubelet.Tier, error)

// runtimes are what nodes can run their pods with. The config is checked against them.
var runtimes = plug.Set[newRuntime]{What: "runtime", Parts: map[string]newRuntime{
	"process": (*Daemon).processRuntime,
	"sim":     (*Daemon).simRuntime,
}}

func (d *Daemon) processRuntime(ctx context.Context, node string) (kubelet.Runtime, kubelet.Tier, error) {
	if d.processes == nil {
		r, err := d.addresses()
		if err != nil {
			return nil, kubelet.Tier{}, err
		}
		if d.processes, err = process.Open(ctx, process.Config{Root: d.paths.Runtime, Range: r, Clock: d.clock}); err != nil {
			return nil, kubelet.Tier{}, err
		}
		d.closers = append(d.closers, d.processes.Close)
	}
	return d.processes.Runtime(node), kubelet.Process, nil
}

func (d *Daemon) simRuntime(context.Context, string) (kubelet.Runtime, kubelet.Tier, error) {
	if d.simulated == nil {
		d.simulated = sim.NewCluster(d.clock, d.source)
	}
	return d.simulated.Runtime(), kubelet.Sim, nil
}

// kubeletServer opens the listener that answers for all nodes of this process: to the API server, and to nobody else.
func (d *Daemon) kubeletServer() (*kubelet.Server, error) {
	cfg, err := pki.KubeletTLS(d.cfg.Nodes[0].names()[0], []string{kubeletHost}, pool(d.api.authority()), d.clock)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(kubeletHost, "0"))
	if err != nil {
		return nil, fmt.Errorf("listen for the kubelets: %w", err)
	}
	return kubelet.NewServer(l, cfg)
}

// kubeletHost is where the kubelets of this machine answer.
const kubeletHost = "127.0.0.1"

// nodesReader is who the watches belong to that all nodes of this process share. No node may read what is another's, so
// it is none of them; what is written for a node is written by the node itself.
const nodesReader = "system:minikctl:nodes"

func (d *Daemon) addKubelets(ctx context.Context) error {
	store, err := images.New(d.cfg.imageConfig())
	if err != nil {
		return err
	}
	watcher, err := d.api.client(nodesReader, "kubelet", user.SystemPrivilegedGroup)
	if err != nil {
		return err
	}
	caches := client.NewCaches(watcher, d.clock)
	server, err := d.kubeletServer()
	if err != nil {
		return err
	}
	host, err := kubelet.NewHost(kubelet.HostConfig{
		Caches: caches, Images: store, Clock: d.clock, Source: d.source, Dir: d.paths.Kubelet, Server: server,
	})
	if err != nil {
		return err
	}
	d.services = append(d.services,
		service{name: "caches of the kubelets", run: caches.Run},
		service{name: "kubelet server", run: server.Run},
		service{name: "kubelet host", run: host.Run})
	for _, n := range d.cfg.Nodes {
		for _, name := range n.names() {
			if err := d.addKubelet(ctx, host, n, name); err != nil {
				return fmt.Errorf("node %s: %w", name, err)
			}
		}
	}
	return nil
}

func (d *Daemon) addKubelet(ctx context.Context, host *kubelet.Host, n NodeConfig, name string) error {
	newRuntime, err := runtimes.Find(n.Runtime.Name)
	if err != nil {
		return err
	}
	rt, tier, err := newRuntime(d, ctx, name)
	if err != nil {
		return err
	}
	c, err := d.api.client("system:node:"+name, "kubelet", user.NodesGroup)
	if err != nil {
		return err
	}
	k, err := kubelet.New(kubelet.Config{
		Node: kubelet.NodeConfig{Name: name, Labels: n.Labels, Taints: n.Taints, Capacity: corev1.ResourceList(n.Capacity), Tier: tier},
		Host: host, Client: c, Runtime: rt,
	})
	if err != nil {
		return err
	}
	d.services = append(d.services, service{name: "kubelet " + name, run: k.Run})
	return nil
}

// names are the names of the nodes that n describes.
func (n NodeConfig) names() []string {
	if n.Count == 1 && n.Name != "node" && n.Name != "sim" {
		return []string{n.Name}
	}
	out := make([]string, n.Count)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%d", n.Name, i+1)
	}
	return out
}

// imageConfig says the same as the config's images in the words of package images.
func (c *Config) imageConfig() images.Config {
	out := images.Config{Map: map[string]images.Source{}, NoHostCommands: c.HostCommands != nil && !*c.HostCommands}
	for name, i := range c.Images {
		switch {
		case i.Command != nil:
			out.Map[name] = images.Source{Command: i.Command}
		case strings.HasPrefix(i.Ref, images.Prefix):
			out.Map[name] = images.Source{Image: i.Ref}
		default:
			out.Map[name] = images.Source{Folder: i.Ref}
		}
	}
	return out
}
