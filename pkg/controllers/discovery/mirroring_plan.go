package discovery

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	endpointsutil "k8s.io/endpointslice/util"
	"k8s.io/utils/net"
	"k8s.io/utils/ptr"
)

// mirrorPlan has the writes that make the slices of Endpoints equal to them.
type mirrorPlan struct {
	create, update, remove []*discoveryv1.EndpointSlice

	invalid int // addresses that are no IP addresses
	skipped int // addresses that are not mirrored, the invalid ones included
}

// sliceKey identifies the slice of a subset's addresses of a type.
type sliceKey struct {
	addresses discoveryv1.AddressType
	ports     endpointsutil.PortMapKey
}

// planMirror plans one slice for the addresses of each subset and address type, with at most maxMirrored addresses a subset.
// Existing slices are kept, and used again for other ports before they are removed.
func planMirror(ep *corev1.Endpoints, existing []*discoveryv1.EndpointSlice) mirrorPlan {
	var plan mirrorPlan
	byKey := map[sliceKey][]*discoveryv1.EndpointSlice{}
	for _, s := range existing {
		key := sliceKey{s.AddressType, endpointsutil.NewPortMapKey(s.Ports)}
		byKey[key] = append(byKey[key], s)
	}
	for _, subset := range pack(ep.Subsets) {
		for _, want := range plan.slicesOf(ep, subset) {
			key := sliceKey{want.AddressType, endpointsutil.NewPortMapKey(want.Ports)}
			have := byKey[key]
			delete(byKey, key)
			if len(have) == 0 {
				plan.create = append(plan.create, want)
				continue
			}
			plan.remove = append(plan.remove, have[1:]...)
			if !mirrored(have[0], want) {
				want.Name, want.GenerateName = have[0].Name, ""
				plan.update = append(plan.update, want)
			}
		}
	}
	for _, s := range existing { // in the order of the cache, not of the map
		if slices.Contains(byKey[sliceKey{s.AddressType, endpointsutil.NewPortMapKey(s.Ports)}], s) {
			plan.remove = append(plan.remove, s)
		}
	}
	plan.recycle()
	return plan
}

// slicesOf returns the slices of a subset, by address type, and counts the addresses that are left out.
func (p *mirrorPlan) slicesOf(ep *corev1.Endpoints, subset corev1.EndpointSubset) []*discoveryv1.EndpointSlice {
	added := 0
	byType := map[discoveryv1.AddressType][]discoveryv1.Endpoint{}
	for i, a := range slices.Concat(subset.Addresses, subset.NotReadyAddresses) {
		if added == maxMirrored {
			break
		}
		ip := net.ParseIPSloppy(a.IP)
		if ip == nil {
			p.invalid++
			continue
		}
		added++
		family := discoveryv1.AddressTypeIPv4
		if ip.To4() == nil {
			family = discoveryv1.AddressTypeIPv6
		}
		e := discoveryv1.Endpoint{
			Addresses: []string{ip.String()}, TargetRef: a.TargetRef, NodeName: a.NodeName,
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(i < len(subset.Addresses))},
		}
		if a.Hostname != "" {
			e.Hostname = &a.Hostname
		}
		byType[family] = append(byType[family], e)
	}
	p.skipped += len(subset.Addresses) + len(subset.NotReadyAddresses) - added
	var out []*discoveryv1.EndpointSlice
	for _, family := range slices.Sorted(maps.Keys(byType)) {
		s := newMirror(ep, family, subset.Ports)
		s.Endpoints = byType[family]
		out = append(out, s)
	}
	return out
}

func newMirror(ep *corev1.Endpoints, family discoveryv1.AddressType, ports []corev1.EndpointPort) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: sliceName(ep.Name), Namespace: ep.Namespace,
			Labels: map[string]string{}, Annotations: mirroredAnnotations(ep),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(ep, corev1.SchemeGroupVersion.WithKind("Endpoints"))},
		},
		AddressType: family,
		Ports:       []discoveryv1.EndpointPort{},
	}
	maps.Copy(s.Labels, ep.Labels)
	s.Labels[discoveryv1.LabelServiceName] = ep.Name
	s.Labels[discoveryv1.LabelManagedBy] = mirroringController
	for _, p := range ports {
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{
			Name: ptr.To(p.Name), Port: ptr.To(p.Port), Protocol: ptr.To(p.Protocol), AppProtocol: p.AppProtocol,
		})
	}
	return s
}

// sliceName returns the generateName of the slices for a Service.
func sliceName(service string) string {
	if prefix := service + "-"; len(validation.NameIsDNSSubdomain(prefix, true)) == 0 {
		return prefix
	}
	return service
}

func mirroredAnnotations(ep *corev1.Endpoints) map[string]string {
	out := maps.Clone(ep.Annotations)
	if out == nil {
		out = map[string]string{}
	}
	delete(out, corev1.EndpointsLastChangeTriggerTime)
	delete(out, corev1.LastAppliedConfigAnnotation)
	return out
}

// mirrored reports whether a stored slice needs no update to become want. The order of its endpoints does not matter.
func mirrored(have, want *discoveryv1.EndpointSlice) bool {
	if !apiequality.Semantic.DeepEqual(have.Labels, want.Labels) || !apiequality.Semantic.DeepEqual(have.Annotations, want.Annotations) ||
		len(have.Endpoints) != len(want.Endpoints) || replacedOwner(have, want) {
		return false
	}
	wanted := endpointsutil.EndpointSet{}
	for i := range want.Endpoints {
		wanted.Insert(&want.Endpoints[i])
	}
	for i := range have.Endpoints {
		e := &have.Endpoints[i]
		if w := wanted.Get(e); w == nil || !endpointsutil.EndpointsEqualBeyondHash(w, e) {
			return false
		}
	}
	return true
}

// replacedOwner reports whether the owner of a slice has been deleted and created again.
func replacedOwner(have, want *discoveryv1.EndpointSlice) bool {
	owner := want.OwnerReferences[0]
	return slices.ContainsFunc(have.OwnerReferences, func(r metav1.OwnerReference) bool {
		return r.Kind == owner.Kind && r.Name == owner.Name && r.UID != owner.UID
	})
}

// recycle turns creates into updates of slices of the same address type that would be removed.
func (p *mirrorPlan) recycle() {
	p.create = slices.DeleteFunc(p.create, func(s *discoveryv1.EndpointSlice) bool {
		i := slices.IndexFunc(p.remove, func(old *discoveryv1.EndpointSlice) bool { return old.AddressType == s.AddressType })
		if i < 0 {
			return false
		}
		s.Name, s.GenerateName = p.remove[i].Name, ""
		p.update = append(p.update, s)
		p.remove = slices.Delete(p.remove, i, i+1)
		return true
	})
}
