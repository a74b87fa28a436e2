package virtual_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/internal/virtual"
)

var (
	seed   = flag.Uint64("property.seed", 1, "the seed of the first run of TestProperties")
	seeds  = flag.Int("property.seeds", 1, "how many seeds TestProperties runs")
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

// takesTurns skips a long test with -short, which make race gives: the components of its cluster take turns, which orders all that they do, so that
// the race detector finds nothing in them. Those of TestProperties/concurrent don't.
func takesTurns(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("the components take turns, so that the race detector finds nothing and takes five times as long")
	}
}

// TestProperties makes random changes to a cluster: workloads are created, scaled, updated and deleted, pods deleted, nodes lost,
// components restarted, requests refused. Rules hold at each change of an object, and the cluster converges to the specification once
// nodes and templates are good again.
func TestProperties(t *testing.T) {
	if testing.Short() {
		*seeds, *steps = 0, 50 // with turns, see takesTurns
	}
	for i := range *seeds {
		s := *seed + uint64(i)
		t.Run(fmt.Sprintf("seed %d", s), func(t *testing.T) { newRun(t, s, virtual.Config{}).all(*steps) })
	}
	t.Run("concurrent", func(t *testing.T) { newRun(t, *seed+1, virtual.Config{Concurrent: true}).all(*steps) })
}

// TestFailureRepeats: two runs of TestProperties with the same seed have the same history and fail in the same way. What they find is that
// the ReplicaSet controller creates each pod twice.
func TestFailureRepeats(t *testing.T) {
	fail := func() (failure string, history []string) {
		t.Run("run", func(t *testing.T) {
			r := newRun(t, 7, virtual.Config{Client: func(user string, c client.Client) client.Client {
				if strings.HasSuffix(user, "replicaset-controller") {
					return twice{c}
				}
				return c
			}})
			defer func() { history = r.history }()
			done := make(chan struct{})
			r.failed = func(text string) {
				failure = text
				runtime.Goexit()
			}
			go func() {
				defer close(done)
				r.all(50)
			}()
			<-done
		})
		return failure, history
	}
	failure, history := fail()
	again, historyAgain := fail()
	if failure == "" || failure != again {
		t.Errorf("the first run has failed with\n%s\n\nand the second with\n%s", failure, again)
	}
	for i, line := range history {
		if i >= len(historyAgain) || historyAgain[i] != line {
			t.Fatalf("line %d of the histories differs: %q, %q", i, line, historyAgain[min(i, len(historyAgain)-1)])
		}
	}
}

// twice is the client of a component that creates each pod twice.
type twice struct{ client.Client }

func (c twice) Create(ctx context.Context, t client.Target, obj kruntime.Object, opts metav1.CreateOptions) (kruntime.Object, error) {
	if t.Resource == client.Pods {
		if _, err := c.Client.Create(ctx, t, obj.DeepCopyObject(), opts); err != nil {
			return nil, err
		}
	}
	return c.Client.Create(ctx, t, obj, opts)
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
	failed  func(string)

	turn context.Context // of the present action; nil: it has none
	end  func()          // ends the turn
}

var nodeNames = []string{"a", "b", "c", "d", "e"}

func newRun(t *testing.T, seed uint64, cfg virtual.Config) *run {
	r := &run{seed: seed, world: newWorld(), faults: newFaults(seed), failed: func(text string) { t.Fatal(text) }}
	cfg.Nodes, cfg.Seed = nodeNames, seed
	more := cfg.Client
	cfg.Client = func(user string, c client.Client) client.Client {
		if c = r.faults.client(user, c); more != nil {
			c = more(user, c)
		}
		return c
	}
	r.Cluster = virtual.Start(t, cfg)
	r.faults.mu.Lock()
	r.faults.reader, r.faults.clock = r.Cluster.Client, r.Clock
	r.faults.mu.Unlock()
	r.world.follow(r.Cluster)
	r.Advance(0)
	return r
}

func (r *run) all(steps int) {
	for r.step = 1; r.step <= steps; r.step++ {
		r.rng = rand.New(rand.NewPCG(r.seed, uint64(r.step)))
		for range 1 + r.rng.IntN(3) {
			r.takeTurn()
			r.act()
			r.endTurn()
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

// takeTurn waits until the cluster has made a random number of writes, or has settled. The next action is done in the middle of the others.
func (r *run) takeTurn() {
	after := 1 + uint64(r.rng.IntN(12))
	r.turn, r.end = clock.TakeTurn(r.TB.Context(), r.Clock, clock.Rank{Part: "test", After: after})
}

func (r *run) endTurn() {
	if r.end != nil {
		r.end()
	}
	r.turn, r.end = nil, nil
}

// Context returns the context of the present action, or else that of the test.
func (r *run) Context() context.Context {
	if r.turn != nil {
		return r.turn
	}
	return r.TB.Context()
}

// settle advances the clock and checks the changes that came meanwhile.
func (r *run) settle(d time.Duration) {
	r.endTurn()
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
	r.failed(fmt.Sprintf("seed %d, step %d:\n%s\n\nthe last changes:\n%s\n\nrepeat with: go test ./pkg/internal/virtual -count 1 -run TestProperties -property.seeds 1 -property.seed %d -property.steps %d",
		r.seed, r.step, fmt.Sprintf(format, args...), strings.Join(last, "\n"), r.seed, r.step))
}
