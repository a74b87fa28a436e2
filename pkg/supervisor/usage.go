package supervisor

import (
	"time"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// resources is what processes use: CPU time so far, and resident memory in bytes.
type resources struct {
	cpu    time.Duration
	memory int64
}

func (r *resources) add(o resources) {
	r.cpu += o.cpu
	r.memory += o.memory
}

// measure returns what the running containers of ids use. It lists the processes of the machine only for containers without a cgroup,
// and returns nothing where the system does not show what a process uses.
func (s *supervisor) measure(ids []string) map[string]wire.Usage {
	if !measurable {
		return nil
	}
	s.mu.Lock()
	var running []*container
	var alone bool // some container has processes outside its cgroup
	for _, id := range ids {
		if c := s.containers[id]; c != nil && c.status.Running {
			running = append(running, c)
			alone = alone || !s.grouped(c)
		}
	}
	s.mu.Unlock()
	var all map[int]*process
	if alone {
		all = index(processes())
	}
	out := make(map[string]wire.Usage, len(running))
	for _, c := range running {
		used := c.cgroup.used()
		for _, p := range s.sessionMembers(c, all) {
			used.add(usedBy(p.PID))
		}
		out[c.spec.ID] = wire.Usage{At: time.Now(), CPU: used.cpu, Memory: used.memory}
	}
	return out
}
