package clock

import (
	"context"
	"slices"
	"time"
)

// Beat is the timer of something that repeats at a period and does nothing but show that a part of the cluster is alive, such as the
// renewal of a Lease. On a Manual clock, of the beats between which nothing else is due only the last one happens, at its own time. So
// whatever is due next finds the cluster as if all had happened, and a day at rest takes few steps. A Watchdog is what waits for the end of beats.
//
// The rules that keep this exact: the first beat after anything else happens at its own time, and also shows which Watchdogs it resets. Later
// ones are left out only while each Watchdog that waits is one of those, and while the caller says that it repeats itself. Beats of different
// times or periods are never left out. A Beat is for one goroutine.
type Beat struct {
	clock  Clock
	period time.Duration
	timer  *timer // nil unless the clock is a Manual one
}

// NewBeat returns a Beat on c.
func NewBeat(c Clock, period time.Duration) *Beat {
	b := &Beat{clock: c, period: period}
	if m, ok := c.(*Manual); ok {
		b.timer = &timer{clock: m, queue: &m.beats, c: make(chan time.Time, 1), every: period}
	}
	return b
}

// Sleep is the function Sleep for the period. repeats says that the caller has done since the last Sleep what it does at each beat, and
// nothing more; the clock may then leave out some of the next beats.
func (b *Beat) Sleep(ctx context.Context, repeats bool) error {
	if b.timer == nil {
		return Sleep(ctx, b.clock, b.period)
	}
	b.timer.repeats = repeats
	return b.timer.clock.sleepOn(ctx, b.timer, b.period)
}

// Watchdog is a timer that calls a function when it has not been reset for some time. It is reset while a Beat is handled, and so fires when
// the beats have ended. It is safe for concurrent use.
type Watchdog struct {
	f     func()
	clock Clock
	timer Timer
}

// NewWatchdog returns a Watchdog that is not running. f is called as AfterFunc calls it.
func NewWatchdog(c Clock, f func()) *Watchdog {
	w := &Watchdog{f: f, clock: c}
	if m, ok := c.(*Manual); ok {
		w.timer = &timer{clock: m, queue: &m.watchdogs, f: f}
	}
	return w
}

// Reset has the Watchdog fire after d. The caller must not call it concurrently with itself or Stop.
func (w *Watchdog) Reset(d time.Duration) {
	if _, ok := w.clock.(*Manual); ok {
		w.timer.Reset(d)
		return
	}
	w.Stop()
	w.timer = w.clock.AfterFunc(d, func() { go w.f() }) // a fake clock can't reset the timer of a function, and calls it while it holds its lock
}

// Stop keeps the Watchdog from firing until the next Reset.
func (w *Watchdog) Stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// round is the set of the beats of one period that have happened at a time at which nothing else was due. The fields are guarded by the
// clock's mu.
type round struct {
	beats  int // how many there were
	asleep int // how many of them wait for the next one, and repeat themselves
}

// begin starts the round of the timers that fire at the present time, unless something else than beats happens. The caller holds m.mu.
func (m *Manual) begin(due []*timer) {
	m.round = nil
	if slices.ContainsFunc(due, func(t *timer) bool { return t.every == 0 || t.every != due[0].every }) {
		return
	}
	m.round = &round{beats: len(due)}
	for _, t := range due {
		t.round = m.round
	}
}

// join records in the present round that a timer starts: a beat that has just happened, or a Watchdog that it has reset. The caller holds
// m.mu.
func (m *Manual) join(t *timer, waiting bool) {
	switch {
	case t.every == 0:
		t.round = nil
		if waiting {
			t.round = m.round
		}
	case t.round != m.round || !t.repeats:
		t.round = nil
	case t.round != nil:
		t.round.asleep++
	}
}

// leave undoes join for a beat that fires or is stopped. The caller holds the clock's mu.
func (t *timer) leave() {
	if t.every > 0 && t.round != nil {
		t.round.asleep--
		t.round = nil
	}
}

// steady reports whether all beats belong to the present round and repeat themselves, and reset all Watchdogs. The caller holds m.mu.
func (m *Manual) steady() bool {
	r := m.round
	return r != nil && r.asleep == r.beats && r.beats == len(m.beats) &&
		!slices.ContainsFunc(m.watchdogs, func(t *timer) bool { return t.round != r })
}

// next returns the next time at which something happens, at most limit, and moves the beats that are left out until then. The caller holds
// m.mu.
func (m *Manual) next(limit time.Time) time.Time {
	next := limit
	consider := func(q timers) (sooner bool) {
		if len(q) == 0 || q[0].due.After(next) {
			return false
		}
		next = q[0].due
		return true
	}
	sooner := consider(m.timers)
	if !m.steady() {
		consider(m.beats)
		consider(m.watchdogs)
		return next
	}
	until := next
	if sooner {
		until = next.Add(-1) // the beat at this time may find something changed
	}
	for _, t := range slices.SortedFunc(slices.Values(m.beats), (*timer).compare) {
		m.skip(t, until)
	}
	consider(m.beats)
	return next
}

// skip moves a beat to the last of its times that is not after until. It is called for all of a round in their order, which therefore stays. The
// caller holds m.mu.
func (m *Manual) skip(t *timer, until time.Time) {
	if left := until.Sub(t.due); left >= t.every {
		m.last++ // as if it had just been started
		t.due, t.seq = t.due.Add(left.Truncate(t.every)), m.last
	}
}

// take removes the timers that are due, in their order, except Watchdogs that the next beats reset. The caller holds m.mu.
func (m *Manual) take() []*timer {
	queues := []*timers{&m.timers, &m.watchdogs, &m.beats}
	if m.steady() {
		queues = []*timers{&m.timers, &m.beats}
	}
	var due []*timer
	for _, q := range queues {
		for len(*q) > 0 && !(*q)[0].due.After(m.now) {
			due = append(due, q.pop())
		}
	}
	slices.SortFunc(due, (*timer).compare)
	return due
}
