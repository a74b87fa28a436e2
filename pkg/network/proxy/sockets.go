package proxy

import (
	"context"
	"log/slog"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

// sockets bounds the descriptors that clients of Services can take of the daemon, which also needs some for its API and its files.
type sockets struct {
	left *semaphore.Weighted
	warn *rate.Sometimes
}

// perConnection is what a connection or the packets of a client take: a descriptor for the client and one for the endpoint.
const perConnection = 2

// newSockets allows as many connections as take half of the process's descriptors.
func newSockets() sockets {
	limit := syscall.Rlimit{Cur: 1024}
	_ = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) // fails for no valid resource
	const most = 1 << 20                                 // where there is no limit
	return boundedSockets(int64(min(limit.Cur, most)) / 2 / perConnection)
}

func boundedSockets(connections int64) sockets {
	return sockets{semaphore.NewWeighted(connections), &rate.Sometimes{Interval: time.Minute}}
}

// take waits until there is room for a connection. It reports false if ctx ends before.
func (s sockets) take(ctx context.Context) bool {
	return s.tryTake() || s.left.Acquire(ctx, 1) == nil
}

// tryTake reports whether there is room for a connection.
func (s sockets) tryTake() bool {
	ok := s.left.TryAcquire(1)
	if !ok {
		s.warn.Do(func() {
			slog.Warn("connections to Services take half of the daemon's descriptors (ulimit -n): further clients wait until others end")
		})
	}
	return ok
}

// put ends a connection that was taken.
func (s sockets) put() { s.left.Release(1) }
