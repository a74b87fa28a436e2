package clock

import (
	"cmp"
	"container/heap"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// turns has the parts of a cluster act one after another, so that the order of their writes depends on nothing but what they do. A part
// with something to do takes a turn: it waits until it has the least rank of all that wait, and until the cluster is quiet, which means that
// all counted Work is done or waits for a turn. Then all watches and caches have delivered the earlier changes.
type turns struct {
	manual *Manual

	mu       sync.Mutex
	waiting  tickets
	later    []*ticket // of Rank.After
	holder   *ticket
	overdue  map[*ticket]bool // that have lost their turn
	round    uint64           // of the newest turn
	writes   uint64           // how often Propagate was called
	last     uint64           // the sequence number of the newest ticket
	granting bool             // grantAll runs
}

// maxTurn bounds, in machine time, how long a turn keeps others waiting, and how long a turn waits until the cluster is quiet.
const maxTurn = 10 * time.Second

// Rank orders parts that wait for a turn: by class, then by round, then by part and key, and then by the order in which they came. A part
// that comes during a turn waits for a later round than that turn's, so that a key that is added again and again does not delay others.
type Rank struct {
	Class     Class
	Part, Key string
	After     uint64 // not 0: the turn comes before all others once they have made that many writes, or have nothing to do. It is for tests.
}

// Class is the first part of a Rank.
type Class int

// The classes. A turn of a class is granted when none of a lower class waits.
const (
	Regular Class = iota
	Retry         // of what has failed, once everything else is done
	Outside       // a client that is no part of the cluster, once the cluster has settled
)

func (r Rank) String() string {
	if r.Key == "" {
		return r.Part
	}
	return r.Part + " " + r.Key
}

// turn is a part that takes turns, one at a time.
type turn struct {
	turns *turns
	rank  Rank
	work  *Work           // has a unit while the turn is held
	over  <-chan struct{} // closed when the part ends: it waits for no turn then

	held atomic.Pointer[ticket]
}

// ticket is a turn that is waiting or held.
type ticket struct {
	*turn
	class          Class
	round, seq     uint64
	after          uint64 // turns.writes from which a turn of Rank.After comes
	index          int    // in turns.waiting plus one; 0: it is not waiting
	granted, ended chan struct{}
}

// TakeTurns makes the parts of the cluster take turns. It must be called before the clock is used.
func (m *Manual) TakeTurns() {
	m.turns = &turns{manual: m, overdue: map[*ticket]bool{}}
	m.activity.turns = m.turns
}

// InTurns reports whether the parts of the cluster on c take turns.
func InTurns(c Clock) bool { return turnsOf(c) != nil }

func turnsOf(c Clock) *turns {
	if m, ok := c.(*Manual); ok {
		return m.turns
	}
	return nil
}

func nothing() {}

// TakeTurn waits for a turn, and returns a context that carries it and a function that ends it. The Work of ctx is idle meanwhile. If ctx
// ends first, there is no turn. On a clock without turns, and in a turn, it returns at once and the function does nothing.
//
// While the Work of the returned context is idle (in Idle or Sleep), the part gives its turn to others, and takes another one afterwards.
func TakeTurn(ctx context.Context, c Clock, r Rank) (context.Context, func()) {
	t := turnsOf(c)
	if t == nil || turnIn(ctx) != nil {
		return ctx, nothing
	}
	caller := WorkOf(ctx)
	u := t.newTurn(ctx, r)
	k := u.enqueue(r.Class)
	caller.Add(-1)
	u.await(k)
	return context.WithValue(ctx, workKey{}, u.work), sync.OnceFunc(func() {
		caller.Add(1)
		u.leave()
		u.work.End()
	})
}

// GoTurn calls f in a goroutine and in a turn. If ctx ends before the turn comes, f is called without one. c must have turns.
func GoTurn(ctx context.Context, c Clock, r Rank, f func(context.Context)) {
	u := turnsOf(c).newTurn(ctx, r)
	k := u.enqueue(r.Class)
	go func() {
		u.await(k)
		defer u.work.End()
		defer u.leave()
		f(context.WithValue(ctx, workKey{}, u.work))
	}()
}

// YieldTurn gives the turn that ctx carries to the others that wait, retries excepted, and takes it again. It reports whether ctx carries
// one.
func YieldTurn(ctx context.Context) bool {
	u := turnIn(ctx)
	if u == nil {
		return false
	}
	k := u.enqueue(max(u.rank.Class, Retry))
	u.leave()
	u.await(k)
	return true
}

// AtOnce returns how many requests a part may make at the same time: n, which may be negative for no limit, and in a turn one.
func AtOnce(ctx context.Context, n int) int {
	if turnIn(ctx) != nil {
		return 1
	}
	return n
}

// Propagate is called in a turn after each write. It waits until watches and caches have delivered all changes.
func Propagate(ctx context.Context) {
	u := turnIn(ctx)
	if u == nil {
		return
	}
	u.turns.mu.Lock()
	u.turns.writes++
	u.turns.mu.Unlock()
	u.turns.awaitQuiet(ctx, 1)
}

// turnIn returns the turn that ctx carries and that is held.
func turnIn(ctx context.Context) *turn {
	if w := WorkOf(ctx); w != nil && w.turn != nil && w.turn.held.Load() != nil {
		return w.turn
	}
	return nil
}

func (t *turns) newTurn(ctx context.Context, r Rank) *turn {
	u := &turn{turns: t, rank: r, over: ctx.Done()}
	u.work = &Work{activity: t.manual.activity, name: r.String(), turn: u}
	return u
}

// enqueue adds the turn to those that wait.
func (u *turn) enqueue(class Class) *ticket {
	t := u.turns
	k := &ticket{turn: u, class: class, granted: make(chan struct{}), ended: make(chan struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	k.round, k.seq = t.round+1, t.last
	if u.rank.After > 0 {
		k.after = t.writes + u.rank.After
		t.later = append(t.later, k)
	} else {
		heap.Push(&t.waiting, k)
	}
	t.manual.activity.begun.Add(1)
	if !t.granting {
		t.granting = true
		go t.grantAll()
	}
	return k
}

// await returns when the turn is granted or the part ends.
func (u *turn) await(k *ticket) {
	select {
	case <-k.granted:
	case <-u.over:
		t := u.turns
		t.mu.Lock()
		defer t.mu.Unlock()
		if k.index > 0 {
			heap.Remove(&t.waiting, k.index-1)
		}
		t.later = slices.DeleteFunc(t.later, func(o *ticket) bool { return o == k })
	}
}

// retake takes another turn after an idle time, which has left a unit of work.
func (u *turn) retake() {
	k := u.enqueue(u.rank.Class)
	u.work.Add(-1)
	u.await(k)
}

// leave ends the turn, if it is held, and its unit of work.
func (u *turn) leave() {
	k := u.held.Swap(nil)
	if k == nil {
		return
	}
	t := u.turns
	t.mu.Lock()
	if t.overdue[k] {
		delete(t.overdue, k)
	} else {
		t.holder = nil
		u.work.Add(-1)
	}
	t.mu.Unlock()
	close(k.ended)
}

// grantAll grants turns until none waits.
func (t *turns) grantAll() {
	for {
		t.awaitQuiet(context.Background(), 0) //nolint:forbidigo // it ends with the turns
		k := t.grant()
		if k == nil {
			return
		}
		timer := t.manual.machine.NewTimer(maxTurn)
		select {
		case <-k.ended:
		case <-timer.C():
			t.takeAway(k)
		}
		timer.Stop()
	}
}

// grant grants the turn of the least rank, if one waits.
func (t *turns) grant() *ticket {
	t.mu.Lock()
	defer t.mu.Unlock()
	var k *ticket
	switch {
	case len(t.later) > 0 && (len(t.waiting) == 0 || t.writes >= t.later[0].after):
		k, t.later = t.later[0], t.later[1:]
	case len(t.waiting) > 0:
		k = heap.Pop(&t.waiting).(*ticket)
	default:
		t.granting = false
		return nil
	}
	t.round, t.holder = max(t.round, k.round), k
	k.work.Add(1)
	k.held.Store(k)
	close(k.granted)
	return k
}

// takeAway lets others act beside a part whose turn takes too long.
func (t *turns) takeAway(k *ticket) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holder != k {
		return // it has just ended
	}
	slog.Warn("a part of the cluster acts for too long, others go on beside it: this run can't be repeated exactly", "part", k.rank.String())
	t.holder, t.overdue[k] = nil, true
	k.work.Add(-1)
}

// idle reports whether no turn is waiting or held. Also grantAll must have ended: it may have found the cluster quiet before the next timers
// fire, and would grant the turn of the first part that these wake up.
func (t *turns) idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.granting && t.holder == nil && len(t.overdue) == 0
}

// names returns what waits for a turn or has one.
func (t *turns) names() []string {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []string
	for _, k := range slices.Concat(t.waiting, t.later) {
		out = append(out, k.rank.String())
	}
	if t.holder != nil {
		out = append(out, t.holder.rank.String())
	}
	for k := range t.overdue {
		out = append(out, k.rank.String())
	}
	return out
}

// awaitQuiet waits until nothing but a number of units of work is left.
func (t *turns) awaitQuiet(ctx context.Context, held int64) {
	m := t.manual
	began := m.machine.Now()
	for tries := 0; !m.activity.quiet(held) && ctx.Err() == nil; tries++ {
		if m.machine.Since(began) > maxTurn {
			slog.WarnContext(ctx, "parts of the cluster are busy for too long, others go on beside them: this run can't be repeated exactly", "busy", m.activity.busy())
			return
		}
		m.activity.pause(ctx, m.machine, tries, m.activity.calm)
	}
}

// tickets is a heap of tickets, the least rank first.
type tickets []*ticket

func (h tickets) Len() int { return len(h) }

func (h tickets) Less(i, j int) bool {
	a, b := h[i], h[j]
	return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.round, b.round), cmp.Compare(a.rank.Part, b.rank.Part),
		cmp.Compare(a.rank.Key, b.rank.Key), cmp.Compare(a.seq, b.seq)) < 0
}

func (h tickets) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

func (h *tickets) Push(x any) {
	k := x.(*ticket)
	*h = append(*h, k)
	k.index = len(*h)
}

func (h *tickets) Pop() any {
	last := len(*h) - 1
	k := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	k.index = 0
	return k
}
