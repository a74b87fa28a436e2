package core

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Nodes is the row of Node.
var Nodes = objects.Def[*corev1.Node]{
	Names:    objects.Names{Version: "v1", Kind: "Node", Plural: "nodes", Short: []string{"no"}, Cluster: true},
	New:      func() *corev1.Node { return &corev1.Node{} },
	NewList:  func() runtime.Object { return &corev1.NodeList{} },
	Default:  defaultNode,
	Prepare:  prepareNode,
	Validate: validateNode,
	Columns:  nodeColumns,
	Warnings: nodeWarnings,
	Selectable: map[string]func(*corev1.Node) string{
		"spec.unschedulable": func(n *corev1.Node) string { return strconv.FormatBool(n.Spec.Unschedulable) },
	},
	Reset: []string{"status"},
	Status: &objects.Status[*corev1.Node]{
		Prepare:  func(n, old *corev1.Node) { n.Spec, n.Status.Config = old.Spec, nil },
		Validate: validateNodeStatus,
		Reset:    []string{"spec"},
	},
	Connects: []string{"proxy"},
}

func defaultNode(n *corev1.Node) {
	sameCIDRs(&n.Spec)
	for _, list := range []corev1.ResourceList{n.Status.Capacity, n.Status.Allocatable} {
		for name, q := range list {
			if !q.RoundUp(-3) {
				list[name] = q
			}
		}
	}
	if n.Status.Allocatable == nil && n.Status.Capacity != nil {
		n.Status.Allocatable = maps.Clone(n.Status.Capacity)
	}
}

// sameCIDRs makes podCIDR and podCIDRs[0] equal. podCIDR takes precedence.
func sameCIDRs(s *corev1.NodeSpec) {
	switch {
	case s.PodCIDR != "" && (len(s.PodCIDRs) == 0 || s.PodCIDRs[0] != s.PodCIDR):
		s.PodCIDRs = []string{s.PodCIDR}
	case s.PodCIDR == "" && len(s.PodCIDRs) > 0:
		s.PodCIDR = s.PodCIDRs[0]
	}
}

// prepareNode keeps the status in a create, since kubelets register nodes with a status.
func prepareNode(n, old *corev1.Node) {
	if old != nil {
		n.Status = old.Status
	} else {
		n.Status.Config = nil
	}
	n.Spec.ConfigSource = nil // Kubernetes has removed dynamic kubelet configuration
}

var (
	nodeStatusDoc = corev1.NodeStatus{}.SwaggerDoc()
	nodeInfoDoc   = corev1.NodeSystemInfo{}.SwaggerDoc()
)

var nodeColumns = []objects.Column[*corev1.Node]{
	objects.NameColumn[*corev1.Node](),
	{Name: "Status", Description: "The status of the node", Cell: func(n *corev1.Node, _ time.Time) any { return nodeState(n) }},
	{Name: "Roles", Description: "The roles of the node", Cell: func(n *corev1.Node, _ time.Time) any { return nodeRoles(n) }},
	objects.AgeColumn[*corev1.Node](),
	{Name: "Version", Description: nodeInfoDoc["kubeletVersion"],
		Cell: func(n *corev1.Node, _ time.Time) any { return n.Status.NodeInfo.KubeletVersion }},
	{Name: "Internal-IP", Wide: true, Description: nodeStatusDoc["addresses"],
		Cell: func(n *corev1.Node, _ time.Time) any { return nodeAddress(n, corev1.NodeInternalIP) }},
	{Name: "External-IP", Wide: true, Description: nodeStatusDoc["addresses"],
		Cell: func(n *corev1.Node, _ time.Time) any { return nodeAddress(n, corev1.NodeExternalIP) }},
	{Name: "OS-Image", Wide: true, Description: nodeInfoDoc["osImage"],
		Cell: func(n *corev1.Node, _ time.Time) any { return orUnknown(n.Status.NodeInfo.OSImage) }},
	{Name: "Kernel-Version", Wide: true, Description: nodeInfoDoc["kernelVersion"],
		Cell: func(n *corev1.Node, _ time.Time) any { return kernel(&n.Status.NodeInfo) }},
	{Name: "Container-Runtime", Wide: true, Description: nodeInfoDoc["containerRuntimeVersion"],
		Cell: func(n *corev1.Node, _ time.Time) any { return orUnknown(n.Status.NodeInfo.ContainerRuntimeVersion) }},
}

func kernel(i *corev1.NodeSystemInfo) string {
	if i.Architecture == "" {
		return orUnknown(i.KernelVersion)
	}
	return orUnknown(i.KernelVersion) + " (" + i.Architecture + ")"
}

func orUnknown(s string) string {
	if s == "" {
		return "<unknown>"
	}
	return s
}

func nodeState(n *corev1.Node) string {
	state := "Unknown"
	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		state = "NotReady"
		if c.Status == corev1.ConditionTrue {
			state = "Ready"
		}
	}
	if n.Spec.Unschedulable {
		state += ",SchedulingDisabled"
	}
	return state
}

// nodeRoles returns the roles in the labels of a node.
func nodeRoles(n *corev1.Node) string {
	roles := map[string]bool{}
	for key, value := range n.Labels {
		if role, ok := strings.CutPrefix(key, "node-role.kubernetes.io/"); ok && role != "" {
			roles[role] = true
		} else if key == "kubernetes.io/role" && value != "" {
			roles[value] = true
		}
	}
	if len(roles) == 0 {
		return "<none>"
	}
	return strings.Join(slices.Sorted(maps.Keys(roles)), ",")
}

func nodeAddress(n *corev1.Node, kind corev1.NodeAddressType) string {
	for _, a := range n.Status.Addresses {
		if a.Type == kind {
			return a.Address
		}
	}
	return "<none>"
}
