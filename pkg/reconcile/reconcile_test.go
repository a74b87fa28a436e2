package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
	"github.com/minikctl/minikctl/pkg/trace"
)

// TestMain discards the logs of the failures that tests cause.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

// journal records what a loop did.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

func (j *journal) take() []string {
	synctest.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	out := j.lines
	j.lines = nil
	return out
}

func expect(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func key(name string) objects.Key { return objects.Key{Namespace: "ns", Name: name} }

// run runs a loop in a synctest bubble. enqueue enqueues keys.
func run(t *testing.T, l reconcile.Loop, test func(enqueue reconcile.Enqueue)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var enqueue reconcile.Enqueue
		l.Sources = append(l.Sources, func(_ context.Context, w reconcile.Enqueue) { enqueue = w })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx, clock.Real()) }()
		synctest.Wait()
		test(enqueue)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestKeyIsReconciledByOneWorker: a key that is enqueued while it is reconciled is reconciled once more afterwards.
func TestKeyIsReconciledByOneWorker(t *testing.T) {
	var j journal
	release := make(chan struct{})
	l := reconcile.Loop{Name: "test", Workers: 4, Reconcile: func(_ context.Context, k objects.Key) (time.Duration, error) {
		j.note("begin %s", k.Name)
		<-release
		j.note("end %s", k.Name)
		return 0, nil
	}}
	synctest.Test(t, func(t *testing.T) {
		release = make(chan struct{})
		var enqueue reconcile.Enqueue
		l.Sources = []reconcile.Source{func(_ context.Context, w reconcile.Enqueue) { enqueue = w }}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx, clock.Real()) }()
		synctest.Wait()
		enqueue(key("a"), 0)
		synctest.Wait()
		for range 5 {
			enqueue(key("a"), 0)
		}
		enqueue(key("b"), 0)
		got := j.take()
		slices.Sort(got)
		expect(t, "begun", got, "[begin a begin b]")
		close(release)
		time.Sleep(time.Second)
		expect(t, "then", len(j.take()), 4) // a and b end, a begins and ends once more
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestCauses: the writes of a reconcile carry the causes of its key, also at a retry, and not those of other keys.
func TestCauses(t *testing.T) {
	var j journal
	fail := true
	run(t, reconcile.Loop{Name: "test", Reconcile: func(ctx context.Context, k objects.Key) (time.Duration, error) {
		j.note("%s %v", k.Name, trace.From(ctx).Causes)
		if k.Name == "fails" && fail {
			fail = false
			return 0, errors.New("not yet")
		}
		return 0, nil
	}}, func(enqueue reconcile.Enqueue) {
		enqueue(key("a"), 7)
		expect(t, "one cause", j.take(), "[a [7]]")
		enqueue(key("a"), 0)
		expect(t, "no cause", j.take(), "[a []]")
		enqueue(key("fails"), 9)
		time.Sleep(time.Second)
		expect(t, "kept over a failure", j.take(), "[fails [9] fails [9]]")
	})
}

// TestCausesOfRequeues: a key that Reconcile requeues after a time has the causes of the reconciles that asked for it.
func TestCausesOfRequeues(t *testing.T) {
	var j journal
	pauses := map[string][]time.Duration{"once": {time.Minute}, "twice": {time.Minute, time.Hour}, "sooner": {time.Hour, time.Minute}}
	run(t, reconcile.Loop{Name: "test", Reconcile: func(ctx context.Context, k objects.Key) (time.Duration, error) {
		j.note("%s %v", k.Name, trace.From(ctx).Causes)
		after := time.Duration(0)
		if left := pauses[k.Name]; len(left) > 0 {
			after, pauses[k.Name] = left[0], left[1:]
		}
		return after, nil
	}}, func(enqueue reconcile.Enqueue) {
		for _, name := range []string{"once", "twice", "sooner"} {
			enqueue(key(name), 7)
			synctest.Wait()
			if name != "once" {
				enqueue(key(name), 8)
				synctest.Wait()
			}
			j.take()
			time.Sleep(2 * time.Minute) // of the bubble's clock: until each key is due after its shortest pause
			want := fmt.Sprintf("[%s [7 8]]", name)
			if name == "once" {
				want = "[once [7]]"
			}
			expect(t, name, j.take(), want)
			enqueue(key(name), 0)
			time.Sleep(2 * time.Hour) // beyond the longest pause, which must not bring the causes back
			expect(t, "no causes remain", j.take(), fmt.Sprintf("[%s []]", name))
		}
	})
}

func TestNewestCausesAreKept(t *testing.T) {
	var j journal
	var gate sync.Mutex
	run(t, reconcile.Loop{Name: "test", Reconcile: func(ctx context.Context, _ objects.Key) (time.Duration, error) {
		j.note("%v", trace.From(ctx).Causes)
		for !gate.TryLock() {
			time.Sleep(time.Millisecond)
		}
		gate.Unlock()
		return 0, nil
	}}, func(enqueue reconcile.Enqueue) {
		gate.Lock()
		enqueue(key("a"), 1)
		synctest.Wait()
		for rev := range uint64(40) {
			enqueue(key("a"), 100+rev)
		}
		gate.Unlock()
		time.Sleep(time.Second)
		got := j.take()
		expect(t, "causes", got[len(got)-1], "[124 125 126 127 128 129 130 131 132 133 134 135 136 137 138 139]")
	})
}

// TestRequeue: a key is requeued after the returned time, with backoff after errors, and after a panic.
func TestRequeue(t *testing.T) {
	var j journal
	var began time.Time
	failures := 0
	run(t, reconcile.Loop{Name: "test", Reconcile: func(_ context.Context, k objects.Key) (time.Duration, error) {
		j.note("%s@%v", k.Name, time.Since(began).Truncate(time.Millisecond))
		switch k.Name {
		case "later":
			if time.Since(began) < 2*time.Minute {
				return time.Minute, nil
			}
		case "fails":
			if failures++; failures < 4 {
				return 0, errors.New("not yet")
			}
		case "panics":
			if failures++; failures == 1 {
				panic("a mistake")
			}
		}
		return 0, nil
	}}, func(enqueue reconcile.Enqueue) {
		began = time.Now()
		enqueue(key("later"), 0)
		time.Sleep(time.Hour)
		expect(t, "later", j.take(), "[later@0s later@1m0s later@2m0s]")
		began = time.Now()
		enqueue(key("fails"), 0)
		time.Sleep(time.Hour)
		expect(t, "failures", j.take(), "[fails@0s fails@5ms fails@15ms fails@35ms]")
		failures, began = 0, time.Now()
		enqueue(key("panics"), 0)
		time.Sleep(time.Hour)
		expect(t, "panic", j.take(), "[panics@0s panics@5ms]")
	})
}

// TestCooldown: a key that is always enqueued is reconciled half of the time, and at once after a long pause.
func TestCooldown(t *testing.T) {
	var j journal
	run(t, reconcile.Loop{Name: "test", MaxCooldown: 20 * time.Millisecond, Reconcile: func(_ context.Context, k objects.Key) (time.Duration, error) {
		j.note("%s", k.Name)
		if k.Name == "slow" {
			time.Sleep(time.Second)
		} else {
			time.Sleep(10 * time.Millisecond)
		}
		return 0, nil
	}}, func(enqueue reconcile.Enqueue) {
		for range 995 {
			enqueue(key("a"), 0)
			time.Sleep(time.Millisecond)
		}
		if n := len(j.take()); n < 45 || n > 52 {
			t.Errorf("worked %d times in a second, of 10 ms each", n)
		}
		time.Sleep(time.Second)
		expect(t, "the last news are looked at", j.take(), "[a]")
		enqueue(key("a"), 0)
		expect(t, "at once", j.take(), "[a]")
		time.Sleep(time.Second)
		enqueue(key("slow"), 0)
		synctest.Wait()
		enqueue(key("slow"), 0)
		time.Sleep(1021 * time.Millisecond)
		expect(t, "no longer than the limit", j.take(), "[slow slow]")
	})
}

// TestCooldownFactor: with a factor of 4 a key that is always enqueued is reconciled a fifth of the time.
func TestCooldownFactor(t *testing.T) {
	var j journal
	run(t, reconcile.Loop{Name: "test", MaxCooldown: time.Minute, CooldownFactor: 4, Reconcile: func(_ context.Context, k objects.Key) (time.Duration, error) {
		j.note("%s", k.Name)
		time.Sleep(10 * time.Millisecond)
		return 0, nil
	}}, func(enqueue reconcile.Enqueue) {
		for range 1000 {
			enqueue(key("a"), 0)
			time.Sleep(time.Millisecond)
		}
		if n := len(j.take()); n < 19 || n > 21 {
			t.Errorf("worked %d times in a second, of 10 ms each", n)
		}
		time.Sleep(time.Second)
	})
}

// TestRunWaitsForReconciles: Run returns when the reconciles that had begun have ended.
func TestRunWaitsForReconciles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := false
		var enqueue reconcile.Enqueue
		l := reconcile.Loop{
			Name:    "test",
			Sources: []reconcile.Source{func(_ context.Context, w reconcile.Enqueue) { enqueue = w }},
			Reconcile: func(context.Context, objects.Key) (time.Duration, error) {
				time.Sleep(time.Minute)
				done = true
				return 0, nil
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx, clock.Real()) }()
		synctest.Wait()
		enqueue(key("a"), 0)
		synctest.Wait()
		enqueue(key("b"), 0) // is not reconciled
		cancel()
		if err := <-ended; err != nil || !done {
			t.Errorf("ended with %v, done %t", err, done)
		}
	})
}

func TestEvery(t *testing.T) {
	var j journal
	l := reconcile.Loop{Name: "test", Reconcile: func(_ context.Context, k objects.Key) (time.Duration, error) {
		j.note("%s", k.Name)
		return 0, nil
	}}
	l.Sources = []reconcile.Source{reconcile.Every(clock.Real(), time.Minute, key("tick"))}
	run(t, l, func(reconcile.Enqueue) {
		expect(t, "at once", j.take(), "[tick]")
		time.Sleep(2*time.Minute + time.Second)
		expect(t, "then", j.take(), "[tick tick]")
	})
}

// TestSources: the keys that sources enqueue for changes of a cache.
func TestSources(t *testing.T) {
	pod := func(name, owner string, rev string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u", ResourceVersion: rev}}
		if owner != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: owner, UID: "o", Controller: new(true)}}
		}
		return p
	}
	pods := client.NewCaches(nil, clock.Real()).Pods()
	watched, owned := map[string]uint64{}, map[string]uint64{}
	into := func(m map[string]uint64) reconcile.Enqueue {
		return func(k objects.Key, rev uint64) { m[k.Name] = rev }
	}
	reconcile.Watch(pods)(t.Context(), into(watched))
	reconcile.Owned(pods, "ReplicaSet")(t.Context(), into(owned))
	pods.Put(pod("p", "first", "5"))
	expect(t, "watched", watched, "map[p:5]")
	expect(t, "owned", owned, "map[first:5]")
	pods.Put(pod("p", "second", "6"))
	expect(t, "after the controlling owner changed", owned, "map[first:6 second:6]")
	pods.Put(pod("q", "", "7"))
	expect(t, "watched", watched, "map[p:6 q:7]")
	expect(t, "without a controlling owner", owned, "map[first:6 second:6]")
	pods.Drop(pod("p", "second", "6"))
	expect(t, "dropped", watched, "map[p:6 q:7]")
}
