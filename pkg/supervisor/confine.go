package supervisor

import (
	"errors"
	"strings"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// makeCgroups creates the cgroup of a container, in that of its pod if that is of version 2. The container is not published yet.
func (s *supervisor) makeCgroups(c *container) {
	parent := ownCgroup()
	if c.spec.PodPIDs > 0 {
		s.podGroups.Lock()
		defer s.podGroups.Unlock()
		if pod := makePodGroup(s.root, c.spec.Pod, c.spec.PodPIDs); pod != noCgroup {
			parent, c.status.PodGroup = string(pod), string(pod)
		}
	}
	c.cgroup = makeCgroup(parent, s.root, c.spec.StateDir)
}

// confine makes the kernel limit a container whose first process waits, by cgroups of version 1 where those of version 2 don't. A limit that
// the machine can't enforce is not an error: the pod has an Event about it. The container is not published yet.
func (s *supervisor) confine(c *container, child *child) {
	st, spec := &c.status, c.spec
	if spec.MilliCPU > 0 && !c.cgroup.limitCPU(spec.MilliCPU) {
		st.CPUGroup = string(joined(c, child, makeCPUGroup(s.root, spec.StateDir, spec.MilliCPU)))
	}
	if spec.Memory > 0 {
		if st.MemoryEnforced = c.cgroup.limitMemory(spec.Memory); !st.MemoryEnforced {
			st.MemoryGroup = string(joined(c, child, makeMemoryGroup(s.root, spec.StateDir, spec.Memory)))
		}
	}
	if spec.PodPIDs == 0 || isBelow(c.cgroup, st.PodGroup) {
		return
	}
	s.podGroups.Lock()
	defer s.podGroups.Unlock()
	cgroup(st.PodGroup).removeIfEmpty()
	st.PodGroup = string(joined(c, child, makePodController(s.root, spec.Pod, spec.PodPIDs)))
}

// joined moves the first process of a container into a cgroup of version 1, which it returns; noCgroup if that fails.
func joined(c *container, child *child, g cgroup) cgroup {
	if g == noCgroup {
		return noCgroup
	}
	if err := g.add(child.PID); err != nil {
		logf("%s: %v", c.spec.ID, err)
		g.removeIfEmpty()
		return noCgroup
	}
	return g
}

// isBelow reports whether a cgroup is in the one with the directory parent.
func isBelow(g cgroup, parent string) bool {
	return parent != "" && strings.HasPrefix(string(g), parent+"/")
}

// oldGroups returns the cgroups of version 1 that the processes of a container are in.
func oldGroups(c *container, st *wire.Status) []cgroup {
	all := []cgroup{cgroup(st.CPUGroup), cgroup(st.MemoryGroup)}
	if !isBelow(c.cgroup, st.PodGroup) {
		all = append(all, cgroup(st.PodGroup))
	}
	return all
}

// removeCgroups removes the cgroups of a container without processes, and that of its pod if no other container is in it.
func (s *supervisor) removeCgroups(c *container) error {
	err := errors.Join(c.cgroup.remove(), cgroup(c.status.CPUGroup).remove(), cgroup(c.status.MemoryGroup).remove())
	s.podGroups.Lock()
	defer s.podGroups.Unlock()
	cgroup(c.status.PodGroup).removeIfEmpty()
	return err
}
