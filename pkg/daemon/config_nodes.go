package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

// NodeConfig describes one node, or several that differ in name only.
type NodeConfig struct {
	// Count is the number of nodes. Default 1.
	Count int `json:"count,omitempty"`
	// Name is the name of the node. Several nodes are called NAME-1, NAME-2 and so on. Default "node", or "sim" for the runtime
	// sim, both with a number even for a single node.
	Name string `json:"name,omitempty"`
	// Runtime selects the runtime of the pods on these nodes.
	Runtime RuntimeConfig `json:"runtime,omitzero"`
	// Capacity is the node's capacity, for example cpu: 4. Resources that it leaves out have the capacity of this machine.
	Capacity map[corev1.ResourceName]resource.Quantity `json:"capacity,omitempty"`
	// Labels are labels of the Node in addition to the well-known ones.
	Labels map[string]string `json:"labels,omitempty"`
	// Taints are the taints with which the kubelet registers the Node.
	Taints []corev1.Taint `json:"taints,omitempty"`
}

// RuntimeConfig selects a runtime.
type RuntimeConfig struct {
	// Name is process (containers are processes of this machine) or sim (pods are simulated, nothing runs). Default process.
	Name string `json:"name,omitempty"`
}

// loadNodes reads the flags and variables with numbers of nodes, which replace all nodes. 0 simulated nodes alone replace none.
func (c *Config) loadNodes(v *viper.Viper, flags *pflag.FlagSet) error {
	process, err := number(v, flags, "nodes", 31)
	if err != nil {
		return err
	}
	sim, err := number(v, flags, "sim-nodes", 31)
	if err != nil {
		return err
	}
	if v.IsSet("nodes") || sim > 0 {
		c.setNodes(int(process), int(sim))
	}
	return nil
}

func (c *Config) setNodes(process, sim int) {
	c.Nodes = []NodeConfig{}
	if process > 0 {
		c.Nodes = append(c.Nodes, NodeConfig{Count: process, Runtime: RuntimeConfig{Name: "process"}})
	}
	if sim > 0 {
		c.Nodes = append(c.Nodes, NodeConfig{Count: sim, Runtime: RuntimeConfig{Name: "sim"}})
	}
}

// completePodCIDRs checks the ranges of podCIDRs.
func (c *Config) completePodCIDRs() error {
	if !c.AllocateNodeCIDRs {
		return nil
	}
	var err error
	c.podCIDRs, err = controller.ParsePodCIDRs(controller.PodCIDRFlags{
		ClusterCIDR: c.ClusterCIDR, MaskSize: c.NodeCIDRMaskSize, MaskSize4: c.NodeCIDRMaskSizeIPv4, MaskSize6: c.NodeCIDRMaskSizeIPv6,
	})
	if err != nil {
		return fmt.Errorf("allocateNodeCIDRs: %w", err)
	}
	c.podCIDRs.Services = netip.MustParsePrefix("10.96.0.0/16") // of clusters with simulated nodes only
	hasProcesses := func(n NodeConfig) bool { return n.Runtime.Name != "sim" }
	if c.Runs("kubelet") && slices.ContainsFunc(c.Nodes, hasProcesses) {
		return errors.New("allocateNodeCIDRs: only simulated nodes can have podCIDRs (--sim-nodes N): pods of other nodes have loopback addresses")
	}
	return nil
}

// completeNodeLifecycle fills in the defaults of the settings about the health of nodes.
func (c *Config) completeNodeLifecycle() error {
	n := controller.DefaultNodeLifecycle()
	set(&n.EvictionRate, c.NodeEvictionRate)
	set(&n.SecondaryEvictionRate, c.SecondaryNodeEvictionRate)
	set(&n.LargeClusterSizeThreshold, c.LargeClusterSizeThreshold)
	set(&n.UnhealthyZoneThreshold, c.UnhealthyZoneThreshold)
	n.MonitorPeriod = cmp.Or(c.NodeMonitorPeriod.Duration, n.MonitorPeriod)
	n.MonitorGracePeriod = cmp.Or(c.NodeMonitorGracePeriod.Duration, n.MonitorGracePeriod)
	n.StartupGracePeriod = cmp.Or(c.NodeStartupGracePeriod.Duration, n.StartupGracePeriod)
	c.nodeLifecycle = n
	return n.Check()
}

// set replaces a default by a setting, if there is one.
func set[T any](to *T, setting *T) {
	if setting != nil {
		*to = *setting
	}
}

func (c *Config) completeNodes() error {
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if n.Count == 0 {
			n.Count = 1
		}
		if n.Runtime.Name == "" {
			n.Runtime.Name = "process"
		}
		if n.Count < 0 {
			return fmt.Errorf("nodes[%d].count: %d is negative", i, n.Count)
		}
		if _, err := drivers.Find(n.Runtime.Name); err != nil {
			return fmt.Errorf("nodes[%d].runtime: %w", i, err)
		}
		if err := checkTaints(n.Taints); err != nil {
			return fmt.Errorf("nodes[%d].%w", i, err)
		}
		if n.Name == "" {
			n.Name = map[string]string{"sim": "sim"}[n.Runtime.Name]
		}
		if n.Name == "" {
			n.Name = "node"
		}
	}
	return c.checkNodeNames()
}

// taintEffects are the effects that the API accepts.
var taintEffects = []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}

// checkTaints refuses taints that the API server would refuse: the kubelet could not register the node.
func checkTaints(taints []corev1.Taint) error {
	for i, t := range taints {
		if wrong := validation.IsQualifiedName(t.Key); len(wrong) > 0 {
			return fmt.Errorf("taints[%d].key: %q: %s", i, t.Key, wrong[0])
		}
		if wrong := validation.IsValidLabelValue(t.Value); len(wrong) > 0 {
			return fmt.Errorf("taints[%d].value: %q: %s", i, t.Value, wrong[0])
		}
		if !slices.Contains(taintEffects, t.Effect) {
			return fmt.Errorf("taints[%d].effect: %q is not one of %v", i, t.Effect, taintEffects)
		}
	}
	return nil
}

// RunsProcesses reports whether the daemon runs pods as processes of this machine.
func (c *Config) RunsProcesses() bool {
	return c.Runs("kubelet") && slices.ContainsFunc(c.Nodes, func(n NodeConfig) bool { return n.Runtime.Name == "process" })
}

// checkNodeNames refuses invalid and duplicate node names.
func (c *Config) checkNodeNames() error {
	taken := map[string]int{}
	for i, n := range c.Nodes {
		if wrong := validation.IsDNS1123Subdomain(n.Name); len(wrong) > 0 {
			return fmt.Errorf("nodes[%d].name: %q: %s", i, n.Name, wrong[0])
		}
		for _, name := range n.names() {
			if other, ok := taken[name]; ok {
				return fmt.Errorf("nodes[%d].name: %q is a node of nodes[%d] already", i, name, other)
			}
			taken[name] = i
		}
	}
	return nil
}
