package kubelet

import (
	"context"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/minikctl/minikctl/pkg/kubelet/internal/eviction"
)

// DiskMeter is implemented by runtimes that can measure what containers write to their own files.
type DiskMeter interface {
	// Disk returns what the files of a container take on disk, without those of its volumes and its log.
	Disk(id ContainerID) DiskUsage
}

// observe measures the signals. Those that can't be measured here are missing. Several nodes may share the machine: one with a capacity of
// its own has no more available than its pods leave of that.
func (e *evictor) observe(ctx context.Context) eviction.Observations {
	out := eviction.Observations{}
	m := e.readPressure(e.host.Dir)
	add := func(signals []eviction.Signal, s supply, format resource.Format) {
		if s.capacity <= 0 {
			return
		}
		for _, signal := range signals {
			out[signal] = eviction.Observation{Available: *resource.NewQuantity(s.available, format), Capacity: *resource.NewQuantity(s.capacity, format)}
		}
	}
	var usage eviction.Usage
	for _, limit := range []struct {
		name corev1.ResourceName
		of   *supply
		used func(*corev1.Pod) int64
	}{
		{corev1.ResourceMemory, &m.memory, func(pod *corev1.Pod) int64 { return usage[pod.UID].Of(corev1.ResourceMemory, pod) }},
		{corev1.ResourceEphemeralStorage, &m.disk, func(pod *corev1.Pod) int64 { return usage[pod.UID].Of(corev1.ResourceEphemeralStorage, pod) }},
	} {
		own, ok := e.Capacity[limit.name]
		if !ok || limit.of.capacity <= 0 {
			continue
		}
		if usage == nil {
			usage = e.measure(ctx, e.activePods())
		}
		left := own.Value()
		for _, pod := range e.activePods() {
			left -= limit.used(pod)
		}
		*limit.of = supply{available: min(limit.of.available, left), capacity: own.Value()}
	}
	add([]eviction.Signal{eviction.MemoryAvailable, eviction.AllocatableMemoryAvailable}, m.memory, resource.BinarySI)
	add([]eviction.Signal{eviction.NodeFsAvailable, eviction.ImageFsAvailable, eviction.ContainerFsAvailable}, m.disk, resource.BinarySI)
	add([]eviction.Signal{eviction.NodeFsInodesFree, eviction.ImageFsInodesFree, eviction.ContainerFsInodesFree}, m.inodes, resource.DecimalSI)
	add([]eviction.Signal{eviction.PIDAvailable}, m.pids, resource.DecimalSI)
	return out
}

// supply is what is available of a resource; a capacity of 0 means that it is unknown.
type supply struct{ available, capacity int64 }

// pressure is what the machine has available.
type pressure struct{ memory, disk, inodes, pids supply }

// measure returns what pods use. It may take a second.
func (e *evictor) measure(ctx context.Context, pods []*corev1.Pod) eviction.Usage {
	used := e.memoryOf(ctx, pods)
	out := eviction.Usage{}
	for _, pod := range pods {
		u := e.diskOf(ctx, pod)
		seen, _ := e.view(pod.UID)
		for i := range u.Containers {
			u.Containers[i].Memory = -1
			if c, ok := seen.latest(u.Containers[i].Name); ok {
				if m, ok := used[c.ID]; ok {
					u.Containers[i].Memory = m.Resources.Memory().Value()
				}
			}
		}
		out[pod.UID] = u
	}
	return out
}

// memoryOf returns the usage of the running containers of pods, where the runtime measures it.
func (e *evictor) memoryOf(ctx context.Context, pods []*corev1.Pod) map[ContainerID]Usage {
	m, ok := e.runtime.(Meter)
	if !ok {
		return nil
	}
	var running []Pod
	for _, pod := range pods {
		if seen, ok := e.view(pod.UID); ok && seen.running() {
			running = append(running, seen)
		}
	}
	if len(running) == 0 {
		return nil
	}
	used, err := m.Usage(ctx, running)
	if err != nil && ctx.Err() == nil {
		slog.WarnContext(ctx, "cannot measure what pods use", "node", e.Name, "err", err)
	}
	return used
}

// diskOf returns what a pod takes on disk: its volumes, and the logs and files of the newest starts of its containers.
func (k *Kubelet) diskOf(_ context.Context, pod *corev1.Pod) eviction.Pod {
	scope := &podScope{kubelet: k, uid: pod.UID, key: keyOf(pod)}
	volumes := podVolumes{podScope: scope}
	out := eviction.Pod{Volumes: map[string]eviction.Disk{}}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.EmptyDir != nil || v.ConfigMap != nil {
			out.Volumes[v.Name] = eviction.Disk(MeasureDisk(volumes.directory(v.Name)))
		}
	}
	seen, _ := k.view(pod.UID)
	meter, _ := k.runtime.(DiskMeter)
	for _, name := range containerNames(pod) {
		c, ok := seen.latest(name)
		if !ok {
			continue
		}
		used := eviction.Container{Name: name, Memory: -1, Logs: eviction.Disk(measureFiles(scope.logPath(pod, name, c.Attempt) + "*"))}
		if meter != nil {
			used.Rootfs = eviction.Disk(meter.Disk(c.ID))
		}
		out.Containers = append(out.Containers, used)
	}
	return out
}

// containerNames returns the names of all containers of a pod.
func containerNames(pod *corev1.Pod) []string {
	var names []string
	for _, c := range pod.Spec.InitContainers {
		names = append(names, c.Name)
	}
	for _, c := range pod.Spec.Containers {
		names = append(names, c.Name)
	}
	for _, c := range pod.Spec.EphemeralContainers {
		names = append(names, c.Name)
	}
	return names
}
