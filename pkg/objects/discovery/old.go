package discovery

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	discoveryv1beta1 "k8s.io/api/discovery/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Kubernetes no longer serves this version. It is here because articles and books use it. In it an endpoint's node and zone are
// entries of its topology.
var oldEndpointSlices = []objects.Version[*discoveryv1.EndpointSlice]{{
	Group: "discovery.k8s.io", Version: "v1beta1",
	Deprecated: objects.RemovalWarning("discovery.k8s.io/v1beta1", "EndpointSlice", &discoveryv1beta1.EndpointSlice{}),
	New:        func() runtime.Object { return &discoveryv1beta1.EndpointSlice{} },
	NewList:    func() runtime.Object { return &discoveryv1beta1.EndpointSliceList{} },
	To:         sliceFromOld,
	From:       sliceToOld,
}}

func sliceFromOld(obj runtime.Object) (*discoveryv1.EndpointSlice, error) {
	in, ok := obj.(*discoveryv1beta1.EndpointSlice)
	if !ok {
		return nil, fmt.Errorf("convert %T to an EndpointSlice", obj)
	}
	rest := *in // the endpoints have another encoding and follow below
	rest.Endpoints = nil
	out, err := objects.Recode(&rest, &discoveryv1.EndpointSlice{})
	if err != nil {
		return nil, err
	}
	for i := range in.Endpoints {
		e, err := endpointFromOld(in.Endpoints[i].DeepCopy())
		if err != nil {
			return nil, err
		}
		out.Endpoints = append(out.Endpoints, e)
	}
	return out, nil
}

func endpointFromOld(in *discoveryv1beta1.Endpoint) (discoveryv1.Endpoint, error) {
	out := discoveryv1.Endpoint{Addresses: in.Addresses, Hostname: in.Hostname, TargetRef: in.TargetRef, NodeName: in.NodeName,
		Conditions: discoveryv1.EndpointConditions{Ready: in.Conditions.Ready, Serving: in.Conditions.Serving, Terminating: in.Conditions.Terminating}}
	topology := in.Topology
	if zone, ok := topology[corev1.LabelTopologyZone]; ok {
		out.Zone = &zone
		delete(topology, corev1.LabelTopologyZone)
	}
	if node, ok := topology[corev1.LabelHostname]; ok && in.NodeName != nil && node == *in.NodeName {
		delete(topology, corev1.LabelHostname) // it is in nodeName already
	}
	if len(topology) > 0 {
		out.DeprecatedTopology = topology
	}
	if in.Hints == nil {
		return out, nil
	}
	hints, err := objects.Recode(in.Hints, &discoveryv1.EndpointHints{})
	out.Hints = hints
	return out, err
}

func sliceToOld(in *discoveryv1.EndpointSlice) (runtime.Object, error) {
	rest := *in
	rest.Endpoints = nil
	out, err := objects.Recode(&rest, &discoveryv1beta1.EndpointSlice{})
	if err != nil {
		return nil, err
	}
	for i := range in.Endpoints {
		e, err := endpointToOld(in.Endpoints[i].DeepCopy())
		if err != nil {
			return nil, err
		}
		out.Endpoints = append(out.Endpoints, e)
	}
	return out, nil
}

func endpointToOld(in *discoveryv1.Endpoint) (discoveryv1beta1.Endpoint, error) {
	out := discoveryv1beta1.Endpoint{Addresses: in.Addresses, Hostname: in.Hostname, TargetRef: in.TargetRef, NodeName: in.NodeName,
		Conditions: discoveryv1beta1.EndpointConditions{Ready: in.Conditions.Ready, Serving: in.Conditions.Serving, Terminating: in.Conditions.Terminating}}
	if in.DeprecatedTopology != nil || in.Zone != nil || in.NodeName != nil {
		out.Topology = map[string]string{}
		maps.Copy(out.Topology, in.DeprecatedTopology)
	}
	if in.Zone != nil {
		out.Topology[corev1.LabelTopologyZone] = *in.Zone
	}
	if in.NodeName != nil && out.Topology[corev1.LabelHostname] == "" {
		out.Topology[corev1.LabelHostname] = *in.NodeName
	}
	if in.Hints == nil {
		return out, nil
	}
	hints, err := objects.Recode(in.Hints, &discoveryv1beta1.EndpointHints{})
	out.Hints = hints
	return out, err
}
