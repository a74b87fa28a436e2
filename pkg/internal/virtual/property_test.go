package virtual_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/minikctl/minikctl/pkg/internal/virtual"
)

var (
	seed   = flag.Uint64("property.seed", 1, "the seed of the first run of TestProperties")
	seeds  = flag.Int("property.seeds", 2, "how many seeds TestProperties runs")
	steps  = flag.Int("property.steps", 150, "how many steps TestProperties takes with each seed")
	tell   = flag.Bool("property.v", false, "print each step of TestProperties")
	follow = flag.String("property.follow", "", "print each change of objects whose name has this prefix")
)

// checkEvery is the number of steps after which the cluster is repaired and must converge.
const checkEvery = 25

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(panics{slog.DiscardHandler}))
	os.Exit(m.Run())
}

// panics is a log handler that ends the process when a component logs a panic, which it survives.
type panics struct{ slog.Handler }

func (panics) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }

func (panics) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "panicked") {
		r.Attrs(func(a slog.Attr) bool {
			fmt.Fprintf(os.Stderr, "%s=%v\n", a.Key, a.Value)
			return true
		})
		panic(r.Message)
	}
	return nil
}

// TestProperties makes random changes to a cluster: workloads are created, scaled, updated and deleted, pods deleted, nodes lost,
// components restarted, requests refused. Rules hold at each change of an object, and the cluster converges to the specification once
// nodes and templates are good again.
func TestProperties(t *testing.T) {
	if testing.Short() {
		*seeds, *steps = 1, 50
	}
	for i := range *seeds {
		s := *seed + uint64(i)
		t.Run(fmt.Sprintf("seed %d", s), func(t *testing.T) { newRun(t, s).all(*steps) })
	}
}

// run is one sequence of random steps.
type run struct {
	*virtual.Cluster
	seed    uint64
	step    int
	rng     *rand.Rand // of the step
	world   *world
	faults  *faults
	history []string // what the steps did
}

var nodeNames = []string{"a", "b", "c", "d", "e"}

func newRun(t *testing.T, seed uint64) *run {
	r := &run{seed: seed, world: newWorld(), faults: newFaults(seed)}
	r.Cluster = virtual.Start(t, virtual.Config{Nodes: nodeNames, Seed: seed, Client: r.faults.client})
	r.faults.mu.Lock()
	r.faults.reader = r.Cluster.Client
	r.faults.mu.Unlock()
	r.world.follow(r.Cluster)
	r.Advance(0)
	return r
}

func (r *run) all(steps int) {
	for r.step = 1; r.step <= steps; r.step++ {
		r.rng = rand.New(rand.NewPCG(r.seed, uint64(r.step)))
		for range 1 + r.rng.IntN(3) {
			r.act()
		}
		switch r.rng.IntN(5) {
		case 0: // the next step comes in the middle of this one
		case 1, 2:
			r.settle(0)
		default:
			r.settle(time.Duration(r.rng.IntN(90)) * time.Second)
		}
		if r.step%checkEvery == 0 || r.step == steps {
			r.repair()
			r.converged()
		}
	}
}

// settle advances the clock and checks the changes that came meanwhile.
func (r *run) settle(d time.Duration) {
	if _, err := r.Clock.Advance(r.Context(), r.Clock.Now().Add(d), 0); err != nil {
		r.fail("%v", err)
	}
	if broken := r.world.check(r.faults); len(broken) > 0 {
		r.fail("%s", strings.Join(broken, "\n"))
	}
	if broken := r.world.settled(!r.faults.on()); len(broken) > 0 {
		r.fail("%s", strings.Join(broken, "\n"))
	}
}

func (r *run) note(format string, args ...any) {
	line := fmt.Sprintf("%4d %s ", r.step, r.Clock.Since(virtual.Began)) + fmt.Sprintf(format, args...)
	if *tell {
		fmt.Println(line)
	}
	r.history = append(r.history, line)
}

// fail ends the test with the last steps and the command that repeats them.
func (r *run) fail(format string, args ...any) {
	r.Helper()
	last := r.history[max(0, len(r.history)-40):]
	r.Fatalf("seed %d, step %d:\n%s\n\nthe last changes:\n%s\n\nrepeat with: go test ./pkg/internal/virtual -count 1 -run TestProperties -property.seeds 1 -property.seed %d -property.steps %d",
		r.seed, r.step, fmt.Sprintf(format, args...), strings.Join(last, "\n"), r.seed, r.step)
}
