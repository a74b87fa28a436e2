package autoscaling

import (
	"cmp"
	"math"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

const (
	// downscaleStabilization is the window of recommendations that delay scaling down.
	downscaleStabilization = 5 * time.Minute

	// Without a behavior, one sync scales up at most to the greater of these.
	scaleUpFactor  = 2
	scaleUpMinimum = 4
)

// recommendation is the number of replicas that metrics required at a time.
type recommendation struct {
	replicas int32
	at       time.Time
}

// scaling is a change of the number of replicas.
type scaling struct {
	change int32 // without its sign
	at     time.Time
}

// history is what an autoscaler has recommended and done.
type history struct {
	recommendations []recommendation
	ups, downs      []scaling
}

// bounds are the replicas that a decision lies between.
type bounds struct{ current, minimum, maximum int32 }

// boundedReplicas is a number of replicas within bounds, with the reason and the message of the condition that explains it.
type boundedReplicas struct {
	replicas        int32
	reason, message string
}

var withinRange = [2]string{"DesiredWithinRange", "the desired count is within the acceptable range"}

// recommend adds a recommendation and drops those that are older than every window.
func (h *history) recommend(replicas int32, longest time.Duration, now time.Time) {
	kept := h.recommendations[:0]
	for _, r := range h.recommendations {
		if !r.at.Before(now.Add(-longest)) {
			kept = append(kept, r)
		}
	}
	h.recommendations = append(kept, recommendation{replicas, now})
}

// stabilize returns the highest recommendation of the window, desired included, and records desired.
func (h *history) stabilize(desired int32, now time.Time) int32 {
	highest := desired
	for _, r := range h.recommendations {
		if !r.at.Before(now.Add(-downscaleStabilization)) {
			highest = max(highest, r.replicas)
		}
	}
	h.recommend(desired, downscaleStabilization, now)
	return highest
}

// limit bounds the desired replicas of an autoscaler without a behavior.
func limit(b bounds, desired int32) boundedReplicas {
	// Without the rate, one wrong measurement could scale up to the maximum.
	fastest := max(scaleUpFactor*int64(b.current), scaleUpMinimum)
	highest := boundedReplicas{b.maximum, "TooManyReplicas", "the desired replica count is more than the maximum replica count"}
	if int64(b.maximum) > fastest {
		highest = boundedReplicas{int32(fastest), "ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate"}
	}
	switch {
	case desired < b.minimum:
		return boundedReplicas{b.minimum, "TooFewReplicas", "the desired replica count is less than the minimum replica count"}
	case desired > highest.replicas:
		return highest
	}
	return boundedReplicas{desired, withinRange[0], withinRange[1]}
}

// rules are a behavior with all defaults.
type rules struct {
	up, down *autoscalingv2.HPAScalingRules
}

// windows returns the stabilization windows.
func (r rules) windows() (up, down time.Duration) {
	down = downscaleStabilization
	if s := r.down.StabilizationWindowSeconds; s != nil {
		down = time.Duration(*s) * time.Second
	}
	if s := r.up.StabilizationWindowSeconds; s != nil {
		up = time.Duration(*s) * time.Second
	}
	return up, down
}

// stabilizeBy returns the current replicas, moved as far as needed to lie between the lowest recommendation of the window for scaling
// up and the highest of that for scaling down. It records desired.
func (h *history) stabilizeBy(r rules, current, desired int32, now time.Time) boundedReplicas {
	up, down := r.windows()
	lowest, highest := desired, desired
	for _, old := range h.recommendations {
		if old.at.After(now.Add(-up)) {
			lowest = min(lowest, old.replicas)
		}
		if old.at.After(now.Add(-down)) {
			highest = max(highest, old.replicas)
		}
	}
	h.recommend(desired, max(up, down), now)
	stable := min(max(current, lowest), highest)
	if desired >= current {
		return boundedReplicas{stable, "ScaleUpStabilized", "recent recommendations were lower than current one, applying the lowest recent recommendation"}
	}
	return boundedReplicas{stable, "ScaleDownStabilized", "recent recommendations were higher than current one, applying the highest recent recommendation"}
}

// limitBy bounds the desired replicas by the policies of a behavior.
func (h *history) limitBy(r rules, b bounds, desired int32, now time.Time) boundedReplicas {
	switch {
	case desired > b.current:
		highest := boundedReplicas{b.maximum, "TooManyReplicas", "the desired replica count is more than the maximum replica count"}
		if rate := max(h.scaleUpLimit(r.up, b.current, now), b.current); b.maximum > rate {
			highest = boundedReplicas{rate, "ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate"}
		}
		if desired > highest.replicas {
			return highest
		}
	case desired < b.current:
		lowest := boundedReplicas{b.minimum, "TooFewReplicas", "the desired replica count is less than the minimum replica count"}
		if rate := min(h.scaleDownLimit(r.down, b.current, now), b.current); b.minimum < rate {
			lowest = boundedReplicas{rate, "ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate"}
		}
		if desired < lowest.replicas {
			return lowest
		}
	}
	return boundedReplicas{desired, withinRange[0], withinRange[1]}
}

// scaleUpLimit returns the most replicas that the policies allow now.
func (h *history) scaleUpLimit(r *autoscalingv2.HPAScalingRules, current int32, now time.Time) int32 {
	result, choose := int32(math.MinInt32), func(a, b int32) int32 { return max(a, b) }
	switch selectPolicy(r) {
	case autoscalingv2.DisabledPolicySelect:
		return current
	case autoscalingv2.MinChangePolicySelect:
		result, choose = math.MaxInt32, func(a, b int32) int32 { return min(a, b) }
	}
	for _, p := range r.Policies {
		start := h.periodStart(p.PeriodSeconds, current, now)
		proposed := ceil(float64(start) + float64(p.Value))
		if p.Type == autoscalingv2.PercentScalingPolicy {
			proposed = ceil(float64(start) * (1 + float64(p.Value)/100)) // rounded up, or few replicas would never become more
		}
		result = choose(result, proposed)
	}
	return result
}

// scaleDownLimit returns the fewest replicas that the policies allow now.
func (h *history) scaleDownLimit(r *autoscalingv2.HPAScalingRules, current int32, now time.Time) int32 {
	result, choose := int32(math.MaxInt32), func(a, b int32) int32 { return min(a, b) }
	switch selectPolicy(r) {
	case autoscalingv2.DisabledPolicySelect:
		return current
	case autoscalingv2.MinChangePolicySelect:
		result, choose = math.MinInt32, func(a, b int32) int32 { return max(a, b) }
	}
	for _, p := range r.Policies {
		start := h.periodStart(p.PeriodSeconds, current, now)
		proposed := start - p.Value
		if p.Type == autoscalingv2.PercentScalingPolicy {
			proposed = int32(float64(start) * (1 - float64(p.Value)/100))
		}
		result = choose(result, proposed)
	}
	return result
}

func selectPolicy(r *autoscalingv2.HPAScalingRules) autoscalingv2.ScalingPolicySelect {
	if r.SelectPolicy == nil {
		return autoscalingv2.MaxChangePolicySelect
	}
	return *r.SelectPolicy
}

// periodStart returns the replicas at the start of a policy's period.
func (h *history) periodStart(seconds, current int32, now time.Time) int32 {
	since := now.Add(-time.Duration(seconds) * time.Second)
	return current - changed(h.ups, since) + changed(h.downs, since)
}

func changed(all []scaling, since time.Time) int32 {
	var n int32
	for _, s := range all {
		if s.at.After(since) {
			n += s.change
		}
	}
	return n
}

// scaled records a change from one number of replicas to another, and drops changes that no policy counts any more.
func (h *history) scaled(r rules, from, to int32, now time.Time) {
	var longest int32
	for _, p := range slices.Concat(r.up.Policies, r.down.Policies) {
		longest = max(longest, p.PeriodSeconds)
	}
	since := now.Add(-time.Duration(longest) * time.Second)
	old := func(s scaling) bool { return s.at.Before(since) }
	h.ups, h.downs = slices.DeleteFunc(h.ups, old), slices.DeleteFunc(h.downs, old)
	if to > from {
		h.ups = append(h.ups, scaling{to - from, now})
	} else {
		h.downs = append(h.downs, scaling{from - to, now})
	}
}

// rulesOf returns the rules of a behavior. The API server's defaults have set both.
func rulesOf(b *autoscalingv2.HorizontalPodAutoscalerBehavior) rules {
	none := &autoscalingv2.HPAScalingRules{}
	return rules{cmp.Or(b.ScaleUp, none), cmp.Or(b.ScaleDown, none)}
}
