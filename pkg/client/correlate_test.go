package client

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/record"
	testclock "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/clock"
)

// TestCorrelatorEqualsClientGo gives the same random events to the correlator and to client-go's: few messages that are repeated, fewer than are
// combined, and messages that are never repeated. Which of more messages client-go forgets is random.
func TestCorrelatorEqualsClientGo(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		clk, src := testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), clock.NewSource(1)
		want, got := record.NewEventCorrelator(clk), newCorrelator(clk, src)
		outcomes := map[string]int{}
		for i := range 2000 {
			clk.Step(time.Nanosecond + []time.Duration{0, time.Millisecond, time.Minute, 6 * time.Minute, 11 * time.Minute}[rng.IntN(5)]/time.Duration(1+rng.IntN(100)))
			ev, stamp := randomEvent(rng, i, clk.Now())
			expected, err := want.EventCorrelate(ev.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			if expected.Event != nil {
				want.UpdateState(expected.Event)
			}
			out, patch := got.correlate(ev.DeepCopy(), stamp)
			if skipped := out == nil; skipped != expected.Skip || string(patch) != string(expected.Patch) && !skipped || !skipped && encode(t, out) != encode(t, expected.Event) {
				t.Fatalf("seed %d, event %d: got %s\n%s\nwant %s\n%s", seed, i, encode(t, out), patch, encode(t, expected.Event), expected.Patch)
			}
			switch {
			case out == nil:
				outcomes["limited"]++
			case patch != nil:
				outcomes["counted"]++
			case out.Message != ev.Message:
				outcomes["combined"]++
			}
		}
		if len(outcomes) < 3 {
			t.Fatalf("seed %d: only %v", seed, outcomes)
		}
	}
}

func encode(t *testing.T, ev *corev1.Event) string {
	t.Helper()
	b, err := json.Marshal(ev)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// randomEvent returns the i-th event, with the stamp in its name. The messages of the reason Different are all different.
func randomEvent(rng *rand.Rand, i int, now time.Time) (*corev1.Event, int64) {
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	ref := corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: pick("a", "b"), Name: pick("p", "q"), UID: "1", FieldPath: pick("", "spec"), ResourceVersion: string(uuid.NewUUID()),
	}
	reason, message := pick("Same", "Different"), pick("x", "y", "z", "")
	if reason == "Different" {
		message = fmt.Sprint(i)
	}
	stamp := now.UnixNano()
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: eventName(ref, stamp)}, InvolvedObject: ref, Reason: reason, Message: message, Count: 1,
		FirstTimestamp: metav1.NewTime(now), LastTimestamp: metav1.NewTime(now), Type: pick("Normal", "Warning"), Source: corev1.EventSource{Component: "c"},
	}, stamp
}

// TestCorrelatorForgets: the oldest of more than maxSimilar messages are forgotten, and of more than twice maxRemembered events the oldest.
func TestCorrelatorForgets(t *testing.T) {
	c := newCorrelator(clock.Real(), clock.NewSource(1))
	write := func(name, message string) *corev1.Event {
		ev, _ := c.correlate(&corev1.Event{InvolvedObject: corev1.ObjectReference{Name: name}, Message: message, Count: 1}, 1)
		return ev
	}
	for i := range maxSimilar + 1 {
		write("p", fmt.Sprint(i))
	}
	if ev := write("p", "10"); ev.Count != 1 || ev.Message != "10" {
		t.Errorf("a remembered message: %d times %q", ev.Count, ev.Message)
	}
	if ev := write("p", "0"); ev.Count != 3 || ev.Message != "(combined from similar events): 0" {
		t.Errorf("a forgotten message: %d times %q", ev.Count, ev.Message)
	}
	for i := range maxRemembered {
		write(fmt.Sprint("other", i), "m")
	}
	if ev := write("other0", "m"); ev.Count != 2 {
		t.Errorf("the oldest of %d events: count %d", maxRemembered, ev.Count)
	}
	for i := range 2 * maxRemembered {
		write(fmt.Sprint("another", i), "m")
	}
	if ev := write("other1", "m"); ev.Count != 1 {
		t.Errorf("an event before %d others: count %d", 2*maxRemembered, ev.Count)
	}
}

// TestCorrelatorClockSetBack: an object's events are written on after the clock was set back.
func TestCorrelatorClockSetBack(t *testing.T) {
	clk := testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	c := newCorrelator(clk, clock.NewSource(1))
	for range 3 {
		if ev, _ := c.correlate(&corev1.Event{Message: "m", Count: 1}, 1); ev == nil {
			t.Error("an event is not written")
		}
		clk.SetTime(clk.Now().Add(-24 * time.Hour))
	}
}
