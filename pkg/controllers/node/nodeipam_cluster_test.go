package node_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/controllers/controllertest"
)

// ranges gives the controllers ranges of podCIDRs, with blocks of the prefix lengths.
func ranges(bits []int, cluster ...string) func(*controllers.Config) {
	return func(cfg *controllers.Config) {
		cfg.PodCIDRs = controller.PodCIDRs{Bits: bits, Services: netip.MustParsePrefix("10.96.0.0/16")}
		for _, c := range cluster {
			cfg.PodCIDRs.Cluster = append(cfg.PodCIDRs.Cluster, netip.MustParsePrefix(c))
		}
	}
}

// TestPodCIDRs: nodes get podCIDRs that no other node has, and that of a deleted node is free again.
func TestPodCIDRs(t *testing.T) {
	controllertest.BothWith(t, ranges([]int{24, 64}, "10.244.0.0/22", "fd00:1::/62"), func(c *controllertest.Cluster) {
		own := node("own")
		own.Spec.PodCIDRs = []string{"10.244.1.0/24", "fd00:1:0:1::/64"}
		controllertest.Create(c, client.Nodes, own)
		cidrs := map[string]string{"10.244.1.0/24": "own"}
		for _, name := range []string{"a", "b", "c"} {
			controllertest.Create(c, client.Nodes, node(name))
			var n *corev1.Node
			c.Until("podCIDRs of "+name, func() bool { n = getNode(c, name); return len(n.Spec.PodCIDRs) == 2 })
			if n.Spec.PodCIDR != n.Spec.PodCIDRs[0] || cidrs[n.Spec.PodCIDR] != "" {
				t.Errorf("%s has %v, others %v", name, n.Spec, cidrs)
			}
			cidrs[n.Spec.PodCIDR] = name
		}

		controllertest.Create(c, client.Nodes, node("last"))
		c.Until("an event about the node without a podCIDR", func() bool {
			return slices.Contains(c.EventsOf("last"), "CIDRNotAvailable: Node last status is now: CIDRNotAvailable")
		})
		freed := getNode(c, "b").Spec.PodCIDRs
		c.Remove(client.Nodes, "/b", metav1.DeletePropagationBackground)
		c.Until("the podCIDRs of the deleted node", func() bool { return slices.Equal(getNode(c, "last").Spec.PodCIDRs, freed) })
	})
}

// TestPodCIDRsBesideServices: no podCIDR overlaps the addresses of Services.
func TestPodCIDRsBesideServices(t *testing.T) {
	controllertest.BothWith(t, ranges([]int{16}, "10.96.0.0/15"), func(c *controllertest.Cluster) {
		controllertest.Create(c, client.Nodes, node("a"))
		c.Until("podCIDR", func() bool { return getNode(c, "a").Spec.PodCIDR == "10.97.0.0/16" })
		controllertest.Create(c, client.Nodes, node("b"))
		c.Until("an event about the node without a podCIDR", func() bool { return strings.Contains(strings.Join(c.EventsOf("b"), "\n"), "CIDRNotAvailable") })
	})
}
