package clock_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minikctl/minikctl/pkg/clock"
)

// heart is something that beats every ten seconds and resets a Watchdog of 25 s, unless it is silent.
type heart struct {
	name     string
	watchdog *clock.Watchdog

	mu     sync.Mutex
	silent bool
	last   time.Time // beat
	beats  int
}

func startHeart(t *testing.T, m *clock.Manual, j *journal, name string) *heart {
	h := &heart{name: name, watchdog: clock.NewWatchdog(m, func() { j.note(name + " is late") })}
	h.watchdog.Reset(25 * time.Second)
	ctx, work := clock.Begin(t.Context(), m, name)
	go func() {
		defer work.End()
		b := clock.NewBeat(m, 10*time.Second)
		for b.Sleep(ctx, h.last != time.Time{}) == nil {
			h.beat(m.Now())
		}
	}()
	return h
}

func (h *heart) beat(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beats++
	if !h.silent {
		h.last = now
		h.watchdog.Reset(25 * time.Second)
	}
}

// set makes the heart silent or loud, and returns its last beat.
func (h *heart) set(silent bool) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.silent = silent
	return max(0, h.last.Sub(began))
}

// TestBeatsAreLeftOut: of the beats between which nothing else is due only the first and the last one happen.
func TestBeatsAreLeftOut(t *testing.T) {
	m := clock.NewManual(began, clock.Real())
	j := &journal{clock: m}
	h := startHeart(t, m, j, "heart")
	m.AfterFunc(time.Hour+5*time.Second, func() { j.note(fmt.Sprint("something else, last beat ", h.set(false))) })
	p := advance(t, m, 2*time.Hour)
	j.want(t, "something else, last beat 1h0m0s at 1h0m5s")
	if got := h.set(false); got != 2*time.Hour || h.beats > 9 || p.Steps > 10 {
		t.Errorf("the last beat is at %s, %d beats in %d steps", got, h.beats, p.Steps)
	}
	m.AfterFunc(12*time.Hour, func() { h.set(true) })
	advance(t, m, 24*time.Hour)
	j.want(t, "heart is late at 14h0m15s") // at 14h, the heart is silent before it beats
}

// TestBeatsLeaveNoTrace: whatever else happens at random times finds the same last beats, and hearts are late at the same times, whether beats are
// left out or not.
func TestBeatsLeaveNoTrace(t *testing.T) {
	var beats [2]int
	for seed := range uint64(30) {
		var runs [2][]string
		for i, step := range []time.Duration{time.Hour, time.Second} {
			m := clock.NewManual(began, clock.Real())
			j := &journal{clock: m}
			var hearts []*heart
			for k := range 3 {
				hearts = append(hearts, startHeart(t, m, j, fmt.Sprint("heart ", k)))
				m.Advance(t.Context(), m.Now(), 0)
				if seed%2 == 0 {
					advance(t, m, 3*time.Second) // the hearts don't beat at the same time
				}
			}
			rng := rand.New(rand.NewPCG(seed, 0))
			var at time.Duration
			for range 6 {
				at += time.Duration(rng.IntN(600)) * time.Second
				h, silent := hearts[rng.IntN(len(hearts))], rng.IntN(2) == 0
				m.AfterFunc(at, func() { j.note(fmt.Sprintf("%s: silent %t, last beat %s", h.name, silent, h.set(silent))) })
			}
			for end := m.Now().Add(time.Hour); m.Now().Before(end); {
				advance(t, m, step)
			}
			for _, h := range hearts {
				j.note(fmt.Sprintf("%s: last beat %s", h.name, h.set(false)))
				if seed%2 == 1 {
					beats[i] += h.beats
				}
			}
			runs[i] = slices.Clone(j.lines)
			slices.SortFunc(runs[i], byTime)
		}
		if !slices.Equal(runs[0], runs[1]) {
			t.Fatalf("seed %d:\n%q\n%q", seed, runs[0], runs[1])
		}
	}
	if beats[0] > beats[1]/5 {
		t.Errorf("%d of %d beats happened", beats[0], beats[1])
	}
}

// byTime orders lines of a journal, those of the same time by their texts: what is due at the same time has no order.
func byTime(a, b string) int { return cmp.Or(cmp.Compare(timeOf(a), timeOf(b)), strings.Compare(a, b)) }

func timeOf(line string) time.Duration {
	d, err := time.ParseDuration(line[strings.LastIndex(line, " ")+1:])
	if err != nil {
		panic(err)
	}
	return d
}
