package nodemetrics

import (
	"time"

	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// Machine describes the machine of a node.
type Machine struct {
	Cores, Memory  int64 // the memory in bytes
	Kernel, System string
	Version        string // of the kubelet
}

// Container is what the Summary API does not say of a container.
type Container struct {
	ID, Image    string
	MilliCPU     int64 // limits; 0: none
	MemoryBytes  int64
	CPURequested int64 // in thousandths
}

// containerLabels are cAdvisor's labels of a container. A pod as a whole has none of the first three.
var containerLabels = [...]string{"container", "image", "name", "id", "pod", "namespace"}

// CAdvisor returns the metrics of /metrics/cadvisor that are known here, of containers and of pods as a whole. details has what the summary lacks, by
// the UID of the pod and the name of the container.
func CAdvisor(s *stats.Summary, m Machine, details func(uid, container string) Container, now time.Time) Samples {
	var out Samples
	out.add(gauge("cadvisor_version_info", "A metric with a constant '1' value labeled by kernel version, OS version, docker version, cadvisor version & cadvisor revision.",
		"kernelVersion", "osVersion", "dockerVersion", "cadvisorVersion", "cadvisorRevision"), 1, m.Kernel, m.System, "", "", "")
	out.add(gauge("machine_cpu_cores", "Number of logical CPU cores."), float64(m.Cores))
	out.add(gauge("machine_memory_bytes", "Amount of memory installed on the machine."), float64(m.Memory))
	c := newContainerFamilies()
	for i := range s.Pods {
		p := &s.Pods[i]
		pod := "/kubepods/pod" + p.PodRef.UID
		out.container(c, p.CPU, p.Memory, "", "", "", pod, p.PodRef.Name, p.PodRef.Namespace)
		for j := range p.Containers {
			run := &p.Containers[j]
			d := details(p.PodRef.UID, run.Name)
			labels := []string{run.Name, d.Image, d.ID, pod + "/" + d.ID, p.PodRef.Name, p.PodRef.Namespace}
			out.container(c, run.CPU, run.Memory, labels...)
			out.add(c.started, unixSeconds(run.StartTime.Time), labels...)
			out.add(c.seen, float64(now.Unix()), labels...)
			out.add(c.shares, float64(shares(d.CPURequested)), labels...)
			if d.MilliCPU > 0 {
				out.add(c.period, cpuPeriod, labels...)
				out.add(c.quota, float64(d.MilliCPU*cpuPeriod/1000), labels...)
			}
			out.add(c.limit, float64(d.MemoryBytes), labels...)
			if run.Rootfs != nil && run.Rootfs.UsedBytes != nil {
				out.add(c.files, float64(*run.Rootfs.UsedBytes), labels...)
			}
		}
	}
	return out
}

// cpuPeriod is the period of CPU limits in microseconds.
const cpuPeriod = 100_000

// shares returns the CPU shares of a request in thousandths of a CPU, as Kubernetes computes them.
func shares(milliCPU int64) int64 { return max(2, milliCPU*1024/1000) }

// container adds the CPU time and the memory of a container, or of a pod as a whole.
func (s *Samples) container(c containerFamilies, cpu *stats.CPUStats, memory *stats.MemoryStats, labels ...string) {
	if cpu != nil && cpu.UsageCoreNanoSeconds != nil {
		s.addAt(cpu.Time.Time, c.cpu, seconds(*cpu.UsageCoreNanoSeconds), append([]string{"total"}, labels...)...)
	}
	if memory != nil && memory.WorkingSetBytes != nil {
		s.addAt(memory.Time.Time, c.memory, float64(*memory.WorkingSetBytes), labels...)
	}
}

// containerFamilies are the metrics of containers.
type containerFamilies struct {
	cpu, memory, started, seen, shares, period, quota, limit, files family
}

func newContainerFamilies() containerFamilies {
	l := containerLabels[:]
	return containerFamilies{
		cpu:     counter("container_cpu_usage_seconds_total", "Cumulative cpu time consumed in seconds.", append([]string{"cpu"}, l...)...),
		memory:  gauge("container_memory_working_set_bytes", "Current working set in bytes.", l...),
		started: gauge("container_start_time_seconds", "Start time of the container since unix epoch in seconds.", l...),
		seen:    gauge("container_last_seen", "Last time a container was seen by the exporter", l...),
		shares:  gauge("container_spec_cpu_shares", "CPU share of the container.", l...),
		period:  gauge("container_spec_cpu_period", "CPU period of the container.", l...),
		quota:   gauge("container_spec_cpu_quota", "CPU quota of the container.", l...),
		limit:   gauge("container_spec_memory_limit_bytes", "Memory limit for the container.", l...),
		files:   gauge("container_fs_usage_bytes", "Number of bytes that are consumed by the container on this filesystem.", l...),
	}
}
