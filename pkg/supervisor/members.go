package supervisor

import (
	"slices"
	"syscall"
	"time"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// killTries bounds how long a container's processes may take to vanish after SIGKILL: a second or so.
const killTries = 200

// killAll kills every process of a container but the first, which is dead or is killed with its group. The processes are
// those of its sessions: a process leaves its session by setsid only, and the filter tells of each. Where there is no
// filter, processes are also known by the container's own variable in their environment.
func (s *supervisor) killAll(c *container) {
	for range killTries {
		if s.deserted(c) {
			return
		}
		members := s.members(c)
		if len(members) == 0 {
			return
		}
		for _, p := range members {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
		pause()
	}
	logf("%s: some processes do not die", c.spec.ID)
}

// members lists the living processes of a container.
func (s *supervisor) members(c *container) []process {
	s.mu.Lock()
	sessions := append(slices.Clone(c.status.Sessions), c.status.PID)
	since, boot := c.status.Born, c.status.Boot
	filtered, root := c.notify != nil, wire.RootVariable+"="+c.spec.Root()
	s.mu.Unlock()
	if boot != s.boot {
		return nil
	}
	return slices.DeleteFunc(processes(), func(p process) bool {
		// What is older than the container has its number from a session of before.
		if p.zombie || p.born < since {
			return true
		}
		return !slices.Contains(sessions, p.session) && (filtered || !hasVariable(p.pid, root))
	})
}

// process is one that runs on this machine.
type process struct {
	pid, parent, session int
	born                 uint64
	zombie               bool
}

// deserted tells without looking at each process of the machine that a container has none left: then nobody has its filter.
func (s *supervisor) deserted(c *container) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(c.execs) == 0 && abandoned(c.notify)
}

// pause is between two looks at something that the kernel does not tell of.
func pause() { time.Sleep(5 * time.Millisecond) }

// manySessions is how many sessions of a container are remembered before those are forgotten that have ended: the number
// of one that has may be given to a session of somebody else's.
const manySessions = 32

// joinSession notes that a process of c makes a session of its own.
func (s *supervisor) joinSession(c *container, pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(c.status.Sessions, pid) {
		return
	}
	sessions := slices.Clone(c.status.Sessions)
	if len(sessions) >= manySessions {
		sessions = current(sessions, processes())
	}
	c.status.Sessions = append(sessions, pid)
	if err := c.save(); err != nil {
		logf("%s: %v", c.spec.ID, err)
	}
}

// current returns those of the sessions that have a living process, or will: their leader is about to make them.
func current(sessions []int, all []process) []int {
	alive := map[int]bool{}
	for _, p := range all {
		if !p.zombie {
			alive[p.session], alive[p.pid] = true, true
		}
	}
	return slices.DeleteFunc(sessions, func(n int) bool { return !alive[n] })
}
