package supervisor

import (
	"slices"
	"syscall"
	"time"
)

// memoryInterval is how often the memory of limited containers is looked at. What grows faster is caught late: that is
// what a limit without cgroups can give.
const memoryInterval = 500 * time.Millisecond

const oomKilled = "OOMKilled"

// limit has c's memory watched, if it has a limit.
func (s *supervisor) limit(c *container) {
	if c.spec.Memory > 0 {
		s.limits.Do(func() { go s.watchMemory() })
	}
}

// watchMemory kills containers whose processes hold more than their limit.
func (s *supervisor) watchMemory() {
	for range time.Tick(memoryInterval) {
		if limited := s.limited(); len(limited) > 0 {
			s.checkMemory(limited, processes())
		}
	}
}

func (s *supervisor) limited() []*container {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*container
	for _, c := range s.containers {
		if c.status.Running && c.spec.Memory > 0 && c.reason == "" {
			all = append(all, c)
		}
	}
	return all
}

func (s *supervisor) checkMemory(limited []*container, all []process) {
	for _, c := range limited {
		s.mu.Lock()
		sessions := append(slices.Clone(c.status.Sessions), c.status.PID)
		since, pid := c.status.Born, c.status.PID
		s.mu.Unlock()
		var sum int64
		for _, p := range all {
			if p.born >= since && slices.Contains(sessions, p.session) {
				sum += anonymousMemory(p.pid)
			}
		}
		if sum <= c.spec.Memory {
			continue
		}
		s.mu.Lock()
		c.reason = oomKilled
		s.mu.Unlock()
		s.signal(c, pid, syscall.SIGKILL)
	}
}
