package nodemetrics

import (
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// Resource returns the metrics of /metrics/resource: CPU and memory of the node, its pods and their containers. failed reports that the usage
// could not be measured.
func Resource(s *stats.Summary, failed bool) Samples {
	var out Samples
	out.usage(s.Node.CPU, s.Node.Memory, "node", "the node")
	started := gauge("container_start_time_seconds", "Start time of the container since unix epoch in seconds", "container", "pod", "namespace")
	for i := range s.Pods {
		p := &s.Pods[i]
		for j := range p.Containers {
			c := &p.Containers[j]
			if c.StartTime.Unix() > 0 {
				out.add(started, unixSeconds(c.StartTime.Time), c.Name, p.PodRef.Name, p.PodRef.Namespace)
			}
			out.usage(c.CPU, c.Memory, "container", "the container", label{"container", c.Name}, label{"pod", p.PodRef.Name}, label{"namespace", p.PodRef.Namespace})
		}
		out.usage(p.CPU, p.Memory, "pod", "the pod", label{"pod", p.PodRef.Name}, label{"namespace", p.PodRef.Namespace})
	}
	value := 0.0
	if failed {
		value = 1
	}
	out.add(gauge("scrape_error", "1 if there was an error while getting container metrics, 0 otherwise"), value)
	out.add(gauge("resource_scrape_error", "1 if there was an error while getting container metrics, 0 otherwise"), value)
	return out
}

type label struct{ name, value string }

// usage adds the CPU time and the memory of a node, pod or container, as far as they are known.
func (s *Samples) usage(cpu *stats.CPUStats, memory *stats.MemoryStats, prefix, what string, labels ...label) {
	var names, values []string
	for _, l := range labels {
		names, values = append(names, l.name), append(values, l.value)
	}
	if cpu != nil && cpu.UsageCoreNanoSeconds != nil {
		f := counter(prefix+"_cpu_usage_seconds_total", "Cumulative cpu time consumed by "+what+" in core-seconds", names...)
		s.addAt(cpu.Time.Time, f, seconds(*cpu.UsageCoreNanoSeconds), values...)
	}
	if memory != nil && memory.WorkingSetBytes != nil {
		f := gauge(prefix+"_memory_working_set_bytes", "Current working set of "+what+" in bytes", names...)
		s.addAt(memory.Time.Time, f, float64(*memory.WorkingSetBytes), values...)
	}
}
