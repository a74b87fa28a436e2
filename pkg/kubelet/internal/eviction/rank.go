package eviction

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Reason is the reason of evictions, in the pod's status and its Event.
const Reason = "Evicted"

// The annotations of the Event of an eviction.
const (
	offendingContainers = "offending_containers"
	offendingUsage      = "offending_containers_usage"
	offendingPod        = "offending_pod"
	offendingPodUsage   = "offending_pod_usage"
	starvedResource     = "starved_resource"
)

// Usage is what pods use, by their UIDs. A pod that could not be measured is missing.
type Usage map[types.UID]Pod

// First returns the threshold to act on among those that evict pods, with the resource that it is about.
func First(evict []Threshold) (Threshold, corev1.ResourceName) {
	return evict[0], resourceOf(evict[0].Signal)
}

// Rank returns the pods in the order in which they are evicted to reclaim a resource. First are those that use more than they request,
// then those of lower priority, then those that exceed their requests by more. For process IDs only the priority counts.
func Rank(reclaim corev1.ResourceName, pods []*corev1.Pod, usage Usage) []*corev1.Pod {
	out := slices.Clone(pods)
	slices.SortStableFunc(out, func(a, b *corev1.Pod) int {
		if reclaim == pids {
			return cmp.Compare(priority(a), priority(b))
		}
		usedA, knownA := usage[a.UID]
		usedB, knownB := usage[b.UID]
		if !knownA || !knownB {
			return cmp.Compare(btoi(knownA), btoi(knownB)) // a pod that could not be measured goes first
		}
		beyond := func(used Pod, pod *corev1.Pod) (requested, above int64) {
			requested = request(pod, reclaim)
			n := used.Of(reclaim, pod)
			if reclaim == inodes {
				return requested, n - request(pod, corev1.ResourceEphemeralStorage)
			}
			return requested, n - requested
		}
		requestA, aboveA := beyond(usedA, a)
		requestB, aboveB := beyond(usedB, b)
		return cmp.Or(
			cmp.Compare(btoi(usedA.Of(reclaim, a) <= requestA), btoi(usedB.Of(reclaim, b) <= requestB)),
			cmp.Compare(priority(a), priority(b)),
			cmp.Compare(aboveB, aboveA),
		)
	})
	return out
}

func priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// Message returns the message of a pod's eviction to reclaim a resource, and the annotations of its Event. evict and o are those that led
// to the eviction.
func Message(reclaim corev1.ResourceName, pod *corev1.Pod, usage Usage, evict []Threshold, o Observations) (string, map[string]string) {
	annotations := map[string]string{}
	var text strings.Builder
	fmt.Fprintf(&text, "The node was low on resource: %v. ", reclaim)
	for _, t := range evict {
		if seen, ok := o[t.Signal]; ok && resourceOf(t.Signal) == reclaim {
			limit := t.Value.of(seen.Capacity)
			fmt.Fprintf(&text, "Threshold quantity: %v, available: %v. ", &limit, &seen.Available)
			break
		}
	}
	used, ok := usage[pod.UID]
	if !ok {
		return text.String(), annotations
	}
	if r := pod.Spec.Resources; r != nil && reclaim == corev1.ResourceMemory {
		if want, ok := r.Requests[reclaim]; ok {
			fmt.Fprintf(&text, "Pod %s was using %s, request is %s, has larger consumption of %v. ", pod.Name, bytes(used.memory()), &want, reclaim)
			annotations[offendingPod], annotations[offendingPodUsage] = pod.Name, bytes(used.memory()).String()
		}
	}
	var names, amounts []string
	for _, c := range used.Containers {
		n, ok := c.of(reclaim)
		spec := specOf(pod, c.Name)
		if !ok || spec == nil {
			continue
		}
		want := spec.Resources.Requests[reclaim]
		if bytes(n).Cmp(want) > 0 {
			fmt.Fprintf(&text, "Container %s was using %s, request is %s, has larger consumption of %v. ", c.Name, bytes(n), &want, reclaim)
			names, amounts = append(names, c.Name), append(amounts, bytes(n).String())
		}
	}
	annotations[offendingContainers], annotations[offendingUsage] = strings.Join(names, ","), strings.Join(amounts, ",")
	annotations[starvedResource] = string(reclaim)
	return text.String(), annotations
}

// of returns what the container uses of a resource that its requests name.
func (c Container) of(name corev1.ResourceName) (int64, bool) {
	switch name {
	case corev1.ResourceMemory:
		return c.Memory, c.Memory >= 0
	case corev1.ResourceEphemeralStorage:
		return c.Rootfs.Bytes + c.Logs.Bytes, true
	}
	return 0, false
}

func specOf(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}
