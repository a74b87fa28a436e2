package definitions

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/clock"
)

// awaitTimeout is how long Await waits.
const awaitTimeout = time.Second

// progress records which definitions the registrar has processed. It is safe for concurrent use.
type progress struct {
	mu    sync.Mutex
	until map[types.UID]int64 // the generation that was processed
	step  chan struct{}       // closed at the next change
	ended bool
}

func newProgress() *progress {
	return &progress{until: map[types.UID]int64{}, step: make(chan struct{})}
}

func (p *progress) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.step)
	p.step = make(chan struct{})
}

func (p *progress) processed(uid types.UID, generation int64) {
	p.change(func() { p.until[uid] = generation })
}

func (p *progress) forget(uid types.UID) {
	p.change(func() { delete(p.until, uid) })
}

func (p *progress) end() {
	p.change(func() { p.ended = true })
}

// reached reports whether a generation has been processed, or never will be. The channel is closed at the next change.
func (p *progress) reached(uid types.UID, generation int64) (bool, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended || p.until[uid] >= generation, p.step
}

// Await returns once a definition's generation has been processed: its resource is served and its conditions are set. It
// returns early when ctx or Run ends, or after longest.
func (r *Registrar) Await(ctx context.Context, uid types.UID, generation int64) {
	late := r.machine.NewTimer(awaitTimeout)
	defer late.Stop()
	for tries := 0; ; tries++ {
		done, step := r.progress.reached(uid, generation)
		if done {
			return
		}
		if tries == 0 && clock.YieldTurn(ctx) { // to Run
			continue
		}
		select {
		case <-step:
		case <-late.C():
			return
		case <-ctx.Done():
			return
		}
	}
}
