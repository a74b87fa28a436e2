package supervisor

import (
	"errors"
	"fmt"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// relimit gives a running container other limits and returns its new status. After an error it has the old ones. A memory limit below what the
// container uses is refused. In cgroups of version 1, one for a container that had none is watched: the memory that the container has does not
// move into another cgroup. The daemon makes one such request of a container at a time.
func (s *supervisor) relimit(id string, limits *wire.Limits) (*wire.Status, error) {
	c, _, err := s.running(id)
	if err != nil {
		return nil, err
	}
	if limits == nil {
		return nil, errors.New("relimit: no limits")
	}
	s.mu.Lock()
	old := c.status.Limits()
	s.mu.Unlock()
	if lower(limits.Memory, old.Memory) {
		if used := s.measure([]string{id})[id].Memory; used > limits.Memory {
			return nil, fmt.Errorf("the memory limit of %d bytes is below the current usage of %d", limits.Memory, used)
		}
	}
	s.mu.Lock()
	memory := cgroup(c.status.MemoryGroup)
	s.mu.Unlock()
	if memory != noCgroup {
		if err := memory.setMemory(limits.Memory); err != nil {
			return nil, fmt.Errorf("change the memory limit: %w", err)
		}
	}
	cpu, made, err := s.changeCPU(c, limits.MilliCPU)
	if err != nil {
		if memory != noCgroup {
			if failed := memory.setMemory(old.Memory); failed != nil {
				err = fmt.Errorf("%w; restore the memory limit: %w", err, failed)
			}
		}
		return nil, err
	}
	s.mu.Lock()
	if !c.status.Running {
		s.mu.Unlock()
		if made {
			_ = cpu.remove() // an empty one does no harm
		}
		return nil, fmt.Errorf("%s: %w", id, wire.ErrStopped)
	}
	enforced := memory == noCgroup && c.cgroup.limitMemory(limits.Memory)
	c.status.MemoryEnforced, c.status.CPUGroup, c.status.NewLimits = enforced && limits.Memory > 0, string(cpu), limits
	s.publish(c)
	status := c.status
	s.mu.Unlock()
	s.limit(c)
	return &status, nil
}

// lower reports whether a limit is below another one; 0 is none.
func lower(limit, than int64) bool { return limit > 0 && (than == 0 || limit < than) }

// changeCPU changes the CPU limit of a running container. It returns the cgroup of version 1 that has it, noCgroup if another one does, or none,
// and whether that cgroup is new.
func (s *supervisor) changeCPU(c *container, milliCPU int64) (g cgroup, made bool, err error) {
	s.mu.Lock()
	g = cgroup(c.status.CPUGroup)
	s.mu.Unlock()
	if g != noCgroup {
		if err := g.setQuota(milliCPU); err != nil {
			return g, false, fmt.Errorf("change the CPU limit: %w", err)
		}
		return g, false, nil
	}
	if c.cgroup.limitCPU(milliCPU) || milliCPU == 0 {
		return noCgroup, false, nil
	}
	if g = makeCPUGroup(s.root, c.spec.StateDir, milliCPU); g == noCgroup {
		return noCgroup, false, nil
	}
	s.moveMembers(c, g)
	return g, true, nil
}

// moveMembers moves the processes of a container into a cgroup. Processes that they fork meanwhile outside it are moved in the next round.
func (s *supervisor) moveMembers(c *container, g cgroup) {
	const rounds = 10
	moved := map[int]bool{}
	for range rounds {
		more := false
		for _, pid := range s.members(c, index(processes())) {
			if !moved[pid] && g.add(pid) == nil { // otherwise it has ended
				moved[pid], more = true, true
			}
		}
		if !more {
			return
		}
	}
}
