package controller

import (
	"fmt"
	"strings"
	"testing"
)

func TestParsePodCIDRs(t *testing.T) {
	const both = "10.0.0.0/16,fd00:1::/56"
	for _, tt := range []struct {
		name  string
		flags PodCIDRFlags
		want  string // the ranges and their prefix lengths, or the start of the error
	}{
		{"IPv4", PodCIDRFlags{ClusterCIDR: "10.244.0.0/16"}, "[10.244.0.0/16] [24]"},
		{"IPv6", PodCIDRFlags{ClusterCIDR: "fd00:1::/56"}, "[fd00:1::/56] [64]"},
		{"both", PodCIDRFlags{ClusterCIDR: both}, "[10.0.0.0/16 fd00:1::/56] [24 64]"},
		{"both with sizes", PodCIDRFlags{ClusterCIDR: both, MaskSize4: 26, MaskSize6: 60}, "[10.0.0.0/16 fd00:1::/56] [26 60]"},
		{"a size", PodCIDRFlags{ClusterCIDR: "10.244.0.0/16", MaskSize: 20}, "[10.244.0.0/16] [20]"},
		{"a size of the family", PodCIDRFlags{ClusterCIDR: "10.244.0.0/16", MaskSize4: 20}, "[10.244.0.0/16] [20]"},
		{"none", PodCIDRFlags{}, "Must specify --cluster-cidr if --allocate-node-cidrs is set"},
		{"no range", PodCIDRFlags{ClusterCIDR: "10.244.0.0"}, "invalid CIDR[0]"},
		{"two of one family", PodCIDRFlags{ClusterCIDR: "10.0.0.0/16,10.1.0.0/16"}, "len of ClusterCIDRs==2 and they are not configured as dual stack"},
		{"three", PodCIDRFlags{ClusterCIDR: both + ",10.1.0.0/16"}, "length of clusterCIDRs is:3 more than max allowed of 2"},
		{"one size for both", PodCIDRFlags{ClusterCIDR: both, MaskSize: 24}, "usage of --node-cidr-mask-size is not allowed with dual-stack clusters"},
		{"two sizes", PodCIDRFlags{ClusterCIDR: "10.0.0.0/16", MaskSize: 24, MaskSize4: 24}, "usage of --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6 is not allowed if"},
		{"a size of the other family", PodCIDRFlags{ClusterCIDR: "10.0.0.0/16", MaskSize6: 64}, "usage of --node-cidr-mask-size-ipv6 is not allowed for a single-stack IPv4 cluster"},
		{"a size of the other family", PodCIDRFlags{ClusterCIDR: "fd00:1::/56", MaskSize4: 24}, "usage of --node-cidr-mask-size-ipv4 is not allowed for a single-stack IPv6 cluster"},
		{"larger than the range", PodCIDRFlags{ClusterCIDR: "10.0.0.0/16", MaskSize: 15}, "Invalid --cluster-cidr, mask size of cluster CIDR must be less than or equal to"},
		{"longer than an address", PodCIDRFlags{ClusterCIDR: "10.0.0.0/16", MaskSize: 33}, "mask size 33 of node CIDRs is larger than an address of 10.0.0.0/16"},
		{"too many of IPv6", PodCIDRFlags{ClusterCIDR: "fd00:1::/32"}, "New CIDR set failed; the node CIDR size is too big"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParsePodCIDRs(tt.flags)
			text := fmt.Sprint(got.Cluster, " ", got.Bits)
			if err != nil {
				text = err.Error()
			}
			if !strings.HasPrefix(text, tt.want) {
				t.Errorf("got %q, want %q", text, tt.want)
			}
		})
	}
}
