package kubelet

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/minikctl/minikctl/pkg/kubelet/internal/eviction"
)

// serveSummary serves the Summary API: what a node, its running pods and their containers and volumes use.
func serveSummary(w http.ResponseWriter, r *http.Request, k *Kubelet) {
	only, _ := strconv.ParseBool(r.URL.Query().Get("only_cpu_and_memory")) // as in Kubernetes, what is not a boolean is false
	s, _ := k.summary(r.Context(), !only)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s) // the client has disconnected
}

// summary returns what the node's running pods use, with files as what they take on disk. Usage that is unknown is missing. It may take a second.
// The error is that of the measurement; the summary then lacks CPU and memory.
func (k *Kubelet) summary(ctx context.Context, files bool) (*stats.Summary, error) {
	var pods []Pod
	for _, p := range k.runningPods("") {
		if !k.down() {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(a, b Pod) int { return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) })
	used := map[ContainerID]Usage{}
	var err error
	m, metered := k.runtime.(Meter)
	if metered && len(pods) > 0 {
		if used, err = m.Usage(ctx, pods); err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "cannot measure what pods use", "node", k.Name, "err", err)
		}
	}
	times := k.cpuTimes.add(pods, used)
	out := &stats.Summary{Pods: []stats.PodStats{}, Node: stats.NodeStats{NodeName: k.Name, StartTime: metav1.NewTime(k.host.started)}}
	node := sum{at: k.host.machineClock().Now()}
	for _, p := range pods {
		pod, _ := k.host.pod(p.key())
		s, total := podSummary(p, pod, used)
		total.fill(&s.CPU, &s.Memory, times.pods[p.UID], 0)
		if files && !k.Tier.Simulated && pod != nil && pod.UID == p.UID {
			k.addFiles(ctx, pod, &s)
		}
		out.Pods = append(out.Pods, s)
		node.add(total)
	}
	node.measured = node.measured || metered && err == nil
	capacity := k.capacity()
	node.fill(&out.Node.CPU, &out.Node.Memory, times.node, capacity.Memory().Value())
	if files && !k.Tier.Simulated {
		k.addMachine(&out.Node, node.at)
	}
	return out, err
}

// podSummary returns the usage of a pod's running containers, and the sum of them. pod is that of the API, nil if it is gone.
func podSummary(p Pod, pod *corev1.Pod, used map[ContainerID]Usage) (stats.PodStats, sum) {
	out := stats.PodStats{
		PodRef:    stats.PodReference{Name: p.Name, Namespace: p.Namespace, UID: string(p.UID)},
		StartTime: metav1.NewTime(p.Started), Containers: []stats.ContainerStats{},
	}
	var total sum
	for _, c := range p.Containers {
		if !c.Running {
			continue
		}
		s := stats.ContainerStats{Name: c.Name, StartTime: metav1.NewTime(c.Started)}
		if u, ok := used[c.ID]; ok {
			one := sum{measured: true, at: u.Time, nanoCores: u.Resources.Cpu().ScaledValue(-9), memory: u.Resources.Memory().Value()}
			one.fill(&s.CPU, &s.Memory, u.CPUTime, memoryLimit(pod, c.Name))
			total.add(one)
		}
		out.Containers = append(out.Containers, s)
	}
	slices.SortFunc(out.Containers, func(a, b stats.ContainerStats) int { return cmp.Compare(a.Name, b.Name) })
	return out, total
}

// memoryLimit returns a container's memory limit in bytes; 0 without one.
func memoryLimit(pod *corev1.Pod, name string) int64 {
	if pod == nil {
		return 0
	}
	c, _ := container(pod, name)
	if c == nil {
		return 0
	}
	return c.Resources.Limits.Memory().Value()
}

// sum adds up what containers use.
type sum struct {
	measured          bool
	at                time.Time // the latest measurement
	nanoCores, memory int64
}

func (s *sum) add(o sum) {
	s.measured = s.measured || o.measured
	s.nanoCores += o.nanoCores
	s.memory += o.memory
	if o.at.After(s.at) {
		s.at = o.at
	}
}

// fill sets the statistics to the sum. limit is the most memory in bytes; 0: none.
func (s *sum) fill(cpu **stats.CPUStats, memory **stats.MemoryStats, cpuTime time.Duration, limit int64) {
	if !s.measured {
		return
	}
	at := metav1.NewTime(s.at)
	*cpu = &stats.CPUStats{Time: at, UsageNanoCores: unsigned(s.nanoCores), UsageCoreNanoSeconds: unsigned(cpuTime.Nanoseconds())}
	*memory = &stats.MemoryStats{Time: at, WorkingSetBytes: unsigned(s.memory)}
	if limit > 0 {
		(*memory).AvailableBytes = unsigned(limit - s.memory)
	}
}

func unsigned(n int64) *uint64 { return new(uint64(max(0, n))) }

// addFiles adds what the logs, files and volumes of a pod take on disk.
func (k *Kubelet) addFiles(ctx context.Context, pod *corev1.Pod, s *stats.PodStats) {
	at := k.host.machineClock().Now()
	disk := k.readPressure(k.host.Dir)
	use := k.diskOf(ctx, pod)
	var all eviction.Disk
	for i := range s.Containers {
		c := &s.Containers[i]
		i := slices.IndexFunc(use.Containers, func(u eviction.Container) bool { return u.Name == c.Name })
		if i < 0 {
			continue
		}
		u := use.Containers[i]
		c.Rootfs, c.Logs = disk.files(at, u.Rootfs), disk.files(at, u.Logs)
		all.Add(u.Rootfs)
		all.Add(u.Logs)
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		u, local := use.Volumes[v.Name]
		if !local {
			continue
		}
		s.VolumeStats = append(s.VolumeStats, stats.VolumeStats{Name: v.Name, FsStats: *disk.files(at, u)})
		if v.EmptyDir == nil || v.EmptyDir.Medium != corev1.StorageMediumMemory {
			all.Add(u)
		}
	}
	s.VolumeStats = append(s.VolumeStats, k.claimStats(ctx, pod)...)
	s.EphemeralStorage = disk.files(at, all)
}

// files returns the statistics of files on the disk.
func (p pressure) files(at time.Time, used eviction.Disk) *stats.FsStats {
	return &stats.FsStats{
		Time: metav1.NewTime(at), AvailableBytes: unsigned(p.disk.available), CapacityBytes: unsigned(p.disk.capacity), UsedBytes: unsigned(used.Bytes),
		InodesFree: unsigned(p.inodes.available), Inodes: unsigned(p.inodes.capacity), InodesUsed: unsigned(used.Inodes),
	}
}

// addMachine adds the disk and the process IDs of the machine, which its nodes share.
func (k *Kubelet) addMachine(s *stats.NodeStats, at time.Time) {
	p := k.readPressure(k.host.Dir)
	if p.disk.capacity > 0 {
		all := eviction.Disk{Bytes: p.disk.capacity - p.disk.available, Inodes: p.inodes.capacity - p.inodes.available}
		s.Fs = p.files(at, all)
		s.Runtime = &stats.RuntimeStats{ImageFs: p.files(at, eviction.Disk{}), ContainerFs: p.files(at, all)}
	}
	if p.pids.capacity > 0 {
		s.Rlimit = &stats.RlimitStats{Time: metav1.NewTime(at), MaxPID: new(p.pids.capacity), NumOfRunningProcesses: new(p.pids.capacity - p.pids.available)}
	}
}

// cpuTimes adds up the CPU time of containers, so that the sums of a node and its pods do not fall when a container ends.
type cpuTimes struct {
	mu   sync.Mutex
	last map[ContainerID]time.Duration
	sums cpuSums
}

// cpuSums are sums of CPU time: those of the running pods, and that of the node since the start of its kubelet's measurements.
type cpuSums struct {
	pods map[types.UID]time.Duration
	node time.Duration
}

// add adds what running pods have used since the last call, and returns the sums.
func (c *cpuTimes) add(running []Pod, used map[ContainerID]Usage) cpuSums {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, sums := map[ContainerID]time.Duration{}, cpuSums{pods: map[types.UID]time.Duration{}, node: c.sums.node}
	for _, p := range running {
		pod := c.sums.pods[p.UID]
		for _, run := range p.Containers {
			u, ok := used[run.ID]
			before := c.last[run.ID]
			if !ok {
				last[run.ID] = before
				continue
			}
			grown := max(0, u.CPUTime-before)
			pod += grown
			sums.node += grown
			last[run.ID] = max(before, u.CPUTime)
		}
		sums.pods[p.UID] = pod
	}
	c.last, c.sums = last, sums
	return sums
}
