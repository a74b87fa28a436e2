package autoscaling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
)

// decision is the number of replicas that a target gets.
type decision struct {
	replicas int32
	reason   string // of a change, for its Event
	metrics  []autoscalingv2.MetricStatus

	failed  bool   // the metrics allow no decision
	message string // of the Event about it
}

// decide decides by the bounds of the autoscaler, and between them by the metrics. It sets the conditions. With an error, some of the
// metrics failed, or all.
func (u *run) decide(ctx context.Context, s *server, scale *autoscalingv1.Scale) (decision, error) {
	b := bounds{current: scale.Spec.Replicas, minimum: 1, maximum: u.hpa.Spec.MaxReplicas}
	if u.hpa.Spec.MinReplicas != nil {
		b.minimum = *u.hpa.Spec.MinReplicas
	}
	switch {
	case b.current == 0:
		u.condition(autoscalingv2.ScalingActive, false, "ScalingDisabled", "scaling is disabled since the replica count of the target is zero")
		dropScaledToZero(&u.hpa.Status)
		return decision{}, nil
	case b.current > b.maximum:
		return decision{replicas: b.maximum, reason: "Current number of replicas above Spec.MaxReplicas"}, nil
	case b.current < b.minimum:
		return decision{replicas: b.minimum, reason: "Current number of replicas below Spec.MinReplicas"}, nil
	}
	selector, err := u.selectPods(ctx, scale.Status.Selector)
	if err != nil {
		return decision{failed: true, message: err.Error()}, err
	}
	best, metrics, err := u.greatest(ctx, &evaluation{
		hpa: u.hpa, scale: scale, selector: selector, source: s.source, now: u.now,
		pods: func() []*corev1.Pod { return u.pods.List(u.hpa.Namespace, selector) },
	})
	if best == nil {
		return decision{failed: true, message: err.Error(), metrics: metrics}, err
	}
	d := decision{replicas: u.bound(b, best.replicas), metrics: metrics}
	switch {
	case best.replicas > b.current:
		d.reason = best.metric + " above target"
	case best.replicas < b.current:
		d.reason = "All metrics below target"
	}
	return d, err
}

// greatest returns the proposal with the most replicas, and the statuses of all metrics. It returns no proposal if all metrics failed,
// or if some failed and the others would scale down.
func (u *run) greatest(ctx context.Context, e *evaluation) (best *proposal, statuses []autoscalingv2.MetricStatus, err error) {
	specs := u.hpa.Spec.Metrics
	statuses = make([]autoscalingv2.MetricStatus, len(specs))
	var first *metricError
	failed := 0
	for i := range specs {
		p, err := e.propose(ctx, &specs[i])
		if bad, ok := errors.AsType[*metricError](err); ok {
			u.warn(ctx, bad.reason, bad.err.Error())
			first = cmp.Or(first, bad)
			failed++
			continue
		}
		statuses[i] = p.status
		if best == nil || p.replicas > best.replicas {
			best = &p
		}
	}
	if failed > 0 {
		err = fmt.Errorf("invalid metrics (%v invalid out of %v), first error is: %w", failed, len(specs), first)
	}
	if best == nil || failed > 0 && best.replicas < e.scale.Spec.Replicas {
		u.condition(autoscalingv2.ScalingActive, false, first.reason, fmt.Sprintf("the HPA was unable to compute the replica count: %v", first.err))
		return nil, statuses, err
	}
	u.condition(autoscalingv2.ScalingActive, true, "ValidMetricFound", "the HPA was able to successfully calculate a replica count from "+best.metric)
	return best, statuses, err
}

// bound returns the desired replicas after stabilization and within all bounds, and sets the conditions about them.
func (u *run) bound(b bounds, desired int32) int32 {
	var stable, v boundedReplicas
	if behavior := u.hpa.Spec.Behavior; behavior == nil {
		stable = boundedReplicas{u.history.stabilize(desired, u.now), "ScaleDownStabilized",
			"recent recommendations were higher than current one, applying the highest recent recommendation"}
		v = limit(b, stable.replicas)
	} else {
		stable = u.history.stabilizeBy(rulesOf(behavior), b.current, desired, u.now)
		v = u.history.limitBy(rulesOf(behavior), b, stable.replicas, u.now)
	}
	if stable.replicas == desired {
		stable.reason, stable.message = "ReadyForNewScale", "recommended size matches current size"
	}
	u.condition(autoscalingv2.AbleToScale, true, stable.reason, stable.message)
	u.condition(autoscalingv2.ScalingLimited, v.replicas != stable.replicas, v.reason, v.message)
	return v.replicas
}

// selectPods parses the selector of the target's pods. It is an error if a pod has another autoscaler, too.
func (u *run) selectPods(ctx context.Context, text string) (labels.Selector, error) {
	fail := func(event, reason, message, condition string) (labels.Selector, error) {
		u.warn(ctx, event, message)
		u.condition(autoscalingv2.ScalingActive, false, reason, condition)
		return nil, errors.New(message)
	}
	if text == "" {
		return fail("SelectorRequired", "InvalidSelector", "selector is required", "the HPA target's scale is missing a selector")
	}
	selector, err := labels.Parse(text)
	if err != nil {
		message := fmt.Sprintf("couldn't convert selector into a corresponding internal selector object: %v", err)
		return fail("InvalidSelector", "InvalidSelector", message, message)
	}
	key := controller.KeyOf(u.hpa)
	u.mu.Lock()
	u.selector = selector
	selecting := selecting(u.states, key, u.pods.List(key.Namespace, selector))
	u.mu.Unlock()
	if len(selecting) > 1 {
		message := fmt.Sprintf("pods by selector %v are controlled by multiple HPAs: %v", text, selecting)
		return fail("AmbiguousSelector", "AmbiguousSelector", message, message)
	}
	return selector, nil
}

// selecting returns the autoscalers in key's namespace whose selectors match any of the pods, sorted.
func selecting(states map[objects.Key]*state, key objects.Key, pods []*corev1.Pod) []objects.Key {
	var out []objects.Key
	for other, st := range states {
		matches := func(p *corev1.Pod) bool { return st.selector.Matches(labels.Set(p.Labels)) }
		if other.Namespace == key.Namespace && st.selector != nil && slices.ContainsFunc(pods, matches) {
			out = append(out, other)
		}
	}
	slices.SortFunc(out, func(a, b objects.Key) int { return strings.Compare(a.String(), b.String()) })
	return out
}
