package allocate

import (
	"errors"
	"sync"

	"github.com/minikctl/minikctl/pkg/clock"
)

// The errors of a pool.
var (
	errTaken = errors.New("already allocated")
	errFull  = errors.New("range is full")
)

// pool allocates the numbers from 0 to size-1. next prefers numbers above the static band, so that those in the band stay free
// for clients that request a number.
type pool struct {
	mu     sync.Mutex
	taken  []uint64 // a bitmap
	size   int
	static int // size of the static band
	source *clock.Source
}

// leastStatic is the smallest static band of a pool that has room for one.
const leastStatic = 16

// newPool returns a pool whose static band has size/step numbers, at least leastStatic and at most most.
func newPool(size, step, most int, source *clock.Source) *pool {
	return &pool{taken: make([]uint64, (size+63)/64), size: size, static: staticBand(size, step, most), source: source}
}

// staticBand returns the size of the static band of a range of numbers.
func staticBand(size, step, most int) int {
	if size <= leastStatic {
		return 0
	}
	return min(max(size/step, leastStatic), most)
}

func (p *pool) has(n int) bool { return p.taken[n/64]&(1<<(n%64)) != 0 }

// take allocates a number, or returns errTaken.
func (p *pool) take(n int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.has(n) {
		return errTaken
	}
	p.taken[n/64] |= 1 << (n % 64)
	return nil
}

// next allocates a free number, or returns errFull.
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

// search allocates a free number in [from,to). It starts at a random one.
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
