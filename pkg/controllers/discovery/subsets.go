package discovery

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/dump"
)

// maxAddresses is the number of addresses that an Endpoints object of the controller has at most.
const maxAddresses = 1000

// addressID identifies an address: pods of the host's network share their IP.
type addressID struct {
	ip  string
	uid types.UID
}

func idOf(a *corev1.EndpointAddress) addressID {
	id := addressID{ip: a.IP}
	if a.TargetRef != nil {
		id.uid = a.TargetRef.UID
	}
	return id
}

func (id addressID) compare(other addressID) int {
	return cmp.Or(strings.Compare(id.ip, other.ip), cmp.Compare(id.uid, other.uid))
}

// noPort stands in for the port of a subset without ports.
var noPort = corev1.EndpointPort{Port: -1}

// pack returns subsets in the canonical form of Kubernetes' Endpoints: ports with the same addresses share a subset, and an
// address that is ready and not ready for the same port is not ready.
func pack(subsets []corev1.EndpointSubset) []corev1.EndpointSubset {
	addresses := map[addressID]corev1.EndpointAddress{}
	ready := map[corev1.EndpointPort]map[addressID]bool{}
	for _, s := range subsets {
		ports := s.Ports
		if len(ports) == 0 {
			ports = []corev1.EndpointPort{noPort}
		}
		for _, port := range ports {
			if ready[port] == nil {
				ready[port] = map[addressID]bool{}
			}
			for i, a := range slices.Concat(s.Addresses, s.NotReadyAddresses) {
				id := idOf(&a)
				if _, ok := addresses[id]; !ok {
					addresses[id] = a
				}
				was, known := ready[port][id]
				ready[port][id] = i < len(s.Addresses) && (was || !known)
			}
		}
	}
	groups := map[string]*corev1.EndpointSubset{}
	for port, members := range ready {
		ids := slices.SortedFunc(maps.Keys(members), addressID.compare)
		var key strings.Builder
		for _, id := range ids {
			fmt.Fprintf(&key, "%s %s %t\n", id.ip, id.uid, members[id])
		}
		g := groups[key.String()]
		if g == nil {
			g = &corev1.EndpointSubset{}
			for _, id := range ids {
				if members[id] {
					g.Addresses = append(g.Addresses, addresses[id])
				} else {
					g.NotReadyAddresses = append(g.NotReadyAddresses, addresses[id])
				}
			}
			groups[key.String()] = g
		}
		if port != noPort {
			g.Ports = append(g.Ports, port)
		}
	}
	out := []corev1.EndpointSubset{}
	for _, g := range groups {
		sortByHash(g.Ports)
		out = append(out, *g)
	}
	sortByHash(out)
	return out
}

// sortByHash sorts values by the 128-bit FNV-1a hash of their dump, the order that Kubernetes gives to ports and subsets.
func sortByHash[T any](values []T) {
	hash := func(v T) []byte {
		h := fnv.New128a()
		fmt.Fprintf(h, "%v", dump.ForHash(v))
		return h.Sum(nil)
	}
	slices.SortFunc(values, func(a, b T) int { return bytes.Compare(hash(a), hash(b)) })
}

// sameSubsets reports whether two lists of subsets are equal, apart from the resourceVersion of pods.
func sameSubsets(a, b []corev1.EndpointSubset) bool { return equalities.DeepEqual(a, b) }

var equalities = conversion.EqualitiesOrDie(func(a, b corev1.ObjectReference) bool {
	a.ResourceVersion, b.ResourceVersion = "", ""
	return a == b
})

// truncate removes addresses beyond maxAddresses, those that are not ready first. Each subset loses in proportion to its
// size. It reports whether it has removed any.
func truncate(subsets []corev1.EndpointSubset) bool {
	ready, notReady := 0, 0
	for _, s := range subsets {
		ready += len(s.Addresses)
		notReady += len(s.NotReadyAddresses)
	}
	if ready+notReady <= maxAddresses {
		return false
	}
	room, total := maxAddresses-ready, notReady
	if ready > maxAddresses {
		room, total = maxAddresses, ready
	}
	left := room
	for i := range subsets {
		list := &subsets[i].NotReadyAddresses
		if ready > maxAddresses {
			list = &subsets[i].Addresses
			subsets[i].NotReadyAddresses = []corev1.EndpointAddress{}
		}
		share := int(math.Ceil(float64(len(*list)) / float64(total) * float64(room)))
		*list = (*list)[:min(share, left, len(*list))]
		left -= len(*list)
	}
	return true
}
