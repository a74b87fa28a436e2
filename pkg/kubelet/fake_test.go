package kubelet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/clock"
)

// fakeRuntime runs no programs: the test ends the containers.
type fakeRuntime struct {
	clock   clock.Clock
	changed chan struct{}

	mu          sync.Mutex
	pods        map[types.UID]*Pod
	specs       map[ContainerID]ContainerSpec
	refuse      error                 // of Start
	ignoresTerm bool                  // containers ignore SIGTERM
	exitsZero   bool                  // containers exit with 0 after SIGTERM
	stopFails   int                   // the number of calls of Stop that fail
	stopped     func()                // StopPod calls it; may be nil
	exited      func(context.Context) // Stop calls it once the container has ended; may be nil
	graces      map[ContainerID]time.Duration
	ended       []string // names in the order of their ends
	exec        func(ContainerID, []string, Streams) (int, error)
	unhealthy   error // of Healthy and Pods
}

func newFakeRuntime(clk clock.Clock) *fakeRuntime {
	return &fakeRuntime{
		clock: clk, changed: make(chan struct{}, 1), pods: map[types.UID]*Pod{}, specs: map[ContainerID]ContainerSpec{},
		graces: map[ContainerID]time.Duration{},
	}
}

func (f *fakeRuntime) Changed() <-chan struct{} { return f.changed }

func (f *fakeRuntime) hint() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

func (f *fakeRuntime) Pods(context.Context) ([]Pod, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unhealthy != nil {
		return nil, f.unhealthy
	}
	var out []Pod
	for _, p := range f.pods {
		c := *p
		c.Containers = slices.Clone(p.Containers)
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Pod) int { return cmp.Compare(a.UID, b.UID) })
	return out, nil
}

func (f *fakeRuntime) Healthy() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unhealthy
}

// fail makes the runtime unhealthy, or healthy again with nil.
func (f *fakeRuntime) fail(err error) {
	f.mu.Lock()
	f.unhealthy = err
	f.mu.Unlock()
	f.hint()
}

func (f *fakeRuntime) StartPod(_ context.Context, spec PodSpec) (Pod, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.pods[spec.UID]
	if p == nil {
		p = &Pod{PodSpec: spec, IP: fmt.Sprintf("127.9.0.%d", len(f.pods)+2), Started: f.clock.Now()}
		f.pods[spec.UID] = p
	}
	return *p, nil
}

func (f *fakeRuntime) StopPod(_ context.Context, uid types.UID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped != nil {
		f.stopped()
	}
	delete(f.pods, uid)
	f.hint()
	return nil
}

func (f *fakeRuntime) Start(_ context.Context, uid types.UID, spec ContainerSpec) (ContainerID, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		return "", f.refuse
	}
	p := f.pods[uid]
	if p == nil {
		return "", errors.New("no such pod")
	}
	id := ContainerID(fmt.Sprintf("%s_%s_%d", uid, spec.Name, spec.Attempt))
	p.Containers = append(p.Containers, Container{
		ID: id, Name: spec.Name, Attempt: spec.Attempt, Image: spec.Image, PID: 100, Started: f.clock.Now(), Running: true, Limits: spec.Limits,
	})
	f.specs[id] = spec
	f.hint()
	return id, nil
}

func (f *fakeRuntime) StopToRestart(ctx context.Context, id ContainerID, grace time.Duration) error {
	f.mu.Lock()
	for _, p := range f.pods {
		for i := range p.Containers {
			if p.Containers[i].ID == id {
				p.Containers[i].Restart = true
			}
		}
	}
	f.mu.Unlock()
	return f.Stop(ctx, id, grace)
}

func (f *fakeRuntime) Stop(ctx context.Context, id ContainerID, grace time.Duration) error {
	f.mu.Lock()
	if f.stopFails > 0 {
		f.stopFails--
		f.mu.Unlock()
		return errors.New("the supervisor is gone")
	}
	f.graces[id] = grace
	code := 143
	switch {
	case f.ignoresTerm:
		code = 137
	case f.exitsZero:
		code = 0
	}
	exited := f.exited
	f.mu.Unlock()
	f.exit(id, code)
	if exited != nil {
		exited(ctx)
	}
	return nil
}

// exit ends a container.
func (f *fakeRuntime) exit(id ContainerID, code int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.pods {
		for i := range p.Containers {
			if c := &p.Containers[i]; c.ID == id && c.Running {
				c.Running, c.Finished, c.ExitCode, c.PID = false, f.clock.Now(), code, 0
				f.ended = append(f.ended, c.Name)
			}
		}
	}
	f.hint()
}

func (f *fakeRuntime) Remove(_ context.Context, id ContainerID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.pods {
		p.Containers = slices.DeleteFunc(p.Containers, func(c Container) bool { return c.ID == id && !c.Running })
	}
	return nil
}

func (f *fakeRuntime) Exec(_ context.Context, id ContainerID, cmd []string, s Streams) (int, error) {
	f.mu.Lock()
	do := f.exec
	f.mu.Unlock()
	if do == nil {
		return 0, nil
	}
	return do(id, cmd, s)
}

// spec returns the spec of a container's newest start.
func (f *fakeRuntime) spec(uid types.UID, name string) (ContainerSpec, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.pods[uid]
	if p == nil {
		return ContainerSpec{}, false
	}
	last, ok := p.latest(name)
	return f.specs[last.ID], ok
}
