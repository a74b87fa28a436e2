package supervisor

import (
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// A container's processes are those of its cgroup, where the supervisor can make one. Elsewhere they are those with its tag
// (tag_linux.go). Where the kernel has no tags, they are those of its sessions: a process leaves its session only by setsid,
// and the filter reports each setsid. A session counts as the container's only together with the start time of its leader,
// because the kernel gives the number of an ended session to later processes. Without a filter, the container's variable in
// the environment identifies processes as well.

const (
	// killTries bounds how long killed processes may exist: about a second.
	killTries = 200
	// killTime bounds how long a container may create processes faster than they are killed.
	killTime = time.Minute
)

// killAll kills all processes of a container except the first, which is dead or dies with its process group. It repeats
// this until no process is found. From now on the container's processes can't create sessions, so that those that fork all
// the time stay in process groups, which die at once.
func (s *supervisor) killAll(c *container) {
	search := newSearch(s.startKilling(c))
	left := false        // the last scan has found a process of the container
	clean, tries := 0, 0 // scans without a process of the container, and without a new one, since the last one with some
	for end := time.Now().Add(killTime); tries < killTries && time.Now().Before(end); {
		if s.empty(c) {
			return
		}
		found, missed := search.scan()
		if found > 0 {
			left, clean, tries = true, 0, 0
			continue // at once, before the remaining ones fork
		}
		left = s.killCgroup(c)
		for _, p := range s.sessionMembers(c, index(processes())) {
			p.signal(syscall.SIGKILL)
			left = true
		}
		tries++
		if clean++; left || missed {
			clean = 0
		}
		if clean == 2 { // a single scan can miss a process that is created while the list of processes is read
			return
		}
		pause()
	}
	if left {
		logf("%s: some processes do not die", c.spec.ID)
	}
}

// startKilling refuses new sessions to the container's processes, and returns the tag by which to find them, or 0.
func (s *supervisor) startKilling(c *container) (tag uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.killing = true
	if c.status.Boot != s.boot || s.grouped(c) {
		return 0
	}
	return c.status.Tag
}

// grouped reports whether all processes of c are in its cgroup. s.mu must be held.
func (s *supervisor) grouped(c *container) bool {
	// With a cgroup, only the sessions of commands that run outside the cgroup are recorded.
	return c.cgroup != noCgroup && len(c.status.Leaders) == 0
}

// killCgroup kills all processes in a container's cgroup. It returns whether there were any.
func (s *supervisor) killCgroup(c *container) bool {
	if !c.cgroup.populated() {
		return false
	}
	if err := c.cgroup.kill(); err != nil {
		logf("%s: %v", c.spec.ID, err)
	}
	return true
}

// empty reports whether a container certainly has no processes left: its cgroup is empty, or no process is under its
// filter. It does not need the list of all processes of the machine.
func (s *supervisor) empty(c *container) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.cgroup != noCgroup {
		return len(c.status.Leaders) == 0 && !c.cgroup.populated()
	}
	return len(c.execs) == 0 && c.listener.unused()
}

// members returns the PIDs of a container's living processes. all holds the processes of the machine by PID.
func (s *supervisor) members(c *container, all map[int]*process) []int {
	pids := c.cgroup.pids()
	for _, p := range s.sessionMembers(c, all) {
		pids = append(pids, p.PID)
	}
	return pids
}

// sessionMembers lists the living processes of a container that are not in its cgroup.
func (s *supervisor) sessionMembers(c *container, all map[int]*process) []*process {
	s.mu.Lock()
	m := membership{
		all:      all,
		leaders:  append(slices.Clone(c.status.Leaders), wire.Process{PID: c.status.PID, Born: c.status.Born}),
		root:     c.spec.Root(),
		tag:      c.status.Tag,
		filtered: c.listener != nil,
	}
	grouped, boot := s.grouped(c), c.status.Boot
	s.mu.Unlock()
	if grouped || boot != s.boot {
		return nil
	}
	var members []*process
	for _, p := range all {
		if m.has(p) {
			members = append(members, p)
		}
	}
	return members
}

// process is a process of this machine.
type process struct {
	wire.Process
	parent, session int
	group           int // of processes; 0: unknown
	zombie          bool
	exit            syscall.WaitStatus // of a zombie; see readable

	tag     uint64 // once tagRead is set
	tagRead bool
}

// hasTag reports whether p has a tag. No process has the tag 0. It reads the tag of p once, however many containers ask for it,
// and is not safe for concurrent use.
func (p *process) hasTag(tag uint64) bool {
	if tag == 0 {
		return false
	}
	if !p.tagRead {
		p.tag, p.tagRead = readTag(p.PID), true
	}
	return p.tag == tag
}

// index returns the processes by PID.
func index(all []process) map[int]*process {
	byPID := make(map[int]*process, len(all))
	for i := range all {
		byPID[all[i].PID] = &all[i]
	}
	return byPID
}

// membership decides which processes outside a container's cgroup belong to it.
type membership struct {
	all      map[int]*process
	leaders  []wire.Process // of the container's sessions; the last one is the container's first process
	root     string         // the value of the container's variable
	tag      uint64         // 0: none
	filtered bool           // every setsid was reported, and no tag changed
}

func (m *membership) has(p *process) bool {
	since := m.leaders[len(m.leaders)-1].Born
	if p.zombie || p.Born < since {
		return false
	}
	if p.hasTag(m.tag) {
		return true
	}
	for _, leader := range m.leaders {
		if leader.PID == p.session {
			return m.inSession(p, leader)
		}
	}
	if m.filtered {
		return false
	}
	value, _ := variable(p.PID, wire.RootVariable)
	return value == m.root
}

// inSession reports whether p, whose session ID is leader's PID, is in the session that leader created. The ID alone is
// no proof once the leader has ended: the kernel may have given it to a later process, which may also have created a
// session and ended.
func (m *membership) inSession(p *process, leader wire.Process) bool {
	if now, ok := m.all[leader.PID]; ok {
		return now.Born == leader.Born
	}
	if value, ok := variable(p.PID, wire.RootVariable); ok {
		return value == m.root
	}
	return m.descends(p)
}

// descends reports whether p is a descendant of the supervisor, which inherits the orphans of its containers.
func (m *membership) descends(p *process) bool {
	for range m.all {
		if p.parent == os.Getpid() || p.parent == orphanReaper {
			return true
		}
		parent, ok := m.all[p.parent]
		if !ok {
			return false
		}
		p = parent
	}
	return false
}

// pause is the interval for polling what the kernel does not report.
func pause() { time.Sleep(5 * time.Millisecond) }

// maxRecordedSessions is the number of recorded sessions of a container beyond which the ended ones are dropped.
const maxRecordedSessions = 32

// joinSession records that a process of c creates its own session.
func (s *supervisor) joinSession(c *container, leader wire.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropReused(leader)
	if slices.Contains(c.status.Leaders, leader) {
		return
	}
	leaders := slices.Clone(c.status.Leaders)
	if len(leaders) >= maxRecordedSessions {
		leaders = current(leaders, processes())
	}
	c.status.Leaders = append(leaders, leader)
	if err := c.save(); err != nil {
		logf("%s: %v", c.spec.ID, err)
	}
}

// dropReused drops the recorded sessions with the ID of a living process: the kernel reuses an ID only after its
// session has ended. s.mu must be held.
func (s *supervisor) dropReused(now wire.Process) {
	reused := func(old wire.Process) bool { return old.PID == now.PID && old.Born != now.Born }
	for _, c := range s.containers {
		if slices.ContainsFunc(c.status.Leaders, reused) {
			c.status.Leaders = slices.DeleteFunc(slices.Clone(c.status.Leaders), reused)
		}
	}
}

// current returns the leaders whose sessions exist or are about to: a leader is reported before it creates its session.
func current(leaders []wire.Process, all []process) []wire.Process {
	taken := map[int]bool{}
	for _, p := range all {
		if !p.zombie {
			taken[p.session] = true
		}
	}
	byPID := index(all)
	return slices.DeleteFunc(leaders, func(l wire.Process) bool {
		now, ok := byPID[l.PID]
		if ok && now.Born != l.Born {
			return true
		}
		return !taken[l.PID] && (!ok || now.zombie)
	})
}
