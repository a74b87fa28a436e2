package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

// clockSetting is the parsed setting clock.
type clockSetting struct {
	mode  string    // minikctl.ClockMachine, ClockFast or ClockManual
	rate  float64   // of a fast clock
	start time.Time // of a manual clock; zero: the machine's time
}

// maxRate bounds the rate of a fast clock: beyond it, components can't keep up with their own timers.
const maxRate = 3600

// parseClock parses the setting clock.
func parseClock(s string) (clockSetting, error) {
	mode, arg, with := strings.Cut(s, ":")
	switch {
	case s == "" || s == "machine":
		return clockSetting{mode: minikctl.ClockMachine, rate: 1}, nil
	case mode == "fast" && with:
		rate, err := strconv.ParseFloat(arg, 64)
		if err != nil || !(rate >= 1 && rate <= maxRate) {
			return clockSetting{}, fmt.Errorf("clock: %q is not a rate from 1 to %d", arg, maxRate)
		}
		return clockSetting{mode: minikctl.ClockFast, rate: rate}, nil
	case s == "manual":
		return clockSetting{mode: minikctl.ClockManual}, nil
	case mode == "manual":
		start, err := time.Parse(time.RFC3339, arg)
		if err != nil {
			return clockSetting{}, fmt.Errorf("clock: %q is not a time such as 2026-01-02T15:04:05Z", arg)
		}
		return clockSetting{mode: minikctl.ClockManual, start: start}, nil
	}
	return clockSetting{}, fmt.Errorf("clock: %q is none of machine, fast:RATE, manual, manual:TIME", s)
}

// openClock makes the cluster's clock. A cluster whose clock was fast or manual goes on from the time that it had reached: the cluster's
// time never goes back. The daemon's API server runs in this process.
func (d *Daemon) openClock() error {
	want, err := parseClock(d.cfg.Clock)
	if err != nil {
		return err
	}
	now := d.machine.Now()
	last, err := readClock(d.paths)
	if err != nil {
		return err
	}
	reached := last.at(now)
	if want.mode == minikctl.ClockMachine && !reached.After(now) {
		return nil
	}
	start := now.Truncate(time.Second)
	if !want.start.IsZero() {
		start = want.start
	}
	if reached.After(start) || want.start.IsZero() && want.mode == minikctl.ClockManual && !reached.IsZero() {
		start = reached
	}
	f, err := os.OpenFile(d.paths.Clock, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("keep the cluster's time: %w", err)
	}
	d.closers = append(d.closers, f.Close)
	if want.mode != minikctl.ClockManual {
		d.clock = clock.NewFast(now, start, want.rate, d.machine)
		return writeClock(f, clockRecord{start, now, want.rate})
	}
	m := clock.NewManual(start, d.machine)
	if d.cfg.Seed != 0 {
		m.TakeTurns()
	}
	k := &clockKeeper{file: f, opened: now, machine: d.machine, synced: now}
	m.OnMove(k.moved)
	m.OnAdvanced(k.sync)
	d.clock = m
	return errors.Join(writeClock(f, clockRecord{start, now, 0}), f.Sync())
}

// clockRecord is the content of the file of the cluster's clock: the cluster's time at a moment of machine time, and how fast it passes
// from then on. Without a file the two times are equal.
type clockRecord struct {
	cluster, machine time.Time
	rate             float64
}

// at returns the cluster's time at a moment of machine time, zero if there is no record.
func (r clockRecord) at(machine time.Time) time.Time {
	if r.cluster.IsZero() {
		return time.Time{}
	}
	return r.cluster.Add(time.Duration(float64(max(0, machine.Sub(r.machine))) * r.rate))
}

// clockKeeper keeps the record of a manual clock. Advances take turns, so its methods are called one at a time.
type clockKeeper struct {
	file    *os.File
	opened  time.Time // machine time
	machine clock.Clock
	synced  time.Time // machine time
	dirty   bool
}

// syncClock is how often the record of a manual clock is synced while it moves. Only a crash of the machine loses what is not synced.
const syncClock = time.Second

// moved writes the time to which the clock is about to move.
func (k *clockKeeper) moved(to time.Time) error {
	if err := writeClock(k.file, clockRecord{to, k.opened, 0}); err != nil {
		return err
	}
	k.dirty = true
	if k.machine.Since(k.synced) < syncClock {
		return nil
	}
	return k.sync()
}

// sync syncs the time that the clock has reached, so that no crash loses an advance that has returned.
func (k *clockKeeper) sync() error {
	if !k.dirty {
		return nil
	}
	if err := k.file.Sync(); err != nil {
		return fmt.Errorf("keep the cluster's time: %w", err)
	}
	k.dirty, k.synced = false, k.machine.Now()
	return nil
}

// clockTime has a constant width, so that a record replaces another one in one write.
const clockTime = "2006-01-02T15:04:05.000000000Z"

// writeClock replaces the record. A daemon that is killed after it has the new one.
func writeClock(f *os.File, r clockRecord) error {
	line := fmt.Sprintf("%s %s %10.3f\n", r.cluster.UTC().Format(clockTime), r.machine.UTC().Format(clockTime), r.rate)
	if _, err := f.WriteAt([]byte(line), 0); err != nil {
		return fmt.Errorf("keep the cluster's time: %w", err)
	}
	return nil
}

// readClock returns the record of the last start, an empty one if there is none.
func readClock(p Paths) (clockRecord, error) {
	b, err := os.ReadFile(p.Clock)
	if errors.Is(err, fs.ErrNotExist) {
		return clockRecord{}, nil
	}
	if err != nil {
		return clockRecord{}, fmt.Errorf("read the cluster's time: %w", err)
	}
	words := strings.Fields(string(b))
	if len(words) == 3 {
		cluster, err := time.Parse(clockTime, words[0])
		machine, err2 := time.Parse(clockTime, words[1])
		rate, err3 := strconv.ParseFloat(words[2], 64)
		if errors.Join(err, err2, err3) == nil {
			return clockRecord{cluster, machine, rate}, nil
		}
	}
	return clockRecord{}, fmt.Errorf("read the cluster's time: %s is damaged", p.Clock)
}

// followClock makes the clock of components whose API server runs in another process: it has the time and the rate of the cluster's. A
// manual clock can't be followed. An API server that has no clock is not minikctl's.
func (d *Daemon) followClock(ctx context.Context, cfg *rest.Config) error {
	if d.cfg.Clock != "" && d.cfg.Clock != "machine" {
		return errors.New("clock: it is a setting of the daemon that runs the API server")
	}
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	got := &minikctl.Clock{}
	raw, err := c.CoreV1().RESTClient().Get().
		AbsPath("apis", minikctl.GroupVersion.Group, minikctl.GroupVersion.Version, minikctl.Clocks.Resource, minikctl.ClusterClock).DoRaw(ctx)
	if err != nil {
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			return nil
		}
		return fmt.Errorf("read the cluster's clock: %w", err)
	}
	if err := json.Unmarshal(raw, got); err != nil {
		return fmt.Errorf("read the cluster's clock: %w", err)
	}
	switch got.Mode {
	case minikctl.ClockManual:
		return errors.New("the cluster has a manual clock, which components in other processes can't follow: run all components in one")
	case minikctl.ClockFast:
		d.clock = clock.NewFast(d.machine.Now(), got.Time.Time, got.Rate, d.machine)
	}
	return nil
}

// counted has a service count as busy on a manual clock from now on, until it counts itself.
func (d *Daemon) counted(s service) service {
	in, run := clock.Starting(d.clock, s.name), s.run
	s.run = func(ctx context.Context) error { return run(in(ctx)) }
	return s
}
