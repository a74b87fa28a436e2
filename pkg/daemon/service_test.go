package daemon

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// serviceLog records the steps of the services of a test.
type serviceLog struct {
	mu    sync.Mutex
	lines []string
}

func (s *serviceLog) add(line string) {
	s.mu.Lock()
	s.lines = append(s.lines, line)
	s.mu.Unlock()
}

// service returns a service that ends a second after its context.
func (s *serviceLog) service(name string, ready <-chan struct{}) service {
	return service{name: name, ready: ready, run: func(ctx context.Context) error {
		s.add(name + " starts")
		<-ctx.Done()
		time.Sleep(time.Second)
		s.add(name + " has ended")
		return ctx.Err()
	}}
}

func (s *serviceLog) want(t *testing.T, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.lines, want) {
		t.Errorf("got  %q\nwant %q", s.lines, want)
	}
}

func TestSuperviseOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s serviceLog
		ready := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- supervise(ctx, []service{s.service("a", ready), s.service("b", nil)}, func() error { s.add("all started"); return nil })
		}()
		synctest.Wait()
		s.want(t, "a starts") // b waits for it
		close(ready)
		synctest.Wait()
		slices.Sort(s.lines[1:]) // b starts concurrently with the call of started
		s.want(t, "a starts", "all started", "b starts")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		s.want(t, "a starts", "all started", "b starts", "b has ended", "a has ended")
	})
}

func TestSuperviseEarlyEnd(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name string
		err  error
		want string
	}{{"with an error", broken, "b: broken"}, {"without", nil, "b: ended by itself"}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s serviceLog
				b := service{name: "b", run: func(context.Context) error { time.Sleep(time.Minute); return c.err }}
				err := supervise(t.Context(), []service{s.service("a", nil), b, s.service("c", nil)}, func() error { return nil })
				if err == nil || err.Error() != c.want || c.err != nil && !errors.Is(err, c.err) {
					t.Errorf("got %v, want %s", err, c.want)
				}
				slices.Sort(s.lines[:2])
				s.want(t, "a starts", "c starts", "c has ended", "a has ended")
			})
		})
	}
}

// TestSuperviseEndBeforeReady checks that a start ends when a service ends before it is ready.
func TestSuperviseEndBeforeReady(t *testing.T) {
	fails := func(context.Context) error { time.Sleep(time.Second); return errors.New("port taken") }
	for _, c := range []struct {
		name     string
		services func(s *serviceLog, never chan struct{}) []service
		want     string
	}{
		{"by itself", func(s *serviceLog, never chan struct{}) []service {
			return []service{{name: "a", run: fails, ready: never}, s.service("b", nil)}
		}, ""},
		{"because of one before it", func(s *serviceLog, never chan struct{}) []service {
			return []service{{name: "a", run: fails}, s.service("b", never), s.service("c", nil)}
		}, "b starts, b has ended"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s serviceLog
				err := supervise(t.Context(), c.services(&s, make(chan struct{})), func() error { s.add("all started"); return nil })
				if err == nil || err.Error() != "a: port taken" {
					t.Errorf("got %v", err)
				}
				if got := strings.Join(s.lines, ", "); got != c.want {
					t.Errorf("got %q, want %q", got, c.want)
				}
			})
		})
	}
}

func TestSuperviseContextEndsWhileStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s serviceLog
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := supervise(ctx, []service{s.service("a", make(chan struct{})), s.service("b", nil)}, func() error { s.add("all started"); return nil })
		if err != nil {
			t.Error(err)
		}
		s.want(t, "a starts", "a has ended")
	})
}

func TestSuperviseStartedFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s serviceLog
		full := errors.New("disk full")
		if err := supervise(t.Context(), []service{s.service("a", nil)}, func() error { return full }); !errors.Is(err, full) {
			t.Errorf("got %v", err)
		}
		s.want(t, "a starts", "a has ended")
	})
}

func TestSuperviseDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s serviceLog
		release := make(chan struct{})
		stuck := service{name: "stuck", run: func(context.Context) error { <-release; return nil }}
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		err := supervise(ctx, []service{s.service("a", nil), stuck}, func() error { cancel(); return nil })
		if err == nil || err.Error() != "stuck: did not end within 10s" {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took != stopTimeout+time.Second {
			t.Errorf("took %s", took)
		}
		s.want(t, "a starts", "a has ended")
		close(release)
	})
}

func TestSuperviseErrorAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := service{name: "a", run: func(ctx context.Context) error { <-ctx.Done(); return errors.New("not flushed") }}
		ctx, cancel := context.WithCancel(t.Context())
		if err := supervise(ctx, []service{a}, func() error { cancel(); return nil }); err == nil || err.Error() != "a: not flushed" {
			t.Errorf("got %v", err)
		}
	})
}
