package supervisor

import (
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// reaper waits for every child of the supervisor: those it forked, and the orphans that it inherits from them.
type reaper struct {
	signals chan os.Signal
	mu      sync.Mutex // held while forking, so that every exit finds its entry in waiting
	waiting map[int]chan<- syscall.WaitStatus
}

func newReaper() *reaper {
	r := &reaper{signals: make(chan os.Signal, 1), waiting: map[int]chan<- syscall.WaitStatus{}}
	signal.Notify(r.signals, syscall.SIGCHLD)
	return r
}

// fork starts a program. Its wait status is sent on the channel when it has ended.
func (r *reaper) fork(path string, argv []string, attr *syscall.ProcAttr) (int, <-chan syscall.WaitStatus, error) {
	exited := make(chan syscall.WaitStatus, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		return 0, nil, err
	}
	r.waiting[pid] = exited
	return pid, exited, nil
}

func (r *reaper) run() {
	for range r.signals {
		for r.reapOne() {
		}
	}
}

func (r *reaper) reapOne() bool {
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
	if errors.Is(err, syscall.EINTR) {
		return true
	}
	if err != nil || pid <= 0 {
		return false
	}
	r.mu.Lock()
	exited := r.waiting[pid]
	delete(r.waiting, pid)
	r.mu.Unlock()
	if exited != nil {
		exited <- status
	}
	return true
}
