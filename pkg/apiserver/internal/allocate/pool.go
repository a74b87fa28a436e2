package allocate

import (
	"errors"
	"sync"

	"github.com/minikctl/minikctl/pkg/clock"
)

// What a pool answers.
var (
	errTaken = errors.New("already allocated")
	errFull  = errors.New("range is full")
)

// pool hands out the numbers from 0 to size-1. Those that nobody asks for by name come from above the static band as
// long as there are any, so that the low ones stay free for who does.
type pool struct {
	mu     sync.Mutex
	taken  []uint64 // a bit each
	size   int
	static int
	source *clock.Source
}

// leastStatic is the smallest static band of a pool that has room for one.
const leastStatic = 16

// newPool returns a pool whose static band is size/step, but at least leastStatic and at most most.
func newPool(size, step, most int, source *clock.Source) *pool {
	p := &pool{taken: make([]uint64, (size+63)/64), size: size, source: source}
	if size > leastStatic {
		p.static = min(max(size/step, leastStatic), most)
	}
	return p
}

func (p *pool) has(n int) bool { return p.taken[n/64]&(1<<(n%64)) != 0 }

// take reserves one number.
func (p *pool) take(n int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.has(n) {
		return errTaken
	}
	p.taken[n/64] |= 1 << (n % 64)
	return nil
}

// next reserves any number.
func (p *pool) next() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n, ok := p.search(p.static, p.size); ok {
		return n, nil
	}
	if n, ok := p.search(0, p.static); ok {
		return n, nil
	}
	return 0, errFull
}

// search takes a free number of [from,to), beginning at a random one.
func (p *pool) search(from, to int) (int, bool) {
	if from >= to {
		return 0, false
	}
	start := p.source.IntN(to - from)
	for i := range to - from {
		n := from + (start+i)%(to-from)
		if !p.has(n) {
			p.taken[n/64] |= 1 << (n % 64)
			return n, true
		}
	}
	return 0, false
}

func (p *pool) free(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken[n/64] &^= 1 << (n % 64)
}
