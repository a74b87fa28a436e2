package kubelet

import (
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	now := time.Unix(1000, 0)
	var b backoff
	if got := b.until(now, now); got != 0 {
		t.Errorf("the first end waits %v", got)
	}
	for i, want := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
		want *= time.Second
		b = b.next(now, now)
		now = now.Add(time.Second) // the container ran for a second
		if got := b.until(now, now); got != want {
			t.Errorf("end %d: waits %v, want %v", i+1, got, want)
		}
		if got := b.until(now, now.Add(want-time.Second)); got != time.Second {
			t.Errorf("end %d: a second before its time it waits %v", i+1, got)
		}
		if got := b.until(now, now.Add(want)); got != 0 {
			t.Errorf("end %d: at its time it waits %v", i+1, got)
		}
		now = now.Add(want)
	}
	now = now.Add(resetAfter + time.Second) // the container ran for long
	if got := b.until(now, now); got != 0 {
		t.Errorf("an end after a long run waits %v", got)
	}
	if b = b.next(now, now); b.pause != firstPause {
		t.Errorf("after a long run the pauses begin at %v, want %v", b.pause, firstPause)
	}
}
