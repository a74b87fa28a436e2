package autoscaling

import (
	"fmt"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

func TestLimit(t *testing.T) {
	for _, c := range []struct {
		name    string
		bounds  bounds
		desired int32
		want    string
	}{
		{"within", bounds{3, 1, 10}, 5, "5 DesiredWithinRange"},
		{"below the minimum", bounds{3, 2, 10}, 1, "2 TooFewReplicas"},
		{"above the maximum", bounds{3, 1, 5}, 6, "5 TooManyReplicas"},
		{"faster than double", bounds{3, 1, 10}, 8, "6 ScaleUpLimit"},
		{"four at least", bounds{1, 1, 10}, 8, "4 ScaleUpLimit"},
		{"the maximum is the rate", bounds{3, 1, 6}, 8, "6 TooManyReplicas"},
		{"many", bounds{2_000_000_000, 1, 2_147_483_647}, 2_147_483_647, "2147483647 DesiredWithinRange"},
	} {
		if v := limit(c.bounds, c.desired); fmt.Sprint(v.replicas, " ", v.reason) != c.want {
			t.Errorf("%s: got %+v, want %s", c.name, v, c.want)
		}
	}
}

// TestStabilize: without a behavior, the highest recommendation of five minutes holds.
func TestStabilize(t *testing.T) {
	h := &history{}
	for _, step := range []struct {
		after   time.Duration
		desired int32
		want    int32
	}{{0, 5, 5}, {time.Minute, 3, 5}, {2 * time.Minute, 7, 7}, {5 * time.Minute, 2, 7}, {7 * time.Minute, 2, 7}, {7*time.Minute + time.Second, 2, 2}} {
		if got := h.stabilize(step.desired, noon.Add(step.after)); got != step.want {
			t.Errorf("after %v: got %d, want %d", step.after, got, step.want)
		}
	}
	if n := len(h.recommendations); n != 3 {
		t.Errorf("%d recommendations are kept, want those of the window", n)
	}
}

// scalingRules are rules with policies, each of which is "Pods|Percent VALUE SECONDS".
func scalingRules(window int32, choose autoscalingv2.ScalingPolicySelect, policies ...string) *autoscalingv2.HPAScalingRules {
	r := &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: &window, SelectPolicy: &choose}
	for _, text := range policies {
		var p autoscalingv2.HPAScalingPolicy
		if _, err := fmt.Sscan(text, (*string)(&p.Type), &p.Value, &p.PeriodSeconds); err != nil {
			panic(err)
		}
		r.Policies = append(r.Policies, p)
	}
	return r
}

const (
	most     = autoscalingv2.MaxChangePolicySelect
	least    = autoscalingv2.MinChangePolicySelect
	disabled = autoscalingv2.DisabledPolicySelect
)

// TestPolicies follows the examples of the documentation.
func TestPolicies(t *testing.T) {
	ago := func(d time.Duration, n int32) scaling { return scaling{n, noon.Add(-d)} }
	for _, c := range []struct {
		name    string
		up      *autoscalingv2.HPAScalingRules
		down    *autoscalingv2.HPAScalingRules
		history history
		current int32
		desired int32
		want    string
	}{
		{name: "the default scales up by 4 or 100 %", up: scalingRules(0, most, "Pods 4 15", "Percent 100 15"), current: 2, desired: 50, want: "6 ScaleUpLimit"},
		{name: "whichever is more", up: scalingRules(0, most, "Pods 4 15", "Percent 100 15"), current: 10, desired: 50, want: "20 ScaleUpLimit"},
		{name: "or less", up: scalingRules(0, least, "Pods 4 15", "Percent 100 15"), current: 10, desired: 50, want: "14 ScaleUpLimit"},
		{name: "a percentage rounds up", up: scalingRules(0, most, "Percent 10 60"), current: 3, desired: 50, want: "4 ScaleUpLimit"},
		{name: "changes of the period count", up: scalingRules(0, most, "Pods 4 60"), history: history{ups: []scaling{ago(30*time.Second, 3)}}, current: 5, desired: 50, want: "6 ScaleUpLimit"},
		{name: "not those before", up: scalingRules(0, most, "Pods 4 60"), history: history{ups: []scaling{ago(60*time.Second, 3)}}, current: 5, desired: 50, want: "9 ScaleUpLimit"},
		{name: "more than the policy was added", up: scalingRules(0, most, "Pods 4 60"), history: history{ups: []scaling{ago(time.Second, 9)}}, current: 10, desired: 50, want: "10 ScaleUpLimit"},
		{name: "what was removed may come back", up: scalingRules(0, most, "Pods 1 60"), history: history{downs: []scaling{ago(time.Second, 5)}}, current: 5, desired: 50, want: "11 ScaleUpLimit"},
		{name: "up is disabled", up: scalingRules(0, disabled, "Pods 4 60"), current: 5, desired: 50, want: "5 ScaleUpLimit"},
		{name: "above the maximum", up: scalingRules(0, most, "Percent 900 15"), current: 50, desired: 500, want: "100 TooManyReplicas"},
		{name: "a policy without bound", up: scalingRules(0, most, "Pods 2147483647 15"), current: 50, desired: 90, want: "90 DesiredWithinRange"},
		{name: "down by 10 %", down: scalingRules(0, most, "Percent 10 60"), current: 80, desired: 10, want: "72 ScaleDownLimit"},
		{name: "or 4, whichever is more", down: scalingRules(0, most, "Pods 4 60", "Percent 10 60"), current: 30, desired: 10, want: "26 ScaleDownLimit"},
		{name: "or less ", down: scalingRules(0, least, "Pods 5 60", "Percent 10 60"), current: 30, desired: 10, want: "27 ScaleDownLimit"},
		{name: "changes of the period count on the way down", down: scalingRules(0, most, "Pods 4 60"), history: history{downs: []scaling{ago(time.Second, 3)}}, current: 30, desired: 10, want: "29 ScaleDownLimit"},
		{name: "down is disabled", down: scalingRules(0, disabled, "Percent 10 60"), current: 30, desired: 10, want: "30 ScaleDownLimit"},
		{name: "below the minimum", down: scalingRules(0, most, "Percent 100 15"), current: 30, desired: 1, want: "2 TooFewReplicas"},
		{name: "no change", current: 30, desired: 30, want: "30 DesiredWithinRange"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := c.history.limitBy(rules{c.up, c.down}, bounds{c.current, 2, 100}, c.desired, noon)
			if got := fmt.Sprint(v.replicas, " ", v.reason); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestStabilizeBy: the windows of a behavior delay changes in both directions.
func TestStabilizeBy(t *testing.T) {
	r := rules{scalingRules(60, most), scalingRules(300, most)}
	for _, c := range []struct {
		name    string
		old     []int32 // recommendations 30 s ago, 90 s ago, 400 s ago
		current int32
		desired int32
		want    string
	}{
		{"up at once without history", nil, 2, 5, "5 ScaleUpStabilized"},
		{"up to the lowest of a minute", []int32{3, 1, 1}, 2, 5, "3 ScaleUpStabilized"},
		{"down to the highest of five minutes", []int32{3, 4, 9}, 5, 1, "4 ScaleDownStabilized"},
		{"neither", []int32{5, 5, 5}, 5, 5, "5 ScaleUpStabilized"},
		{"not up while it was low", []int32{1, 1, 1}, 2, 5, "2 ScaleUpStabilized"},
	} {
		h := &history{}
		for i, age := range []time.Duration{30 * time.Second, 90 * time.Second, 400 * time.Second} {
			if i < len(c.old) {
				h.recommendations = append(h.recommendations, recommendation{c.old[i], noon.Add(-age)})
			}
		}
		if v := h.stabilizeBy(r, c.current, c.desired, noon); fmt.Sprint(v.replicas, " ", v.reason) != c.want {
			t.Errorf("%s: got %+v, want %s", c.name, v, c.want)
		}
	}
	if up, down := (rules{&autoscalingv2.HPAScalingRules{}, &autoscalingv2.HPAScalingRules{}}).windows(); up != 0 || down != downscaleStabilization {
		t.Errorf("default windows: %v, %v", up, down)
	}
}

// TestScaled: changes are kept as long as a policy counts them.
func TestScaled(t *testing.T) {
	r := rules{scalingRules(0, most, "Pods 4 60"), scalingRules(0, most, "Pods 4 120")}
	h := &history{}
	h.scaled(r, 1, 5, noon)
	h.scaled(r, 5, 2, noon.Add(time.Minute))
	h.scaled(r, 2, 3, noon.Add(2*time.Minute+time.Second))
	want := history{ups: []scaling{{1, noon.Add(2*time.Minute + time.Second)}}, downs: []scaling{{3, noon.Add(time.Minute)}}}
	if fmt.Sprint(*h) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", *h, want)
	}
}
