package clock

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Manual is a clock of cluster time that stands still until Advance moves it. It counts the Work of the cluster's parts, so that
// Advance returns when everything that became due is done.
//
// Functions of AfterFunc are called one after another in the order of their times, and must not wait for the clock.
type Manual struct {
	machine  Clock
	activity *activity
	turns    *turns        // nil: the parts of the cluster act at the same time
	moves    chan struct{} // has an element during Advance

	mu     sync.Mutex
	now    time.Time
	timers timers   // all but those of beats and Watchdogs
	last   uint64   // the sequence number of the newest timer
	past   []moment // when the time was reached, the latest last
	saved  func(time.Time) error
	kept   func() error

	beats, watchdogs timers
	round            *round // of the present time, nil if something other than beats has happened
}

// moment is a cluster time and the machine time at which it was reached.
type moment struct{ machine, cluster time.Time }

// maxMoments bounds the moments that a Manual clock remembers.
const maxMoments = 256

// NewManual returns a clock that stands at start. machine is the clock of machine time.
func NewManual(start time.Time, machine Clock) *Manual {
	m := &Manual{machine: machine, activity: newActivity(), moves: make(chan struct{}, 1), now: start}
	m.past = []moment{{machine.Now(), start}}
	return m
}

// OnMove has save called with each new time before any part of the cluster can see it. An error of save ends the Advance. It must be
// called before the clock is used.
func (m *Manual) OnMove(save func(time.Time) error) { m.saved = save }

// OnAdvanced has keep called before an Advance returns. An error of keep is returned by Advance. It must be called before the clock is used.
func (m *Manual) OnAdvanced(keep func() error) { m.kept = keep }

// Machine returns the clock of machine time.
func (m *Manual) Machine() Clock { return m.machine }

// Now returns the cluster's time.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Since returns the time since t.
func (m *Manual) Since(t time.Time) time.Duration { return m.Now().Sub(t) }

// Next returns when something is due next; zero: nothing is.
func (m *Manual) Next() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	var next time.Time
	for _, q := range []timers{m.timers, m.beats, m.watchdogs} {
		if len(q) > 0 && (next.IsZero() || q[0].due.Before(next)) {
			next = q[0].due
		}
	}
	return next
}

// Busy describes the parts of the cluster that have something to do at the present time.
func (m *Manual) Busy() []string { return m.activity.busy() }

// at returns the cluster's time at a moment of machine time.
func (m *Manual) at(machine time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range slices.Backward(m.past) {
		if !p.machine.After(machine) {
			return p.cluster
		}
	}
	return m.past[0].cluster
}

// settleTime bounds how long one step of Advance waits, in machine time, until the cluster is settled.
const settleTime = 20 * time.Second

// Progress is how far an Advance has come.
type Progress struct {
	Time  time.Time // the cluster's time
	Steps int       // at how many times something became due
}

// NotSettledError is returned by Advance when parts of the cluster have something to do for too long.
type NotSettledError struct {
	At   time.Time     // the cluster's time
	For  time.Duration // machine time
	Busy []string      // the parts
}

// Error implements error.
func (e *NotSettledError) Error() string {
	busy := "parts of the cluster"
	if len(e.Busy) > 0 {
		busy = strings.Join(e.Busy, ", ")
	}
	return fmt.Sprintf("the cluster has not settled within %s at %s; still busy: %s", e.For, e.At.UTC().Format(time.RFC3339Nano), busy)
}

// Advance moves the time to the next time at which something is due, waits until the cluster has settled, and so on until to, or until
// budget, if not 0, has passed in machine time. A time that is not after the present one only waits until the cluster has settled. Calls take turns.
func (m *Manual) Advance(ctx context.Context, to time.Time, budget time.Duration) (Progress, error) {
	p := Progress{Time: m.Now()}
	select {
	case m.moves <- struct{}{}:
	case <-ctx.Done():
		return p, ctx.Err()
	}
	defer func() { <-m.moves }()
	p, err := m.advance(ctx, to, budget)
	if m.kept != nil {
		err = errors.Join(err, m.kept())
	}
	return p, err
}

// advance is Advance for the only call that moves the clock.
func (m *Manual) advance(ctx context.Context, to time.Time, budget time.Duration) (p Progress, err error) {
	began := m.machine.Now()
	m.mu.Lock()
	m.round = nil // clients may have made changes
	m.mu.Unlock()
	for {
		if err := m.settle(ctx); err != nil {
			p.Time = m.Now()
			return p, err
		}
		p.Time = m.Now()
		if !p.Time.Before(to) || budget > 0 && p.Steps > 0 && m.machine.Since(began) > budget {
			return p, nil
		}
		fired, err := m.step(to)
		if err != nil {
			return p, err
		}
		if fired {
			p.Steps++
		}
	}
}

// step moves the time to that of the next timers, at most to limit, and fires them. It reports whether there were any.
func (m *Manual) step(limit time.Time) (bool, error) {
	m.mu.Lock()
	next := m.next(limit)
	m.mu.Unlock()
	if m.saved != nil {
		if err := m.saved(next); err != nil {
			return false, fmt.Errorf("save the cluster's time: %w", err)
		}
	}
	m.mu.Lock()
	m.move(next)
	due := m.take()
	if len(due) > 0 {
		m.begin(due)
	}
	for _, t := range due {
		if t.work != nil {
			t.work.Add(1) // before the goroutine that sleeps wakes up
		}
	}
	m.mu.Unlock()
	m.activity.add(1) // no turn is granted before all timers have fired
	for _, t := range due {
		t.fire(next)
	}
	m.activity.add(-1)
	return len(due) > 0, nil
}

// move sets the time, which never goes back. The caller holds m.mu.
func (m *Manual) move(to time.Time) {
	if !to.After(m.now) {
		return
	}
	m.now = to
	if len(m.past) == maxMoments {
		m.past = append(m.past[:0], m.past[maxMoments/2:]...)
	}
	m.past = append(m.past, moment{m.machine.Now(), to})
}

// pop removes the first timer. A ticker's next tick takes its place. The caller holds the clock's mu.
func (h *timers) pop() *timer {
	t := (*h)[0]
	if t.period > 0 {
		t.due = t.due.Add(t.period)
		heap.Fix(h, 0)
		return t
	}
	heap.Pop(h)
	t.leave()
	return t
}

// settle waits until the cluster has settled.
func (m *Manual) settle(ctx context.Context) error {
	began := m.machine.Now()
	for tries := 0; !m.activity.settled(); tries++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if took := m.machine.Since(began); took > settleTime {
			return &NotSettledError{m.Now(), settleTime, m.activity.busy()}
		}
		m.activity.pause(ctx, m.machine, tries, m.activity.ended)
	}
	return nil
}

// sleep is Sleep on a Manual clock.
func (m *Manual) sleep(ctx context.Context, d time.Duration) error {
	return m.sleepOn(ctx, &timer{clock: m, queue: &m.timers, c: make(chan time.Time, 1)}, d)
}

// sleepOn is sleep with a timer that is not running.
func (m *Manual) sleepOn(ctx context.Context, t *timer, d time.Duration) error {
	work := WorkOf(ctx)
	if work != nil && work.turn != nil {
		if work.turn.held.Load() == nil {
			work = nil
		} else {
			defer work.turn.retake()
		}
	}
	t.work = work
	m.start(t, d)
	t.work.rest()
	select {
	case <-t.c:
		return nil
	case <-ctx.Done():
		if t.Stop() {
			t.work.Add(1)
		}
		return ctx.Err()
	}
}

// NewTimer, AfterFunc and the others implement Clock.
func (m *Manual) NewTimer(d time.Duration) Timer {
	return m.start(&timer{clock: m, queue: &m.timers, c: make(chan time.Time, 1)}, d)
}

func (m *Manual) AfterFunc(d time.Duration, f func()) Timer {
	return m.start(&timer{clock: m, queue: &m.timers, f: f}, d)
}

func (m *Manual) After(d time.Duration) <-chan time.Time { return m.NewTimer(d).C() }

func (m *Manual) Sleep(d time.Duration) { <-m.After(d) }

func (m *Manual) Tick(d time.Duration) <-chan time.Time { return m.NewTicker(d).C() }

func (m *Manual) NewTicker(d time.Duration) clock.Ticker {
	return ticker{m.start(&timer{clock: m, queue: &m.timers, c: make(chan time.Time, 1), period: d}, d)}
}

// start adds a timer, or fires it if it is due already.
func (m *Manual) start(t *timer, d time.Duration) *timer {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.schedule(t, d, false)
	return t
}

// schedule is start for a caller that holds m.mu. waiting reports whether the timer was waiting before.
func (m *Manual) schedule(t *timer, d time.Duration, waiting bool) {
	m.last++
	t.seq, t.due = m.last, m.now.Add(max(d, 0))
	if d > 0 {
		m.join(t, waiting)
		heap.Push(t.queue, t)
		return
	}
	m.activity.add(1)
	now := m.now
	go func() {
		defer m.activity.add(-1)
		t.fire(now)
	}()
}

// timer is a timer or ticker of a Manual clock, or a goroutine that sleeps.
type timer struct {
	clock  *Manual
	c      chan time.Time
	f      func()
	work   *Work         // of the goroutine that sleeps
	period time.Duration // of a ticker
	queue  *timers       // of the clock

	every   time.Duration // of a beat
	repeats bool          // the goroutine of a beat repeats itself

	due   time.Time // guarded by clock.mu, as the others below
	seq   uint64    // orders timers of the same time
	index int       // in queue plus one; 0: it is not waiting
	round *round    // of a beat, or the one in which a Watchdog was reset
}

func (t *timer) fire(now time.Time) {
	if t.f != nil {
		t.f()
		return
	}
	select {
	case t.c <- now:
	default:
	}
}

// C implements Timer.
func (t *timer) C() <-chan time.Time { return t.c }

// Stop implements Timer.
func (t *timer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	return t.stop()
}

func (t *timer) stop() bool {
	if t.index == 0 {
		return false
	}
	heap.Remove(t.queue, t.index-1)
	t.leave()
	return true
}

// Reset implements Timer.
func (t *timer) Reset(d time.Duration) bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	waiting := t.stop()
	t.clock.schedule(t, d, waiting)
	return waiting
}

type ticker struct{ *timer }

// Stop implements Ticker.
func (t ticker) Stop() { t.timer.Stop() }

// timers is a heap of timers, the earliest first.
type timers []*timer

func (h timers) Len() int { return len(h) }

func (h timers) Less(i, j int) bool { return h[i].compare(h[j]) < 0 }

// compare orders timers by their times, and those of the same time as they were started.
func (t *timer) compare(o *timer) int { return cmp.Or(t.due.Compare(o.due), cmp.Compare(t.seq, o.seq)) }

func (h timers) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

func (h *timers) Push(x any) {
	t := x.(*timer)
	*h = append(*h, t)
	t.index = len(*h)
}

func (h *timers) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	t.index = 0
	return t
}
