package sim

import (
	"container/heap"
	"time"

	"github.com/minikctl/minikctl/pkg/kubelet"
)

// scheduledExit is the time and exit code of a container by its rule. They do not change a container that was stopped before.
type scheduledExit struct {
	at   time.Time
	node *node
	id   kubelet.ContainerID
	code int
}

// queue is a heap of ends, the earliest first.
type queue []scheduledExit

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *queue) Push(x any) { *q = append(*q, x.(scheduledExit)) }

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	(*q)[len(*q)-1] = scheduledExit{}
	*q = (*q)[:len(*q)-1]
	return last
}

// endAt schedules the end of a container. The caller holds c.mu.
func (c *Cluster) endAt(at time.Time, n *node, id kubelet.ContainerID, code int) {
	heap.Push(&c.ends, scheduledExit{at, n, id, code})
	c.arm()
}

// arm sets the timer to the earliest end. The caller holds c.mu.
func (c *Cluster) arm() {
	if len(c.ends) == 0 || !c.due.IsZero() && !c.ends[0].at.Before(c.due) {
		return
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	c.due = c.ends[0].at
	// fire runs in a new goroutine, since a fake clock calls the function while it holds its lock.
	c.timer = c.clock.AfterFunc(c.due.Sub(c.clock.Now()), func() {
		c.work.Add(1)
		go c.fire()
	})
}

// fire ends the containers that are due.
func (c *Cluster) fire() {
	defer c.work.Add(-1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due = time.Time{}
	now := c.clock.Now()
	for len(c.ends) > 0 && !c.ends[0].at.After(now) {
		e := heap.Pop(&c.ends).(scheduledExit)
		if x := e.node.find(e.id); x != nil && x.Running && !x.Started.After(e.at) {
			e.node.end(e.id, e.at, e.code, 0)
		}
	}
	c.arm()
}
