package httpapi

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestReplays starts watches of two users, of which two of each, and three in all, may read at a time.
func TestReplays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplays(3, 2)
		reading := map[string]int{}
		leave := map[string]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{})}
		start := func(user string) {
			go func() {
				done, err := r.enter(t.Context(), user)
				if err != nil {
					return
				}
				reading[user]++
				<-leave[user]
				reading[user]--
				done()
			}()
			synctest.Wait()
		}
		want := func(when string, a, b int) {
			t.Helper()
			synctest.Wait()
			if reading["a"] != a || reading["b"] != b {
				t.Errorf("%s: %v read, want %d and %d", when, reading, a, b)
			}
		}
		for range 4 {
			start("a")
		}
		want("four of a", 2, 0)
		start("b")
		start("b")
		want("and two of b", 2, 1)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.enter(ended, "a"); !errors.Is(err, context.Canceled) {
			t.Errorf("a watch that has ended: got error %v", err)
		}
		leave["a"] <- struct{}{}
		want("one of a has left: b waits for longer than a's next", 1, 2)
		leave["b"] <- struct{}{}
		want("one of b has left", 2, 1)
		for range 3 {
			leave["a"] <- struct{}{}
			synctest.Wait()
		}
		leave["b"] <- struct{}{}
		want("all have left", 0, 0)
		if len(r.users) > 0 {
			t.Errorf("users without watches are kept: %v", r.users)
		}
	})
}
