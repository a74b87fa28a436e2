// Package fair is API Priority and Fairness: it bounds the number of requests that the server handles at a time, so that one client cannot use
// all of its capacity.
//
// Rules map a request to a flow and a priority level by the FlowSchemas and PriorityLevelConfigurations: a flow is the requests of a
// user, or those for a namespace. A seat is the permission to run one request. A request gets one at once, at the cost of a lock and a
// few map accesses, while there is a free one for its flow. Otherwise the request waits. A free seat goes to the priority level with
// the fewest seats in proportion to its shares, within the level to the flow with the fewest seats, and within the flow to the oldest
// request.
//
// There are only as many seats as keep processors and disk busy. More requests at a time would only compete with each other, and with
// the request of another user.
package fair

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/minikctl/minikctl/pkg/clock"
)

// ErrBusy is the error of a request that has got no seat.
var ErrBusy = errors.New("too many requests")

// Config holds the limits.
type Config struct {
	Seats        int           // requests at once
	PerFlow      int           // seats that one flow may take, so that there are others at once for another flow; one request may take more
	QueueTimeout time.Duration // how long a request may wait
	Clock        clock.Clock
}

// Level is a priority level.
type Level struct {
	Name string
	// Shares of the seats. A level may take more while other levels leave theirs, except those that they Reserve.
	Shares int
	// Reserve is the part of its own seats that the level never lends. Borrow is how many more seats it may take; < 0: no limit. Both
	// are percentages of its own seats.
	Reserve, Borrow int
	// PerFlow and Waiting bound the requests of a flow, and of the level, that wait.
	PerFlow, Waiting int
}

// Flow names requests that belong together.
type Flow struct{ Schema, Distinguisher string }

// Limit assigns seats to requests. It is safe for concurrent use.
type Limit struct {
	cfg Config

	mu      sync.Mutex
	free    int // below 0 after a wide request has taken the last seat
	levels  map[string]*level
	waiting int // requests, of all levels
	arrived uint64
}

// level is the state of a Level.
type level struct {
	Level
	own, reserved, limit int // seats: of its shares, never lent, at most
	seats, waiting       int
	flows                map[Flow]*flow
	removed              bool // no longer configured; it goes with its last request
}

// flow has seats or waiting requests.
type flow struct {
	seats int
	queue []*waiter // the oldest first
}

// waiter is a request that waits for a seat.
type waiter struct {
	number uint64 // increases from waiter to waiter: the lowest has waited longest
	seat   *Seat
	ready  chan struct{} // closed when it has the seat
}

// Seat is the seat of a request. The zero Seat is that of a request that needs none.
type Seat struct {
	limit *Limit
	level *level
	name  Flow
	flow  *flow
	width int

	held   bool // guarded by the limit's lock, as is paused
	paused int  // goroutines that wait for another program
}

// New returns a limit with all seats free, and the level "" with all of them, which requests of unknown levels belong to.
func New(cfg Config) *Limit {
	l := &Limit{cfg: cfg, free: cfg.Seats, levels: map[string]*level{}}
	l.SetLevels(nil)
	return l
}

// SetLevels replaces the levels. Requests of removed levels are completed.
func (l *Limit) SetLevels(levels []Level) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, old := range l.levels {
		old.removed = true
	}
	if len(levels) == 0 {
		levels = []Level{{Shares: 1, Borrow: -1, PerFlow: defaultPerFlow, Waiting: defaultWaiting}}
	}
	shares := 0
	for _, c := range levels {
		shares += c.Shares
	}
	for _, c := range levels {
		lv := l.levels[c.Name]
		if lv == nil {
			lv = &level{flows: map[Flow]*flow{}}
			l.levels[c.Name] = lv
		}
		lv.Level, lv.removed = c, false
		lv.own = portion(l.cfg.Seats, c.Shares, shares)
		lv.reserved = portion(lv.own, c.Reserve, 100)
		lv.limit = l.cfg.Seats
		if c.Borrow >= 0 {
			lv.limit = lv.own + portion(lv.own, c.Borrow, 100)
		}
		lv.limit = max(lv.limit, 1)
	}
	for name, old := range l.levels {
		if old.removed {
			old.own, old.reserved, old.limit = 0, 0, l.cfg.Seats
			l.dropLevel(name, old)
		}
	}
	l.dispatch()
}

// The bounds of waiting requests without levels.
const (
	defaultPerFlow = 50
	defaultWaiting = 50 << 10
)

// portion returns part/whole of n, rounded up.
func portion(n, part, whole int) int {
	if whole == 0 {
		return 0
	}
	return (n*part + whole - 1) / whole
}

// dropLevel deletes a removed level after its last request.
func (l *Limit) dropLevel(name string, lv *level) {
	if lv.removed && lv.seats == 0 && lv.waiting == 0 && l.levels[name] == lv {
		delete(l.levels, name)
	}
}

// Enter takes a seat of a level for a request of a flow, or waits for one, and sets s. A wide request counts as width requests from
// its start on. The error is ErrBusy, or ctx's. Without an error the caller must call Leave.
func (l *Limit) Enter(ctx context.Context, s *Seat, levelName string, name Flow, width int) error {
	l.mu.Lock()
	lv := l.levelOf(levelName)
	*s = Seat{limit: l, level: lv, name: name, flow: lv.flowOf(name), width: max(width, 1)}
	if len(s.flow.queue) == 0 && l.mayRun(lv, s) {
		l.seat(s)
		l.mu.Unlock()
		return nil
	}
	if len(s.flow.queue) >= lv.PerFlow || lv.waiting >= lv.Waiting {
		l.forget(s)
		l.mu.Unlock()
		return ErrBusy
	}
	w := l.wait(s, false)
	l.mu.Unlock()
	timer := l.cfg.Clock.NewTimer(l.cfg.QueueTimeout)
	defer timer.Stop()
	var err error
	select {
	case <-w.ready:
		return nil
	case <-timer.C():
		err = ErrBusy
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if l.cancelWait(s, w) {
		return err
	}
	return nil // it has got a seat meanwhile
}

// levelOf returns a level; any one for a name that is not known. l.mu must be held, as in all below.
func (l *Limit) levelOf(name string) *level {
	if lv := l.levels[name]; lv != nil {
		return lv
	}
	var first *level
	for _, lv := range l.levels {
		if first == nil || lv.Shares > first.Shares || lv.Shares == first.Shares && lv.Name < first.Name {
			first = lv
		}
	}
	return first
}

func (lv *level) flowOf(name Flow) *flow {
	f := lv.flows[name]
	if f == nil {
		f = &flow{}
		lv.flows[name] = f
	}
	return f
}

// mayRun reports whether a request may have its seats now.
func (l *Limit) mayRun(lv *level, s *Seat) bool {
	switch {
	case l.free <= 0, s.flow.seats > 0 && s.flow.seats+s.width > l.cfg.PerFlow:
		return false
	case lv.seats < lv.own:
		return true
	case lv.seats >= lv.limit:
		return false
	}
	kept := 0
	for _, other := range l.levels {
		if other != lv && other.seats < other.reserved {
			kept += other.reserved - other.seats
		}
	}
	return l.free > kept
}

func (l *Limit) seat(s *Seat) {
	s.held = true
	l.free -= s.width
	s.level.seats += s.width
	s.flow.seats += s.width
}

// forget deletes a flow without requests, and its level if that was removed.
func (l *Limit) forget(s *Seat) {
	if s.flow.seats == 0 && len(s.flow.queue) == 0 && s.level.flows[s.name] == s.flow {
		delete(s.level.flows, s.name)
	}
	l.dropLevel(s.level.Name, s.level)
}

// wait adds a request to its flow's queue, at the front or at the end.
func (l *Limit) wait(s *Seat, front bool) *waiter {
	l.arrived++
	w := &waiter{number: l.arrived, seat: s, ready: make(chan struct{})}
	if front {
		w.number = 0
		s.flow.queue = append([]*waiter{w}, s.flow.queue...)
	} else {
		s.flow.queue = append(s.flow.queue, w)
	}
	s.level.waiting++
	l.waiting++
	return w
}

// cancelWait removes a waiting request, unless it has got a seat.
func (l *Limit) cancelWait(s *Seat, w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, other := range s.flow.queue {
		if other == w {
			s.flow.queue = append(s.flow.queue[:i:i], s.flow.queue[i+1:]...)
			s.level.waiting--
			l.waiting--
			l.forget(s)
			return true
		}
	}
	return false
}

// Leave releases the seat. Later calls have no effect.
func (s *Seat) Leave() {
	if s.limit == nil {
		return
	}
	s.limit.mu.Lock()
	defer s.limit.mu.Unlock()
	s.leave()
}

func (s *Seat) leave() {
	if !s.held {
		return
	}
	s.held = false
	s.limit.free += s.width
	s.level.seats -= s.width
	s.flow.seats -= s.width
	s.limit.forget(s)
	s.limit.dispatch()
}

// Pause releases the seat while the request waits for another program, which may itself send requests. The returned function takes
// a seat again: the next one that the flow gets. It returns without one when ctx ends, and while the request waits in another
// goroutine.
func (s *Seat) Pause(ctx context.Context) (resume func()) {
	if s == nil || s.limit == nil {
		return func() {}
	}
	s.limit.mu.Lock()
	defer s.limit.mu.Unlock()
	if !s.held && s.paused == 0 {
		return func() {}
	}
	s.paused++
	s.leave()
	return func() { s.resume(ctx) }
}

func (s *Seat) resume(ctx context.Context) {
	l := s.limit
	l.mu.Lock()
	if s.paused--; s.paused > 0 {
		l.mu.Unlock()
		return
	}
	if l.levels[s.level.Name] != s.level { // the level was removed
		s.level = l.levelOf(s.level.Name)
	}
	s.flow = s.level.flowOf(s.name) // the old one may have been deleted
	if l.mayRun(s.level, s) {
		l.seat(s)
		l.mu.Unlock()
		return
	}
	w := l.wait(s, true)
	l.mu.Unlock()
	select {
	case <-w.ready:
	case <-ctx.Done():
		l.cancelWait(s, w)
	}
}

// dispatch assigns the free seats to waiting requests.
func (l *Limit) dispatch() {
	for l.waiting > 0 && l.free > 0 {
		lv, f := l.next()
		if f == nil {
			return
		}
		w := f.queue[0]
		f.queue = f.queue[1:]
		lv.waiting--
		l.waiting--
		l.seat(w.seat)
		close(w.ready)
	}
}

// next returns the flow that gets the next seat; nil if none may.
func (l *Limit) next() (*level, *flow) {
	var bestLevel *level
	var best *flow
	for _, lv := range l.levels {
		if lv.waiting == 0 {
			continue
		}
		f := l.nextOf(lv)
		if f != nil && (best == nil || lv.before(f, bestLevel, best)) {
			bestLevel, best = lv, f
		}
	}
	return bestLevel, best
}

// nextOf returns the flow of a level that gets its next seat; nil if none may.
func (l *Limit) nextOf(lv *level) *flow {
	var best *flow
	for _, f := range lv.flows {
		if len(f.queue) == 0 || best != nil && !f.before(best) || !l.mayRun(lv, f.queue[0].seat) {
			continue
		}
		best = f
	}
	return best
}

// before reports whether a level, with its next flow, gets a seat before another: it has fewer seats for its shares.
func (lv *level) before(f *flow, other *level, g *flow) bool {
	a, b := lv.seats*max(other.own, 1), other.seats*max(lv.own, 1)
	if a != b {
		return a < b
	}
	return f.queue[0].number < g.queue[0].number
}

// before reports whether a flow gets a seat before another one of its level.
func (f *flow) before(g *flow) bool {
	if f.seats != g.seats {
		return f.seats < g.seats
	}
	return f.queue[0].number < g.queue[0].number
}

// SeatKey is the key of a request's *Seat in its context.
type SeatKey struct{}

// Pause is Pause of the seat in ctx, if it has one.
func Pause(ctx context.Context) (resume func()) {
	s, _ := ctx.Value(SeatKey{}).(*Seat)
	return s.Pause(ctx)
}
