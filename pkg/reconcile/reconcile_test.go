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

// TestMain keeps the logs of failures, which the tests make, to itself.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

// journal notes what a loop did.
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

// run runs a loop within a bubble of time; wake wakes it.
func run(t *testing.T, l reconcile.Loop, test func(wake reconcile.Enqueue)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var wake reconcile.Enqueue
		l.Sources = append(l.Sources, func(_ context.Context, w reconcile.Enqueue) { wake = w })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx, clock.Real()) }()
		synctest.Wait()
		test(wake)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestOnceAtATime: a key that is woken while it is worked on is worked on again afterwards, once.
func TestOnceAtATime(t *testing.T) {
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
		var wake reconcile.Enqueue
		l.Sources = []reconcile.Source{func(_ context.Context, w reconcile.Enqueue) { wake = w }}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx, clock.Real()) }()
		synctest.Wait()
		wake(key("a"), 0)
		synctest.Wait()
		for range 5 {
			wake(key("a"), 0)
		}
		wake(key("b"), 0)
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

// TestCauses: what woke a key travels to its writes, also to the next attempt, and only to its own.
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
	}}, func(wake reconcile.Enqueue) {
		wake(key("a"), 7)
		expect(t, "one cause", j.take(), "[a [7]]")
		wake(key("a"), 0)
		expect(t, "no cause", j.take(), "[a []]")
		wake(key("fails"), 9)
		time.Sleep(time.Second)
		expect(t, "kept over a failure", j.take(), "[fails [9] fails [9]]")
	})
}

func TestManyCausesKeepTheNewest(t *testing.T) {
	var j journal
	var gate sync.Mutex
	run(t, reconcile.Loop{Name: "test", Reconcile: func(ctx context.Context, _ objects.Key) (time.Duration, error) {
		j.note("%v", trace.From(ctx).Causes)
		for !gate.TryLock() {
			time.Sleep(time.Millisecond)
		}
		gate.Unlock()
		return 0, nil
	}}, func(wake reconcile.Enqueue) {
		gate.Lock()
		wake(key("a"), 1)
		synctest.Wait()
		for rev := range uint64(40) {
			wake(key("a"), 100+rev)
		}
		gate.Unlock()
		time.Sleep(time.Second)
		got := j.take()
		expect(t, "causes", got[len(got)-1], "[124 125 126 127 128 129 130 131 132 133 134 135 136 137 138 139]")
	})
}

// TestComingBack: after a while when asked for, with growing pauses after failures, and after a panic.
func TestComingBack(t *testing.T) {
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
	}}, func(wake reconcile.Enqueue) {
		began = time.Now()
		wake(key("later"), 0)
		time.Sleep(time.Hour)
		expect(t, "later", j.take(), "[later@0s later@1m0s later@2m0s]")
		began = time.Now()
		wake(key("fails"), 0)
		time.Sleep(time.Hour)
		expect(t, "failures", j.take(), "[fails@0s fails@5ms fails@15ms fails@35ms]")
		failures, began = 0, time.Now()
		wake(key("panics"), 0)
		time.Sleep(time.Hour)
		expect(t, "panic", j.take(), "[panics@0s panics@5ms]")
	})
}

// TestRest: a key that is woken all the time is worked on half of it, and at once when it was left alone for long.
func TestRest(t *testing.T) {
	var j journal
	run(t, reconcile.Loop{Name: "test", Rest: 20 * time.Millisecond, Reconcile: func(_ context.Context, k objects.Key) (time.Duration, error) {
		j.note("%s", k.Name)
		if k.Name == "slow" {
			time.Sleep(time.Second)
		} else {
			time.Sleep(10 * time.Millisecond)
		}
		return 0, nil
	}}, func(wake reconcile.Enqueue) {
		for range 995 {
			wake(key("a"), 0)
			time.Sleep(time.Millisecond)
		}
		if n := len(j.take()); n < 45 || n > 52 {
			t.Errorf("worked %d times in a second, of 10 ms each", n)
		}
		time.Sleep(time.Second)
		expect(t, "the last news are looked at", j.take(), "[a]")
		wake(key("a"), 0)
		expect(t, "at once", j.take(), "[a]")
		time.Sleep(time.Second)
		wake(key("slow"), 0)
		synctest.Wait()
		wake(key("slow"), 0)
		time.Sleep(1021 * time.Millisecond)
		expect(t, "no longer than the limit", j.take(), "[slow slow]")
	})
}

// TestEnd: Run returns once what was begun is done, and not before.
func TestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := false
		var wake reconcile.Enqueue
		l := reconcile.Loop{
			Name:    "test",
			Sources: []reconcile.Source{func(_ context.Context, w reconcile.Enqueue) { wake = w }},
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
		wake(key("a"), 0)
		synctest.Wait()
		wake(key("b"), 0) // is not begun any more
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

// TestSources: which keys the changes of a cache wake.
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
	expect(t, "owned, by another now", owned, "map[first:6 second:6]")
	pods.Put(pod("q", "", "7"))
	expect(t, "watched", watched, "map[p:6 q:7]")
	expect(t, "owned by nobody", owned, "map[first:6 second:6]")
	pods.Drop(pod("p", "second", "6"))
	expect(t, "dropped", watched, "map[p:6 q:7]")
}
