package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

func TestZoneState(t *testing.T) {
	for _, c := range []struct {
		ready, notReady int
		want            zoneState
	}{
		{0, 0, zoneNormal},
		{1, 0, zoneNormal},
		{0, 1, zoneFullDisruption},
		{0, 5, zoneFullDisruption},
		{1, 2, zoneNormal}, // two nodes are never many
		{1, 3, zonePartialDisruption},
		{9, 11, zonePartialDisruption}, // 55 %
		{10, 12, zoneNormal},
	} {
		if got := (zoneHealth{c.ready, c.notReady}).state(0.55); got != c.want {
			t.Errorf("%d ready, %d not ready: %v, want %v", c.ready, c.notReady, got, c.want)
		}
	}
}

// TestZonesUpdate: the rates follow the health of the zones.
func TestZonesUpdate(t *testing.T) {
	type health = map[string]zoneHealth
	well, few, many, large, none := zoneHealth{10, 0}, zoneHealth{8, 2}, zoneHealth{4, 6}, zoneHealth{20, 31}, zoneHealth{0, 10}
	for _, c := range []struct {
		name   string
		passes []health
		want   string // after the last pass
	}{
		{"all well", []health{{"a": well, "b": well}}, "a 0.1 b 0.1"},
		{"a few nodes", []health{{"a": few}}, "a 0.1"},
		{"many nodes", []health{{"a": well, "b": well}, {"a": many, "b": well}}, "a 0 b 0.1"},
		{"many nodes of a large zone", []health{{"a": large, "b": well}}, "a 0.01 b 0.1"},
		{"a whole zone", []health{{"a": well, "b": well}, {"a": none, "b": well}}, "a 0.1 b 0.1"},
		{"from many to all", []health{{"a": many, "b": well}, {"a": none, "b": well}}, "a 0.1 b 0.1"},
		{"all zones", []health{{"a": well, "b": well}, {"a": none, "b": none}}, "a 0 b 0 entered"},
		{"all zones from the start", []health{{"a": none}}, "a 0 entered"},
		{"all zones, still", []health{{"a": none}, {"a": none}}, "a 0"},
		{"all zones and a new one", []health{{"a": none}, {"a": none, "b": none}}, "a 0 b 0 entered"},
		{"all zones, some of one well again", []health{{"a": none, "b": none}, {"a": many, "b": none}}, "a 0 b 0.1 left"},
		{"all zones, and the last one goes", []health{{"a": none, "b": none}, {"a": none}}, "a 0"},
		{"no nodes", []health{{"a": none}, {}}, ""},
	} {
		z := newZones(controller.DefaultNodeLifecycle())
		var entered, left bool
		for i, h := range c.passes {
			entered, left = z.update(h, noon.Add(time.Duration(i)*time.Minute))
		}
		got := ""
		for _, zone := range []string{"a", "b"} {
			if l := z.limiters[zone]; l != nil {
				got += fmt.Sprintf("%s %v ", zone, l.rate)
			} else if _, ok := z.states[zone]; ok {
				got += zone + " 0.1 " // the limiter is made at the first eviction
			}
		}
		if entered {
			got += "entered "
		}
		if left {
			got += "left "
		}
		if got != c.want && got != c.want+" " {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestLimiter(t *testing.T) {
	l, now := newLimiter(0.1), noon
	check := func(what string, want bool, next time.Duration) {
		t.Helper()
		if got := l.allow(now); got != want {
			t.Errorf("%s: allowed %t, want %t", what, got, want)
		}
		if got := l.next(now); got != next {
			t.Errorf("%s: next after %v, want %v", what, got, next)
		}
	}
	check("the first", true, 10*time.Second)
	now = now.Add(4 * time.Second)
	check("after 4 s", false, 6*time.Second)
	now = now.Add(6 * time.Second)
	check("after 10 s", true, 10*time.Second)
	now = now.Add(time.Hour)
	check("after an hour", true, 10*time.Second)
	check("and one more", false, 10*time.Second)
	l.setRate(0.01, now)
	check("at a lower rate", false, 100*time.Second)
	l.setRate(0, now)
	check("stopped", false, 0)
	l.setRate(0.1, now)
	check("again", false, 10*time.Second)
	now = now.Add(10 * time.Second)
	l.setRate(1, now)
	check("at a higher rate, after a pause", true, time.Second)
}
