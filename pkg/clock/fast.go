package clock

import (
	"time"

	"k8s.io/utils/clock"
)

// Fast is a clock of cluster time that runs at a multiple of machine time.
type Fast struct {
	machine Clock
	from    moment
	rate    float64
}

// NewFast returns a clock that shows start when the clock machine shows from, and then runs rate times as fast.
func NewFast(from, start time.Time, rate float64, machine Clock) *Fast {
	return &Fast{machine, moment{from, start}, rate}
}

// Machine returns the clock of machine time.
func (f *Fast) Machine() Clock { return f.machine }

// Rate returns how many seconds pass in a second of the machine.
func (f *Fast) Rate() float64 { return f.rate }

// Now returns the cluster's time.
func (f *Fast) Now() time.Time { return f.at(f.machine.Now()) }

// Since returns the time since t.
func (f *Fast) Since(t time.Time) time.Duration { return f.Now().Sub(t) }

// at returns the cluster's time at a moment of machine time.
func (f *Fast) at(machine time.Time) time.Time {
	return f.from.cluster.Add(time.Duration(float64(machine.Sub(f.from.machine)) * f.rate))
}

// real returns how long d takes in machine time.
func (f *Fast) real(d time.Duration) time.Duration { return time.Duration(float64(d) / f.rate) }

// NewTimer, AfterFunc and the others implement Clock.
func (f *Fast) NewTimer(d time.Duration) Timer {
	t := &fastTimer{clock: f, c: make(chan time.Time, 1)}
	t.Timer = f.machine.AfterFunc(f.real(d), t.fire)
	return t
}

func (f *Fast) AfterFunc(d time.Duration, do func()) Timer {
	return &fastTimer{Timer: f.machine.AfterFunc(f.real(d), do), clock: f}
}

func (f *Fast) After(d time.Duration) <-chan time.Time { return f.NewTimer(d).C() }

func (f *Fast) Sleep(d time.Duration) { f.machine.Sleep(f.real(d)) }

func (f *Fast) Tick(d time.Duration) <-chan time.Time { return f.machine.Tick(f.real(d)) }

func (f *Fast) NewTicker(d time.Duration) clock.Ticker { return f.machine.NewTicker(max(f.real(d), 1)) }

// fastTimer is a timer of a Fast clock.
type fastTimer struct {
	Timer
	clock *Fast
	c     chan time.Time // nil for AfterFunc
}

func (t *fastTimer) fire() {
	select {
	case t.c <- t.clock.Now():
	default:
	}
}

// C implements Timer.
func (t *fastTimer) C() <-chan time.Time { return t.c }

// Reset implements Timer.
func (t *fastTimer) Reset(d time.Duration) bool { return t.Timer.Reset(t.clock.real(d)) }
