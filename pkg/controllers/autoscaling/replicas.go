package autoscaling

import (
	"errors"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	resourcehelpers "k8s.io/component-helpers/resource"

	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

const (
	// cpuInitializationPeriod is how long after its start a pod may use more CPU than later.
	cpuInitializationPeriod = 5 * time.Minute
	// initialReadinessDelay is how soon after its start a pod's first change of readiness counts as its initial one.
	initialReadinessDelay = 30 * time.Second
)

// sample is the value of a metric of one pod, in thousandths.
type sample struct {
	at     time.Time
	window time.Duration
	value  int64
}

// samples are the values of a metric by the names of pods.
type samples map[string]sample

// tolerances are the deviations from a usage ratio of 1 that cause no scaling.
type tolerances struct{ down, up float64 }

func (t tolerances) within(ratio float64) bool { return 1-t.down <= ratio && ratio <= 1+t.up }

// usage is what pods use compared with a target.
type usage struct {
	ratio       float64
	utilization int32 // percent of the requests; 0 for a target that is no utilization
	average     int64 // per pod, in thousandths
}

// podTarget is the target of a metric that each pod has.
type podTarget interface {
	// measure compares the values with the target.
	measure(samples) (usage, error)
	// assumed returns the value of a pod without a metric when the others use less than the target.
	assumed(pod string) int64
}

// utilizationTarget is a percentage of the pods' requests.
type utilizationTarget struct {
	percent  int32
	requests map[string]int64 // by pod, in thousandths
}

func (t utilizationTarget) measure(of samples) (usage, error) {
	var used, requested, pods int64
	for name, s := range of {
		request, ok := t.requests[name]
		if !ok {
			continue // the pod no longer exists
		}
		used, requested, pods = used+s.value, requested+request, pods+1
	}
	if requested == 0 {
		return usage{}, errors.New("no metrics returned matched known pods")
	}
	percent := int32(used * 100 / requested)
	return usage{float64(percent) / float64(t.percent), percent, used / pods}, nil
}

func (t utilizationTarget) assumed(pod string) int64 {
	return t.requests[pod] * int64(max(100, t.percent)) / 100
}

// averageTarget is a value per pod, in thousandths.
type averageTarget int64

func (t averageTarget) measure(of samples) (usage, error) {
	var used int64
	for _, s := range of {
		used += s.value
	}
	average := used / int64(len(of))
	return usage{ratio: float64(average) / float64(t), average: average}, nil
}

func (t averageTarget) assumed(string) int64 { return int64(t) }

// podMetric is a metric that each pod has, with all that decides how many replicas it requires.
type podMetric struct {
	resource   corev1.ResourceName // "" for a metric that is no resource
	replicas   int32               // of the scale's spec
	pods       []*corev1.Pod
	samples    samples
	tolerances tolerances
	now        time.Time
	target     func() (podTarget, error)
}

// desired returns the number of replicas that the metric requires, and the usage of the pods with a metric. Pods without one are
// assumed to use what makes the change smallest, and so are unready pods when the others use more than the target.
func (m podMetric) desired() (int32, usage, error) {
	if len(m.pods) == 0 {
		return 0, usage{}, errors.New("no pods returned by selector while calculating replica count")
	}
	groups := groupPods(m.pods, m.samples, m.resource, m.now)
	counted := make(samples, len(m.samples))
	for name, s := range m.samples {
		if !groups.ignored.Has(name) && !groups.unready.Has(name) {
			counted[name] = s
		}
	}
	if len(counted) == 0 {
		return 0, usage{}, errors.New("did not receive metrics for targeted pods (pods might be unready)")
	}
	target, err := m.target()
	if err != nil {
		return 0, usage{}, err
	}
	seen, err := target.measure(counted)
	if err != nil {
		return 0, usage{}, err
	}
	withUnready := len(groups.unready) > 0 && seen.ratio > 1
	if !withUnready && len(groups.missing) == 0 {
		if m.tolerances.within(seen.ratio) {
			return m.replicas, seen, nil
		}
		return ceil(seen.ratio * float64(groups.ready)), seen, nil
	}
	assume(counted, groups, target, seen.ratio)
	rest, err := target.measure(counted)
	if err != nil {
		return 0, seen, err
	}
	return m.withAssumed(seen.ratio, rest.ratio, len(counted)), seen, nil
}

// assume adds values for the pods without a metric and for unready pods.
func assume(counted samples, groups podGroups, target podTarget, ratio float64) {
	for name := range groups.missing {
		switch {
		case ratio < 1:
			counted[name] = sample{value: target.assumed(name)}
		case ratio > 1:
			counted[name] = sample{}
		}
	}
	if ratio > 1 {
		for name := range groups.unready {
			counted[name] = sample{}
		}
	}
}

// withAssumed returns the replicas for assumed, the ratio of n pods with assumed values among them. They are the current ones if the assumed
// values reverse the direction of the change that follows from seen, the ratio without them.
func (m podMetric) withAssumed(seen, assumed float64, n int) int32 {
	if m.tolerances.within(assumed) || seen < 1 && assumed > 1 || seen > 1 && assumed < 1 {
		return m.replicas
	}
	next := ceil(assumed * float64(n))
	if assumed < 1 && next > m.replicas || assumed > 1 && next < m.replicas {
		return m.replicas
	}
	return next
}

// ceil returns the least number of replicas that is not below f.
func ceil(f float64) int32 {
	if f > math.MaxInt32 {
		return math.MaxInt32
	}
	return int32(math.Ceil(f))
}

// podGroups sorts pods by what is known of their metric.
type podGroups struct {
	ready   int              // with a metric that counts
	unready sets.Set[string] // their metric does not count yet
	missing sets.Set[string] // without a metric
	ignored sets.Set[string] // ending or failed
}

func groupPods(pods []*corev1.Pod, of samples, resource corev1.ResourceName, now time.Time) podGroups {
	g := podGroups{unready: sets.New[string](), missing: sets.New[string](), ignored: sets.New[string]()}
	for _, p := range pods {
		s, found := of[p.Name]
		switch {
		case p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodFailed:
			g.ignored.Insert(p.Name)
		case p.Status.Phase == corev1.PodPending:
			g.unready.Insert(p.Name)
		case !found:
			g.missing.Insert(p.Name)
		case resource == corev1.ResourceCPU && !cpuCounts(p, s, now):
			g.unready.Insert(p.Name)
		default:
			g.ready++
		}
	}
	return g
}

// cpuCounts reports whether the CPU usage of a pod is that of its normal work. Within cpuInitializationPeriod the pod must be ready,
// with a window that began after it became so. Later, only pods that have never been ready don't count.
func cpuCounts(p *corev1.Pod, s sample, now time.Time) bool {
	ready := controller.PodCondition(p, corev1.PodReady)
	if ready == nil || p.Status.StartTime == nil {
		return false
	}
	changed := ready.LastTransitionTime.Time
	if p.Status.StartTime.Add(cpuInitializationPeriod).After(now) {
		return ready.Status != corev1.ConditionFalse && !s.at.Before(changed.Add(s.window))
	}
	return ready.Status != corev1.ConditionFalse || !p.Status.StartTime.Add(initialReadinessDelay).After(changed)
}

// requestsOf returns the requests of pods by their names, in thousandths: those of one container, or with container "" those of the
// whole pods.
func requestsOf(pods []*corev1.Pod, container string, resource corev1.ResourceName) (map[string]int64, error) {
	out := make(map[string]int64, len(pods))
	for _, p := range pods {
		request, err := requestOf(p, container, resource)
		if err != nil {
			return nil, err
		}
		out[p.Name] = request
	}
	return out, nil
}

func requestOf(p *corev1.Pod, container string, resource corev1.ResourceName) (int64, error) {
	if container == "" && resourcehelpers.IsPodLevelRequestsSet(p) {
		q, ok := resourcehelpers.PodRequests(p, resourcehelpers.PodResourcesOptions{})[resource]
		if !ok {
			return 0, fmt.Errorf("missing pod-level request for %s in Pod %s", resource, p.Name)
		}
		return q.MilliValue(), nil
	}
	var sum int64
	found := false
	for _, c := range longRunning(p) {
		if container != "" && container != c.Name {
			continue
		}
		q, ok := c.Resources.Requests[resource]
		if !ok {
			return 0, fmt.Errorf("missing request for %s in container %s of Pod %s", resource, c.Name, p.Name)
		}
		sum += q.MilliValue()
		found = true
	}
	if container != "" && !found {
		return 0, fmt.Errorf("container %s not found in Pod %s", container, p.Name)
	}
	return sum, nil
}

// longRunning returns the containers that run as long as the pod: those of the app and the sidecars.
func longRunning(p *corev1.Pod) []corev1.Container {
	out := append([]corev1.Container(nil), p.Spec.Containers...)
	for _, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			out = append(out, c)
		}
	}
	return out
}
