package supervisor

import (
	"syscall"
	"time"
)

// memoryInterval is how often the supervisor sums the memory of containers whose limit no cgroup enforces. It detects growth within an
// interval late.
const memoryInterval = 500 * time.Millisecond

const oomKilled = "OOMKilled"

// limit starts the watcher of memory if c or its pod has a memory limit.
func (s *supervisor) limit(c *container) {
	s.mu.Lock()
	limits := c.status.Limits()
	s.mu.Unlock()
	if limits.Memory > 0 || limits.PodMemory > 0 {
		s.limits.Do(func() { go s.watchMemory() })
	}
}

// watchMemory kills containers whose processes use more memory than their limit.
func (s *supervisor) watchMemory() {
	for range time.Tick(memoryInterval) {
		s.endOutOfMemory()
		if limited := s.limited(); len(limited) > 0 {
			s.checkMemory(limited, index(processes()))
		}
	}
}

// endOutOfMemory ends the containers of which the kernel has killed a process in a cgroup of version 1. In one of version 2 the kernel kills
// all processes.
func (s *supervisor) endOutOfMemory() {
	s.mu.Lock()
	var all []*container
	for _, c := range s.containers {
		if c.status.Running && c.reason == "" && cgroup(c.status.MemoryGroup).outOfMemory() {
			c.reason = oomKilled
			all = append(all, c)
		}
	}
	s.mu.Unlock()
	for _, c := range all {
		s.signal(c, syscall.SIGKILL)
	}
}

// limited returns the running containers with a limit that no cgroup enforces. Commands may run outside a container's cgroup.
func (s *supervisor) limited() []*container {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*container
	for _, c := range s.containers {
		if !c.status.Running || c.reason != "" {
			continue
		}
		limits := c.status.Limits()
		enforced := c.status.MemoryGroup != "" || c.status.MemoryEnforced && s.grouped(c)
		watched := limits.Memory > 0 && !enforced || limits.PodMemory > 0
		if watched {
			all = append(all, c)
		}
	}
	return all
}

func (s *supervisor) checkMemory(limited []*container, all map[int]*process) {
	used := make([]memoryUse, 0, len(limited))
	for _, c := range limited {
		s.mu.Lock()
		limits := c.status.Limits()
		s.mu.Unlock()
		u := memoryUse{id: c.spec.ID, pod: c.spec.Pod, limit: limits.Memory, podLimit: limits.PodMemory}
		for _, pid := range s.members(c, all) {
			u.used += anonymousMemory(pid)
		}
		used = append(used, u)
	}
	for i, kill := range overMemory(used) {
		if !kill {
			continue
		}
		c := limited[i]
		s.mu.Lock()
		c.reason = oomKilled
		s.mu.Unlock()
		s.signal(c, syscall.SIGKILL)
	}
}

// memoryUse is what a container uses, with its limit and that of its pod in bytes; 0: none.
type memoryUse struct {
	id, pod               string
	limit, podLimit, used int64
}

// overMemory reports which of the containers to kill: those above their limits, and of each pod above its own limit the container that
// uses the most, as the kernel chooses in the cgroup of a pod. The limit of a pod counts what the killed containers leave.
func overMemory(all []memoryUse) []bool {
	kill := make([]bool, len(all))
	sums, largest := map[string]int64{}, map[string]int{}
	for i, u := range all {
		if u.limit > 0 && u.used > u.limit {
			kill[i] = true
			continue
		}
		if u.podLimit == 0 {
			continue
		}
		sums[u.pod] += u.used
		if j, ok := largest[u.pod]; !ok || u.used > all[j].used || u.used == all[j].used && u.id < all[j].id {
			largest[u.pod] = i
		}
	}
	for pod, i := range largest {
		if sums[pod] > all[i].podLimit {
			kill[i] = true
		}
	}
	return kill
}
