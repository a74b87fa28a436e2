package daemon

import (
	"context"
	"fmt"
	"net"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/images"
	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/kubelet/process"
	"github.com/minikctl/minikctl/pkg/kubelet/sim"
	"github.com/minikctl/minikctl/pkg/kubelet/stage"
	"github.com/minikctl/minikctl/pkg/objects/kwok"
	"github.com/minikctl/minikctl/pkg/plug"
)

// drivers are the runtimes of nodes by their names in the config.
var drivers = plug.Set[kubelet.Driver]{What: "runtime", Parts: map[string]kubelet.Driver{
	"process": process.Driver,
	"sim":     sim.Driver,
}}

// runtime returns the runtime of a node. The first node of a driver opens it.
func (d *Daemon) runtime(ctx context.Context, name, node string) (kubelet.Runtime, kubelet.Tier, error) {
	driver, err := drivers.Find(name)
	if err != nil {
		return nil, kubelet.Tier{}, err
	}
	nodes, ok := d.nodes[name]
	if !ok {
		var c client.Client
		if driver.Tier.Simulated { // no other driver needs the API
			if c, err = d.api.client(simulationUser, "minikctl-simulation", user.SystemPrivilegedGroup); err != nil {
				return nil, kubelet.Tier{}, err
			}
		}
		nodes, err = driver.Open(ctx, kubelet.DriverConfig{
			Root: d.paths.Runtime, Addresses: d.addresses, Client: c, Clock: d.clock, Source: d.source,
			BestEffort: d.cfg.Kubelet.SecurityContext == bestEffort, BestEffortMounts: d.cfg.Kubelet.MountPaths == bestEffort,
			PodUsers: d.cfg.Kubelet.HavePodUsers(),
			PodPIDs:  max(0, d.cfg.Kubelet.PodPIDsLimit),
		})
		if err != nil {
			return nil, kubelet.Tier{}, err
		}
		d.nodes[name] = nodes
		d.closers = append(d.closers, nodes.Close)
	}
	return nodes.Runtime(node), driver.Tier, nil
}

// kubeletServer opens the listener of the kubelets of this process, with a certificate of this node. It accepts only the API server.
func (d *Daemon) kubeletServer(node string) (*kubelet.Server, error) {
	cfg, err := d.api.kubeletTLS(node, kubeletHost, d.machine)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(kubeletHost, "0"))
	if err != nil {
		return nil, fmt.Errorf("listen for the kubelets: %w", err)
	}
	return kubelet.NewServer(l, cfg)
}

// kubeletHost is the address that the kubelets listen on.
const kubeletHost = "127.0.0.1"

// nodesReader is the user of the watches that the kubelets of this process share. It is no node's user, since a node may not
// read the objects of another. Each kubelet writes as its own node.
const nodesReader = "system:minikctl:nodes"

// addKubelets adds what runs the pods of this process's nodes: the kubelets, the host that they share, and the cluster's DNS server, proxy and
// ingress controller.
func (d *Daemon) addKubelets(ctx context.Context) error {
	var err error
	if d.images, err = images.New(d.cfg.imageConfig()); err != nil {
		return err
	}
	nodes := slices.Concat(d.cfg.Nodes, d.cfg.leaving)
	if len(nodes) == 0 {
		return nil
	}
	watcher, err := d.api.client(nodesReader, "kubelet", user.SystemPrivilegedGroup)
	if err != nil {
		return err
	}
	caches := client.NewCaches(watcher, d.clock)
	server, err := d.kubeletServer(nodes[0].names()[0])
	if err != nil {
		return err
	}
	resolver, err := d.addDNS(ctx, caches)
	if err != nil {
		return err
	}
	cfg := kubelet.HostConfig{
		Caches: caches, Images: d.images, Clock: d.clock, Source: d.source, Dir: d.paths.Kubelet, Memory: d.paths.Memory, Server: server, ClusterDNS: resolver,
		PodUsers: d.cfg.Kubelet.HavePodUsers(), Flags: d.cfg.flags(), Settings: d.cfg.Kubelet.settings(),
	}
	stages, err := d.stages(caches)
	if err != nil {
		return err
	}
	if stages != nil {
		cfg.Stages = stages
	}
	host, err := kubelet.NewHost(cfg)
	if err != nil {
		return err
	}
	d.services = append(d.services,
		d.counted(service{name: "caches of the kubelets", run: caches.Run}),
		service{name: "kubelet server", run: server.Run},
		d.counted(service{name: "kubelet host", run: host.Run}))
	if err := d.addIngress(caches); err != nil {
		return err
	}
	kubelets, err := d.addNodes(ctx, host)
	if err != nil {
		return err
	}
	if err := d.addProxy(caches); err != nil { // after the runtimes are open
		return err
	}
	if stages != nil {
		d.addStages(stages)
	}
	d.addShutdown(host)
	if err := d.addLeavingNodes(ctx, host); err != nil {
		return err
	}
	d.awaitNodes(caches, kubelets)
	return nil
}

// addNodes adds the kubelets of the nodes of this process.
func (d *Daemon) addNodes(ctx context.Context, host *kubelet.Host) ([]*kubelet.Kubelet, error) {
	var kubelets []*kubelet.Kubelet
	for _, n := range d.cfg.Nodes {
		for _, name := range n.names() {
			k, err := d.newKubelet(ctx, host, n, name, false)
			if err != nil {
				return nil, fmt.Errorf("node %s: %w", name, err)
			}
			d.services = append(d.services, d.counted(service{name: "kubelet " + name, run: k.Run}))
			kubelets = append(kubelets, k)
		}
	}
	return kubelets, nil
}

// addLeavingNodes adds the services that drain and delete the nodes that the config no longer has.
func (d *Daemon) addLeavingNodes(ctx context.Context, host *kubelet.Host) error {
	for _, n := range d.cfg.leaving {
		k, err := d.newKubelet(ctx, host, n, n.Name, true)
		if err != nil {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
		s, err := d.drainService(k, n.Name)
		if err != nil {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
		d.services = append(d.services, s)
	}
	return nil
}

// addStages adds the engine of the Stages. The runtimes are open, and give it the addresses of simulated pods.
func (d *Daemon) addStages(stages *stage.Engine) {
	for _, nodes := range d.nodes {
		if pool, ok := nodes.(stage.Pool); ok {
			stages.SetPool(pool)
		}
	}
	d.services = append(d.services, d.counted(service{name: "stages", run: stages.Run}))
}

// simulationUser is the user that records in Jobs what their simulated pods have done.
const simulationUser = "system:minikctl:simulation"

// stagesUser is the user that makes the changes of Stages.
const stagesUser = "system:minikctl:stages"

// stages returns the engine of the Stages for the simulated nodes of this process, nil without such nodes.
func (d *Daemon) stages(caches *client.Caches) (*stage.Engine, error) {
	simulated := d.simulatedNodes()
	if len(simulated) == 0 {
		return nil, nil
	}
	c, err := d.api.client(stagesUser, kwok.Manager, user.SystemPrivilegedGroup)
	if err != nil {
		return nil, err
	}
	return stage.New(stage.Config{
		Client: c, Caches: caches, Clock: d.clock, Source: d.source, Simulated: func(node string) bool { return simulated[node] },
	})
}

// simulatedNodes returns the names of the nodes of this process whose pods are simulated.
func (d *Daemon) simulatedNodes() map[string]bool {
	out := map[string]bool{}
	for _, n := range d.cfg.Nodes {
		if driver, ok := drivers.Parts[n.Runtime.Name]; ok && driver.Tier.Simulated {
			for _, name := range n.names() {
				out[name] = true
			}
		}
	}
	return out
}

func (d *Daemon) newKubelet(ctx context.Context, host *kubelet.Host, n NodeConfig, name string, leaving bool) (*kubelet.Kubelet, error) {
	rt, tier, err := d.runtime(ctx, n.Runtime.Name, name)
	if err != nil {
		return nil, err
	}
	c, err := d.api.client("system:node:"+name, "kubelet", user.NodesGroup)
	if err != nil {
		return nil, err
	}
	node := kubelet.NodeConfig{Name: name, Labels: n.Labels, Taints: n.Taints, Capacity: corev1.ResourceList(n.Capacity), Tier: tier, BeingRemoved: leaving}
	if !tier.Simulated {
		node.StaticPodPath, node.Eviction = d.cfg.Kubelet.StaticPodPath, d.cfg.Kubelet.eviction()
	}
	return kubelet.New(kubelet.Config{Node: node, Host: host, Client: c, Runtime: rt})
}

// names returns the names of the nodes that n describes.
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
