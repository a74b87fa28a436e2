package daemon

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/clock"
)

func TestParseClock(t *testing.T) {
	for _, c := range []struct{ setting, err string }{
		{"", ""},
		{"machine", ""},
		{"manual", ""},
		{"manual:2026-01-02T15:04:05Z", ""},
		{"fast:60", ""},
		{"fast:1.5", ""},
		{"manual:now", `clock: "now" is not a time such as 2026-01-02T15:04:05Z`},
		{"fast:0.5", `clock: "0.5" is not a rate from 1 to 3600`},
		{"fast:NaN", `clock: "NaN" is not a rate from 1 to 3600`},
		{"fast", `clock: "fast" is none of machine, fast:RATE, manual, manual:TIME`},
		{"slow:2", `clock: "slow:2" is none of machine, fast:RATE, manual, manual:TIME`},
	} {
		_, err := parseClock(c.setting)
		if err != nil && err.Error() != c.err || err == nil && c.err != "" {
			t.Errorf("%q: got %v, want %s", c.setting, err, c.err)
		}
	}
}

// TestClusterTimeNeverGoesBack starts a cluster again and again, on other clocks and at other machine times.
func TestClusterTimeNeverGoesBack(t *testing.T) {
	machine := testclock.NewFakeClock(time.Date(2026, 6, 1, 12, 0, 0, 500, time.UTC))
	paths := Paths{Clock: filepath.Join(t.TempDir(), "clock")}
	at := func(s string) time.Time {
		out, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	var last time.Time
	for i, c := range []struct {
		clock   string
		pause   time.Duration // of the machine, before the start
		begins  string        // "": any time
		advance time.Duration // of the cluster, before the daemon is killed
		ends    string
	}{
		{"machine", 0, "2026-06-01T12:00:00.0000005Z", 0, "2026-06-01T12:00:00.0000005Z"},
		{"manual", time.Minute, "2026-06-01T12:01:00Z", time.Hour, "2026-06-01T13:01:00Z"},
		{"manual", time.Minute, "2026-06-01T13:01:00Z", time.Nanosecond, "2026-06-01T13:01:00.000000001Z"},
		{"manual:2026-01-01T00:00:00Z", 0, "2026-06-01T13:01:00.000000001Z", 0, "2026-06-01T13:01:00.000000001Z"},
		{"fast:60", time.Minute, "2026-06-01T13:01:00.000000001Z", time.Hour, "2026-06-01T14:01:00.000000001Z"},
		{"fast:2", time.Minute, "2026-06-01T15:01:00.000000001Z", time.Hour, "2026-06-01T16:01:00.000000001Z"},
		{"machine", time.Minute, "2026-06-01T16:03:00.000000001Z", time.Minute, "2026-06-01T16:04:00.000000001Z"},
		{"machine", 24 * time.Hour, "2026-06-02T16:04:00.000000001Z", time.Minute, "2026-06-02T16:05:00.000000001Z"},
		{"manual:2030-01-01T00:00:00Z", 0, "2030-01-01T00:00:00Z", 0, "2030-01-01T00:00:00Z"},
		{"machine", 5 * 365 * 24 * time.Hour, "", 0, ""},
	} {
		machine.Step(c.pause)
		d := &Daemon{cfg: &Config{Clock: c.clock}, paths: paths, clock: machine, machine: machine}
		if err := d.openClock(); err != nil {
			t.Fatal(err)
		}
		if got := d.clock.Now(); c.begins != "" && !got.Equal(at(c.begins)) {
			t.Errorf("start %d, %s: begins at %s, want %s", i, c.clock, got.Format(time.RFC3339Nano), c.begins)
		}
		if d.clock.Now().Before(last) {
			t.Errorf("start %d, %s: the time went back from %s to %s", i, c.clock, last, d.clock.Now())
		}
		switch k := d.clock.(type) {
		case *clock.Manual:
			if _, err := k.Advance(t.Context(), k.Now().Add(c.advance), 0); err != nil {
				t.Fatal(err)
			}
		case *clock.Fast:
			machine.Step(time.Duration(float64(c.advance) / k.Rate()))
		}
		if last = d.clock.Now(); c.ends != "" && !last.Equal(at(c.ends)) {
			t.Errorf("start %d, %s: ends at %s, want %s", i, c.clock, last.Format(time.RFC3339Nano), c.ends)
		}
		for _, end := range d.closers {
			if err := end(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestClockIsSynced: the record is synced once a second while the clock moves, and at the end of an advance that has moved it.
func TestClockIsSynced(t *testing.T) {
	machine := testclock.NewFakeClock(time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC))
	f, err := os.Create(filepath.Join(t.TempDir(), "clock"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	k := &clockKeeper{file: f, opened: machine.Now(), machine: machine, synced: machine.Now()}
	for _, step := range []struct {
		pause time.Duration
		do    func() error
		dirty bool
	}{
		{0, func() error { return k.moved(machine.Now()) }, true},
		{syncClock / 2, func() error { return k.moved(machine.Now()) }, true},
		{syncClock / 2, func() error { return k.moved(machine.Now()) }, false},
		{0, func() error { return k.moved(machine.Now()) }, true},
		{0, k.sync, false},
		{0, k.sync, false},
	} {
		machine.Step(step.pause)
		if err := step.do(); err != nil || k.dirty != step.dirty {
			t.Errorf("dirty is %t, want %t: %v", k.dirty, step.dirty, err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := k.moved(machine.Now()); err == nil {
		t.Error("no error for a file that can't be written")
	}
	if k.dirty = true; k.sync() == nil {
		t.Error("no error for a file that can't be synced")
	}
}
