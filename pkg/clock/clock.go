// Package clock owns time and randomness: the clock and the seeded source that every constructor takes. A whole cluster can run on a
// fake clock, and a seed repeats a run. No other package calls time.Now, makes a timer or draws random numbers.
//
// There are two times. Cluster time is what objects and their users see: timestamps of creation and deletion, conditions, the expiry of
// tokens and Events, Leases, the requeues and backoffs of controllers, scheduler and kubelets, and simulated pods. Machine time is what
// connections, files and processes follow: deadlines and stalls of requests, queueing for seats, the end and bookmarks of watches, retries
// of connections, pauses that batch writes, the durations of stages in traces, the release of memory, compaction, the containers of the
// process runtime with their probes, hooks and logs, and the validity of TLS certificates.
//
// Constructors take the cluster's Clock. What follows machine time uses Machine of it, which in most clusters is the same clock.
package clock

import (
	"context"
	"encoding/hex"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Clock is the clock of k8s.io/utils, so that client-go's queues and its fake clock fit.
type Clock = clock.WithTickerAndDelayedExecution

// Timer is a timer of a Clock.
type Timer = clock.Timer

// Real is the machine's clock.
func Real() Clock { return clock.RealClock{} }

// Machine returns the clock of machine time below a cluster's clock. It is c itself unless c has a method Machine.
func Machine(c Clock) Clock {
	if over, ok := c.(interface{ Machine() Clock }); ok {
		return over.Machine()
	}
	return c
}

// At returns the time of a cluster's clock at a moment of machine time.
func At(c Clock, machine time.Time) time.Time {
	if over, ok := c.(interface{ at(time.Time) time.Time }); ok {
		return over.at(machine)
	}
	return machine
}

// Sleep waits for d on c. It returns ctx's error when ctx ends first. On a Manual clock, the Work that ctx carries is idle meanwhile.
func Sleep(ctx context.Context, c Clock, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	if m, ok := c.(*Manual); ok {
		return m.sleep(ctx, d)
	}
	t := c.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C():
		return nil
	}
}

// Source draws UIDs, name suffixes and jitter. It is safe for concurrent use.
type Source struct {
	seed uint64
	mu   sync.Mutex
	rng  *rand.Rand
	last int64 // the newest Stamp
}

// NewSource returns a source that gives the same sequence for the same seed.
func NewSource(seed uint64) *Source {
	return &Source{seed: seed, rng: rand.New(rand.NewPCG(seed, seed^0x9e3779b97f4a7c15))}
}

// Continue makes the source of a cluster that starts again draw another sequence than at its earlier starts: equal UIDs would be those of
// earlier objects. n is a number that grows with each change of the cluster; with 0 the sequence is that of a new source.
func (s *Source) Continue(n uint64) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rng = rand.New(rand.NewPCG(s.seed, n))
}

// Of returns a source for one use. It depends on the seed and on what the use is, and not on what was drawn before: parts of a cluster that
// draw concurrently repeat a run all the same.
func (s *Source) Of(use string) *Source {
	h := fnv.New64a()
	_, _ = h.Write([]byte(use)) // it never fails
	return NewSource(s.seed ^ h.Sum64())
}

// RandomSource returns a source seeded by the operating system. It must not be used for secrets.
func RandomSource() *Source { return NewSource(rand.Uint64()) }

// UID draws a version 4 UUID.
func (s *Source) UID() types.UID {
	var b [16]byte
	s.mu.Lock()
	hi, lo := s.rng.Uint64(), s.rng.Uint64()
	s.mu.Unlock()
	for i := range 8 {
		b[i], b[8+i] = byte(hi>>(8*i)), byte(lo>>(8*i))
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	var out [36]byte
	hex.Encode(out[0:8], b[0:4])
	hex.Encode(out[9:13], b[4:6])
	hex.Encode(out[14:18], b[6:8])
	hex.Encode(out[19:23], b[8:10])
	hex.Encode(out[24:36], b[10:16])
	out[8], out[13], out[18], out[23] = '-', '-', '-', '-'
	return types.UID(out[:])
}

// nameAlphabet has the characters of Kubernetes' generated names: no vowels, and none that look alike.
const nameAlphabet = "bcdfghjklmnpqrstvwxz2456789"

// Suffix draws n characters, as Kubernetes appends them to a generateName.
func (s *Source) Suffix(n int) string {
	b := make([]byte, n)
	s.mu.Lock()
	for i := range b {
		b[i] = nameAlphabet[s.rng.IntN(len(nameAlphabet))]
	}
	s.mu.Unlock()
	return string(b)
}

// Stamp returns now in nanoseconds since 1970, or the next number that no earlier call has returned. It makes names of times on a clock
// that stands still.
func (s *Source) Stamp(now time.Time) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = max(now.UnixNano(), s.last+1)
	return s.last
}

// IntN draws a number in [0,n).
func (s *Source) IntN(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

// Jitter draws a duration in [d, d*(1+factor)).
func (s *Source) Jitter(d time.Duration, factor float64) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return d + time.Duration(s.rng.Float64()*factor*float64(d))
}
