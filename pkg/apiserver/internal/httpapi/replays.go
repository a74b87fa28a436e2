package httpapi

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// How many watches may read old changes from the store at a time: all, and those of one user. Each holds up to 256 KiB of changes, or a larger
// one, decoded and not, until its client has read them or the watch has ended because it reads nothing.
const mostReplays, replaysOfUser = 64, 16

// replays bounds the watches that read old changes. The others wait, the oldest first. It is safe for concurrent use.
type replays struct {
	all     *semaphore.Weighted
	perUser int64

	mu    sync.Mutex
	users map[string]*userReplays
}

type userReplays struct {
	turns   *semaphore.Weighted
	watches int // that read or wait
}

func newReplays(all, perUser int64) *replays {
	return &replays{all: semaphore.NewWeighted(all), perUser: perUser, users: map[string]*userReplays{}}
}

// enter waits until a watch of user may read. The error is ctx's. Without an error the caller must call done.
func (r *replays) enter(ctx context.Context, user string) (done func(), err error) {
	u := r.begin(user)
	if err := u.turns.Acquire(ctx, 1); err != nil {
		r.end(user)
		return nil, err
	}
	leave := func() {
		u.turns.Release(1)
		r.end(user)
	}
	if err := r.all.Acquire(ctx, 1); err != nil {
		leave()
		return nil, err
	}
	return func() {
		r.all.Release(1)
		leave()
	}, nil
}

func (r *replays) begin(user string) *userReplays {
	r.mu.Lock()
	defer r.mu.Unlock()
	u := r.users[user]
	if u == nil {
		u = &userReplays{turns: semaphore.NewWeighted(r.perUser)}
		r.users[user] = u
	}
	u.watches++
	return u
}

func (r *replays) end(user string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u := r.users[user]
	if u.watches--; u.watches == 0 {
		delete(r.users, user)
	}
}
