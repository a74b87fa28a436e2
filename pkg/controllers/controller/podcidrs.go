package controller

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	netutils "k8s.io/utils/net"
)

// PodCIDRs are the ranges from which nodes get their podCIDRs. The zero value allocates none.
type PodCIDRs struct {
	Cluster  []netip.Prefix // one, or one of each family
	Bits     []int          // the prefix length of a node's podCIDR, for each of Cluster
	Services netip.Prefix   // of Services, which no podCIDR overlaps; the zero value: unknown
}

// PodCIDRFlags are kube-controller-manager's flags about podCIDRs: --cluster-cidr and --node-cidr-mask-size, -ipv4 and -ipv6. 0 is a
// flag that is not given.
type PodCIDRFlags struct {
	ClusterCIDR                    string
	MaskSize, MaskSize4, MaskSize6 int
}

// The prefix lengths of podCIDRs where no flag gives one.
const (
	defaultMaskSize4 = 24
	defaultMaskSize6 = 64
)

// maxBlockBits bounds the podCIDRs of a range of IPv6 to 2^16, as in Kubernetes.
const maxBlockBits = 16

// ParsePodCIDRs checks the flags as kube-controller-manager does.
func ParsePodCIDRs(f PodCIDRFlags) (PodCIDRs, error) {
	if strings.TrimSpace(f.ClusterCIDR) == "" {
		return PodCIDRs{}, errors.New("Must specify --cluster-cidr if --allocate-node-cidrs is set") //nolint:staticcheck // Kubernetes' text
	}
	cluster, err := clusterCIDRs(f.ClusterCIDR)
	if err != nil {
		return PodCIDRs{}, err
	}
	size4, size6, err := f.maskSizes(cluster)
	if err != nil {
		return PodCIDRs{}, err
	}
	out := PodCIDRs{Cluster: cluster}
	for _, c := range cluster {
		bits := size4
		if c.Addr().Is6() {
			bits = size6
		}
		switch {
		case c.Bits() > bits:
			return PodCIDRs{}, errors.New("Invalid --cluster-cidr, mask size of cluster CIDR must be less than or equal to --node-cidr-mask-size configured for CIDR family") //nolint:staticcheck // Kubernetes' text
		case bits > c.Addr().BitLen():
			return PodCIDRs{}, fmt.Errorf("mask size %d of node CIDRs is larger than an address of %s", bits, c)
		case c.Addr().Is6() && bits-c.Bits() > maxBlockBits:
			return PodCIDRs{}, errors.New("New CIDR set failed; the node CIDR size is too big") //nolint:staticcheck // Kubernetes' text
		}
		out.Bits = append(out.Bits, bits)
	}
	return out, nil
}

func clusterCIDRs(list string) ([]netip.Prefix, error) {
	parsed, err := netutils.ParseCIDRs(strings.Split(strings.TrimSpace(list), ","))
	if err != nil {
		return nil, err
	}
	if dual, _ := netutils.IsDualStackCIDRs(parsed); len(parsed) > 1 && !dual {
		return nil, fmt.Errorf("len of ClusterCIDRs==%v and they are not configured as dual stack (at least one from each IPFamily", len(parsed))
	}
	if len(parsed) > 2 {
		return nil, fmt.Errorf("length of clusterCIDRs is:%v more than max allowed of 2", len(parsed))
	}
	var out []netip.Prefix
	for _, n := range parsed {
		p, err := netip.ParsePrefix(n.String())
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// maskSizes returns the prefix lengths of podCIDRs of IPv4 and of IPv6.
func (f PodCIDRFlags) maskSizes(cluster []netip.Prefix) (size4, size6 int, err error) {
	dual, only6 := len(cluster) > 1, cluster[0].Addr().Is6()
	switch {
	case dual && f.MaskSize != 0:
		return 0, 0, errors.New("usage of --node-cidr-mask-size is not allowed with dual-stack clusters")
	case dual:
	case f.MaskSize != 0 && (f.MaskSize4 != 0 || f.MaskSize6 != 0):
		return 0, 0, errors.New("usage of --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6 is not allowed if --node-cidr-mask-size is set. For dual-stack clusters please unset it and use IPFamily specific flags")
	case f.MaskSize != 0:
		return f.MaskSize, f.MaskSize, nil
	case f.MaskSize4 != 0 && only6:
		return 0, 0, errors.New("usage of --node-cidr-mask-size-ipv4 is not allowed for a single-stack IPv6 cluster")
	case f.MaskSize6 != 0 && !only6:
		return 0, 0, errors.New("usage of --node-cidr-mask-size-ipv6 is not allowed for a single-stack IPv4 cluster")
	}
	size4, size6 = defaultMaskSize4, defaultMaskSize6
	if f.MaskSize4 != 0 {
		size4 = f.MaskSize4
	}
	if f.MaskSize6 != 0 {
		size6 = f.MaskSize6
	}
	return size4, size6, nil
}
