package process

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// The windows over which CPU usage is measured. Nothing is measured until a client reads usage. A window begins at an earlier reading or
// at the container's start; without either, the reading takes shortWindow.
const (
	shortWindow = time.Second      // the shortest window
	window      = 10 * time.Second // a reading so long after the last one begins a new window there
	oldReading  = time.Minute      // a reading that is too old to begin a window
)

// reading is a container's CPU time at a moment.
type reading struct {
	at  time.Time
	cpu time.Duration
}

// readings are where a container's window begins, and the last reading that may begin the next one.
type readings struct {
	begin, last reading

	measured, total time.Duration // the CPU time of the newest reading, and the sum of all growth
}

// add returns the readings after r of a container that started at started.
func (s readings) add(r reading, started time.Time) readings {
	switch age := r.at.Sub(s.last.at); {
	case s.last.at.IsZero() && r.at.Sub(started) <= oldReading:
		return readings{begin: reading{at: started}, last: r}
	case age > oldReading:
		return readings{last: r}
	case age >= window || s.begin.at.IsZero():
		return readings{begin: s.last, last: r}
	}
	return s
}

// rate returns the CPU usage from the beginning of the window to r, in billionths of a core. ok is false if the window is too short.
func (s readings) rate(r reading) (nanoCores int64, over time.Duration, ok bool) {
	over = r.at.Sub(s.begin.at)
	if s.begin.at.IsZero() || over < shortWindow {
		return 0, 0, false
	}
	used := max(0, r.cpu-s.begin.cpu)
	return int64(float64(used) / over.Seconds()), over, true
}

// meter keeps the readings of containers by ID.
type meter struct {
	mu   sync.Mutex
	kept map[string]readings
}

// add keeps a reading and returns the usage.
func (m *meter) add(id string, u wire.Usage, started time.Time) (kubelet.Usage, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil {
		m.kept = map[string]readings{}
	}
	r := reading{u.At, u.CPU}
	before := m.kept[id]
	s := before.add(r, started)
	s.measured, s.total = r.cpu, before.total+max(0, r.cpu-before.measured) // processes outside cgroups take their CPU time along when they end
	m.kept[id] = s
	nanoCores, over, ok := s.rate(r)
	return kubelet.Usage{Time: u.At, Window: over, CPUTime: s.total, Resources: corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewScaledQuantity(nanoCores, resource.Nano),
		corev1.ResourceMemory: *resource.NewQuantity(u.Memory, resource.BinarySI),
	}}, ok
}

// keep drops the readings of containers that do not exist.
func (m *meter) keep(exists func(id string) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.kept {
		if !exists(id) {
			delete(m.kept, id)
		}
	}
}

// Usage implements kubelet.Meter. It takes a second if a container has not been measured lately.
func (r *Runtime) Usage(ctx context.Context, pods []kubelet.Pod) (map[kubelet.ContainerID]kubelet.Usage, error) {
	started := map[string]time.Time{}
	for _, p := range pods {
		for _, c := range p.Containers {
			if c.Running {
				started[string(c.ID)] = c.Started
			}
		}
	}
	out := map[kubelet.ContainerID]kubelet.Usage{}
	left, err := r.measure(ctx, started, out)
	if err != nil || len(left) == 0 {
		return out, err
	}
	if err := clock.Sleep(ctx, clock.Real(), shortWindow); err != nil { // processes run in real time
		return nil, err
	}
	_, err = r.measure(ctx, left, out)
	return out, err
}

// measure adds the usage of containers to out. It returns those that have to be measured again, after shortWindow.
func (r *Runtime) measure(ctx context.Context, started map[string]time.Time, out map[kubelet.ContainerID]kubelet.Usage) (left map[string]time.Time, err error) {
	req := &wire.Request{Op: wire.Measure}
	for id := range started {
		req.IDs = append(req.IDs, id)
	}
	if len(req.IDs) == 0 {
		return nil, nil
	}
	reply, err := r.host.call(ctx, req)
	if err != nil {
		return nil, err
	}
	left = map[string]time.Time{}
	for id, used := range reply.Usage {
		u, ok := r.host.meter.add(id, used, started[id])
		if !ok {
			left[id] = started[id]
			continue
		}
		out[kubelet.ContainerID(id)] = u
	}
	r.host.forgetReadings()
	return left, nil
}

// forgetReadings drops the readings of removed containers.
func (h *Host) forgetReadings() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.meter.keep(func(id string) bool { return h.status[id] != nil })
}

// Disk implements kubelet.DiskMeter: the container's root directory, and what it has created beside the machine's files in its mount namespace.
func (r *Runtime) Disk(id kubelet.ContainerID) kubelet.DiskUsage {
	spec := wire.Spec{StateDir: filepath.Join(r.host.root, wire.Containers, string(id))}
	sum := kubelet.MeasureDisk(spec.Root())
	sum.Add(kubelet.MeasureDisk(spec.MountDir()))
	return sum
}
