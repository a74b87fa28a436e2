//go:build linux && (amd64 || arm64)

package badger_test

import (
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/minikctl/minikctl/pkg/store/badger"
)

var (
	losses   = flag.Int("losses", 40, "how many losses of power are simulated")
	lossSeed = flag.Uint64("losses.seed", rand.Uint64(), "the seed of the losses")
)

// TestPowerLoss simulates losses of power while 16 writers write, and tables are flushed and compacted: any part of the data that
// was not synced may be lost. It checks that the remaining data has every acknowledged write. After some losses the process continues
// with the remaining data, and after others it was only killed, so that a loss of power can follow a kill.
func TestPowerLoss(t *testing.T) {
	t.Logf("-losses.seed %d", *lossSeed)
	p := &power{t: t, rng: rand.New(rand.NewPCG(*lossSeed, 0))}
	p.checks.SetLimit(2)
	defer p.checks.Wait() // also when a round fails; its result is used below
	dir, l := p.newDir(), newLedger()
	d, err := newDisk(dir)
	if err != nil {
		t.Fatal(err)
	}
	for p.done < rounds(*losses) && !t.Failed() {
		last, at := p.round(d, l)
		if p.rng.IntN(3) == 0 { // only killed: what was not synced is still there
			l = l.ended()
			continue
		}
		d.close()
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		dir, l = p.newDir(), at.ended()
		if err := last.writeTo(dir); err != nil {
			t.Fatal(err)
		}
		if d, err = newDisk(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.checks.Wait(); err != nil {
		t.Error(err)
	}
	d.close()
	t.Logf("%d losses of power in %d rounds, %d syncs, %d tables written, %d acknowledged writes", p.done, p.rounds, p.syncs, p.tables, p.acked)
}

// power is a run of TestPowerLoss.
type power struct {
	t      *testing.T
	rng    *rand.Rand
	checks errgroup.Group

	done, rounds, syncs, tables, acked int
}

// newDir returns a new directory, in memory where the machine has one: a sync is only simulated.
func (p *power) newDir() string {
	dir, err := os.MkdirTemp(inMemory(), "power")
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// round runs the process until it has lost its power several times, and kills it. It returns the last image and its ledger; l is the
// ledger at the kill.
func (p *power) round(d *disk, l *ledger) (last *image, at *ledger) {
	const lossesEach, callsBetween = 10, 120
	p.checks.Wait() // a process that is started would inherit the locks of their stores for a moment
	p.rounds++
	d.syncs, d.tables = 0, 0
	acked := l.acked
	o := startObserved(p.t, writerDir+"="+d.dir, writerStart+"="+l.starts())
	defer o.kill()
	found := newHolding()
	note := func() {
		for _, line := range o.lines() {
			if err := l.note(line, found); err != nil {
				p.t.Fatalf("round %d: %v", p.rounds, err)
			}
		}
	}
	lose := func() {
		note()
		copied := *l
		last, at = p.lose(d, &copied), &copied
	}
	for i := range lossesEach {
		calls := callsBetween
		if i == 0 {
			calls /= 3 // during the open, or soon after it
		}
		for range p.rng.IntN(calls) {
			c := p.receive(o, note)
			p.answer(o, c, p.handle(d, c))
		}
		c, when := p.receive(o, note), p.rng.IntN(3)
		for rare := p.rng.IntN(3) == 0; rare && c.nr != unix.SYS_FSYNC; c = p.receive(o, note) { // of MANIFEST, or of the directory
			p.answer(o, c, p.handle(d, c))
		}
		if when == 0 { // before the call has an effect
			lose()
		}
		done := p.handle(d, c)
		if when == 1 { // before the sync returns to the process
			lose()
		}
		p.answer(o, c, done)
		if when == 2 { // while the process runs
			lose()
		}
	}
	p.receive(o, note) // a sync that never happens
	p.syncs, p.tables = p.syncs+d.syncs, p.tables+d.tables
	o.kill()
	note()
	if err := d.settle(); err != nil {
		p.t.Fatal(err)
	}
	p.acked += l.acked - acked
	return last, at
}

// receive returns the next call of the process.
func (p *power) receive(o *observed, note func()) *call {
	c, err := o.receive()
	note()
	if err != nil || c == nil {
		p.t.Fatalf("round %d: the process has ended, or hangs: %v", p.rounds, err)
	}
	return c
}

func (p *power) handle(d *disk, c *call) (done bool) {
	done, err := d.handle(c)
	if err != nil {
		p.t.Fatalf("round %d: %v", p.rounds, err)
	}
	return done
}

func (p *power) answer(o *observed, c *call, done bool) {
	if done {
		o.done(c)
	} else {
		o.proceed(c)
	}
}

// lose makes an image of a random kind, and checks it while the process runs on.
func (p *power) lose(d *disk, l *ledger) *image {
	im, err := d.lose(loss(p.rng.IntN(int(lossKinds))), p.rng)
	if err != nil {
		p.t.Fatalf("round %d: %v", p.rounds, err)
	}
	p.done++
	n := p.done
	dir := p.newDir()
	p.checks.Go(func() error {
		err := im.writeTo(dir)
		if err == nil {
			err = l.open(p.t.Context(), dir)
		}
		if err != nil {
			p.t.Errorf("loss %d (%s): %v", n, im.name, err)
		}
		return os.RemoveAll(dir)
	})
	return im
}

// TestPowerLossAfterKill kills a process that has compacted tables and has not synced MANIFEST yet. The next process deletes the tables
// that MANIFEST no longer lists, and loses its power.
func TestPowerLossAfterKill(t *testing.T) {
	const compaction = 40 // bytes of a record of MANIFEST with more than one table
	p := &power{t: t, rng: rand.New(rand.NewPCG(1, 1))}
	d, err := newDisk(p.newDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	l := newLedger()
	p.runUntil(d, d.dir, l, func(c *call) (stop bool) {
		if n := d.nodes[c.inode()]; c.nr == unix.SYS_FSYNC && n != nil && n.names == nil {
			now, err := n.read()
			if err != nil {
				t.Fatal(err)
			}
			stop = now.size-n.durable.size > compaction
		}
		return stop
	})
	if err := d.settle(); err != nil {
		t.Fatal(err)
	}
	l = l.ended()
	before := l.acked
	p.runUntil(d, d.dir, l, func(c *call) bool { // Badger has deleted tables before it creates one, and before a write
		return c.nr == unix.SYS_OPENAT && filepath.Ext(c.path(1)) == ".sst" || l.acked > before
	})
	im, err := d.lose(allLost, p.rng)
	if err != nil {
		t.Fatal(err)
	}
	dir := p.newDir()
	if err := im.writeTo(dir); err != nil {
		t.Fatal(err)
	}
	if err := l.open(t.Context(), dir); err != nil {
		t.Error(err)
	}
}

// TestPowerLossAfterFirstStart kills the process that creates a store, before it has synced anything. The next process writes, and
// loses its power: the directories above the store must be durable.
func TestPowerLossAfterFirstStart(t *testing.T) {
	p := &power{t: t, rng: rand.New(rand.NewPCG(1, 1))}
	d, err := newDisk(p.newDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	l, above := newLedger(), filepath.Join("a", "b")
	p.runUntil(d, filepath.Join(d.dir, above), l, func(c *call) bool { return c.nr == unix.SYS_FSYNC })
	if err := d.settle(); err != nil {
		t.Fatal(err)
	}
	p.runUntil(d, filepath.Join(d.dir, above), l, func(*call) bool { return l.head > 0 }) // the first operations may delete nothing
	im, err := d.lose(allLost, p.rng)
	if err != nil {
		t.Fatal(err)
	}
	dir := p.newDir()
	if err := im.writeTo(dir); err != nil {
		t.Fatal(err)
	}
	if err := l.open(t.Context(), filepath.Join(dir, above)); err != nil {
		t.Error(err)
	}
}

// TestSyncParentsInProc syncs directories of a file system whose directories cannot be synced.
func TestSyncParentsInProc(t *testing.T) {
	const dir = "/proc/sys/kernel"
	f, err := os.Open(filepath.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Sync(); !errors.Is(err, unix.EINVAL) {
		t.Skipf("a sync of a directory in /proc returns %v", err)
	}
	if err := badger.SyncParents(dir); err != nil {
		t.Error(err)
	}
}

// runUntil runs the process in dir until a call, and kills it. The call has no effect.
func (p *power) runUntil(d *disk, dir string, l *ledger, at func(*call) (stop bool)) {
	o := startObserved(p.t, writerDir+"="+dir, writerStart+"="+l.starts())
	defer o.kill()
	found := newHolding()
	note := func() {
		for _, line := range o.lines() {
			if err := l.note(line, found); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	for {
		c := p.receive(o, note)
		if at(c) {
			return
		}
		p.answer(o, c, p.handle(d, c))
	}
}
