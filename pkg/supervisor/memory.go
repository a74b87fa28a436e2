package supervisor

import (
	"syscall"
	"time"
)

// memoryInterval is how often the supervisor sums the memory of containers with a limit. It detects growth within an
// interval late.
const memoryInterval = 500 * time.Millisecond

const oomKilled = "OOMKilled"

// limit starts the watcher of memory if c has a memory limit.
func (s *supervisor) limit(c *container) {
	if c.spec.Memory > 0 {
		s.limits.Do(func() { go s.watchMemory() })
	}
}

// watchMemory kills containers whose processes use more memory than their limit.
func (s *supervisor) watchMemory() {
	for range time.Tick(memoryInterval) {
		if limited := s.limited(); len(limited) > 0 {
			s.checkMemory(limited, index(processes()))
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

func (s *supervisor) checkMemory(limited []*container, all map[int]*process) {
	for _, c := range limited {
		var sum int64
		for _, pid := range s.members(c, all) {
			sum += anonymousMemory(pid)
		}
		if sum <= c.spec.Memory {
			continue
		}
		s.mu.Lock()
		c.reason = oomKilled
		s.mu.Unlock()
		s.signal(c, syscall.SIGKILL)
	}
}
