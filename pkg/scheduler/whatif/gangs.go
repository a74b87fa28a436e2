package whatif

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/feature"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// gangFeatures are the feature gates of runs with PodGroups.
var gangFeatures = feature.Gates{GenericWorkload: true, GangScheduling: true}

// gangs holds the gangs of a run and their results. Those of scheduling.x-k8s.io become PodGroups of Kubernetes' API for the pods whose profile has
// the plugin Coscheduling, so that the engine schedules both kinds in the same way. Other pods with such a group are scheduled each by itself.
type gangs struct {
	labels  labelReaders
	need    map[objects.Key]int // the minimum of each PodGroup that is a gang
	present map[objects.Key]*gangRecord
	records []*gangRecord // in the order of their arrival
}

// gangRecord is the state of a gang from the arrival of its first pod until the last one is gone.
type gangRecord struct {
	need, pods, bound   int
	complete, scheduled time.Time // when as many pods as it needs had arrived, and were bound; zero: they are not
	measured            bool      // it counts in the figures
	ran                 bool      // it ran before the run, and was not evicted
	evicted             bool      // all of its pods were evicted. They arrive again as another gang
}

func newGangs(q scheduler.Simulation) *gangs {
	return &gangs{labels: newLabelReaders(q), need: map[objects.Key]int{}, present: map[objects.Key]*gangRecord{}}
}

// inPodGroups returns the simulation with its PodGroups in the API of Kubernetes.
func (g *gangs) inPodGroups(q scheduler.Simulation) scheduler.Simulation {
	given := q.Objects
	q.Objects = maps.Clone(given)
	for _, of := range []framework.EventResource{framework.PodGroup, labelledGroups} {
		for _, obj := range given[of] {
			group := g.add(obj)
			if group != nil {
				q.Features.GenericWorkload, q.Features.GangScheduling = true, true
			}
			if group != nil && group != obj {
				q.Objects[framework.PodGroup] = append(slices.Clip(q.Objects[framework.PodGroup]), group)
			}
		}
	}
	pods := q.Pods
	q.Pods = make([]*corev1.Pod, len(pods))
	for i, pod := range pods {
		copied := *pod
		g.join(&copied)
		q.Pods[i] = &copied
	}
	return q
}

// add adds or replaces a PodGroup, and returns it in the API of Kubernetes; nil if no profile schedules its pods as a group.
func (g *gangs) add(obj objects.Object) objects.Object {
	of, need, isGang := minimumOf(obj)
	if isGang {
		g.need[of.podGroup()] = need
	}
	switch {
	case !of.labelled:
		return obj
	case len(g.labels) == 0:
		return nil
	}
	key := of.podGroup()
	group := &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	group.Spec.SchedulingPolicy.Gang = &schedulingv1alpha2.GangSchedulingPolicy{MinCount: int32(need)}
	return group
}

// podGroup returns the key of the group's PodGroup in the API of Kubernetes, where no other has the name of one that was labelled.
func (g group) podGroup() objects.Key {
	if g.labelled {
		return objects.Key{Namespace: g.Namespace, Name: "scheduling.x-k8s.io/" + g.Name}
	}
	return g.Key
}

// join makes a pod with the label of a known gang a member of its PodGroup, if its profile reads the label.
func (g *gangs) join(pod *corev1.Pod) {
	of, grouped := groupOf(pod)
	key := of.podGroup()
	if _, known := g.need[key]; grouped && of.labelled && known && g.labels.has(pod) {
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &key.Name}
	}
}

// recordOf returns the record of a pod's gang, nil if it has none.
func (g *gangs) recordOf(pod *corev1.Pod) *gangRecord {
	of, grouped := groupOf(pod)
	key := of.podGroup()
	need, isGang := g.need[key]
	if !grouped || !isGang {
		return nil
	}
	r := g.present[key]
	if r == nil {
		r = &gangRecord{need: need}
		g.present[key] = r
		g.records = append(g.records, r)
	}
	return r
}

// ran records a pod that was bound before the run.
func (g *gangs) ran(pod *corev1.Pod, now time.Time) {
	if r := g.recordOf(pod); r != nil {
		r.pods++
		r.bound++
		r.ran = r.bound >= r.need
		r.update(now)
	}
}

// arrived records a pod that arrives.
func (g *gangs) arrived(pod *corev1.Pod, measured bool, now time.Time) {
	r := g.recordOf(pod)
	if r == nil {
		return
	}
	r.pods++
	if pod.Spec.NodeName != "" {
		r.bound++
	}
	r.measured = r.measured || measured
	r.update(now)
}

// bound records that a pod was bound.
func (g *gangs) bound(pod *corev1.Pod, measured bool, now time.Time) {
	if r := g.recordOf(pod); r != nil {
		r.bound++
		r.measured = r.measured || measured
		r.update(now)
	}
}

// update sets the times that a gang reaches now.
func (r *gangRecord) update(now time.Time) {
	if r.pods >= r.need && r.complete.IsZero() {
		r.complete = now
	}
	if r.bound >= r.need && r.scheduled.IsZero() {
		r.scheduled = now
	}
}

// left records that a pod was deleted, or evicted. A gang that has fewer bound pods than it needs because of an eviction has to be scheduled again; one
// whose pods were deleted counts as scheduled.
func (g *gangs) left(pod *corev1.Pod, bound, evicted bool, now time.Time) {
	r := g.recordOf(pod)
	if r == nil {
		return
	}
	r.pods--
	if bound {
		r.bound--
	}
	if evicted && r.bound < r.need {
		r.ran, r.complete, r.scheduled = false, time.Time{}, time.Time{}
		r.update(now)
	}
	if r.pods == 0 {
		r.evicted = evicted
		of, _ := groupOf(pod)
		delete(g.present, of.podGroup())
	}
}

// counts returns the number of gangs that have pods now: those that run, and those that wait.
func (g *gangs) counts() (running, pending int) {
	for _, r := range g.present {
		if r.scheduled.IsZero() {
			pending++
		} else {
			running++
		}
	}
	return running, pending
}

// GangFigures are the figures of gangs: groups of pods of which a minimum number is scheduled together or not at all.
type GangFigures struct {
	// Placed and Pending are the gangs that had the pods they need bound, and had not, at the end or when their pods left. Gangs that ran before count
	// once pods of them are evicted.
	Placed  int `json:"placed"`
	Pending int `json:"pending"`
	// Wait and WaitP99 are the virtual time, in seconds, from the arrival of the last pod that a gang needs to the binding of as many pods as it needs: the
	// mean and the 99th percentile of the gangs that were scheduled.
	Wait    float64 `json:"wait"`
	WaitP99 float64 `json:"waitP99"`
}

// figures returns the figures of the gangs, nil if there are none. all is true if figures were collected all the time.
func (g *gangs) figures(all bool) *GangFigures {
	out := &GangFigures{}
	var waits []float64
	for _, r := range g.records {
		switch {
		case r.ran || r.evicted || !all && !r.measured:
		case r.scheduled.IsZero():
			out.Pending++
		default:
			out.Placed++
			waits = append(waits, r.scheduled.Sub(r.complete).Seconds())
		}
	}
	if out.Placed+out.Pending == 0 {
		return nil
	}
	out.Wait, out.WaitP99 = meanAndP99(waits)
	return out
}

// meanAndP99 returns the mean and the 99th percentile of values, which it sorts.
func meanAndP99(values []float64) (mean, p99 float64) {
	n := len(values)
	if n == 0 {
		return 0, 0
	}
	slices.Sort(values)
	for _, v := range values {
		mean += v / float64(n)
	}
	return mean, values[(n*99+99)/100-1]
}

// gangMetrics returns the figures of runs with gangs.
func gangMetrics() []Metric {
	return []Metric{
		{"gangs-placed", "gangs", ofGangs(func(g *GangFigures) float64 { return float64(g.Placed) })},
		{"gangs-pending", "gangs", ofGangs(func(g *GangFigures) float64 { return float64(g.Pending) })},
		{"gang-wait", "s", ofGangs(func(g *GangFigures) float64 { return g.Wait })},
		{"gang-wait-p99", "s", ofGangs(func(g *GangFigures) float64 { return g.WaitP99 })},
	}
}

// ofGangs returns a figure of a run's gangs, 0 if it has none.
func ofGangs(of func(*GangFigures) float64) func(*Result) float64 {
	return func(r *Result) float64 {
		if r.Gangs == nil {
			return 0
		}
		return of(r.Gangs)
	}
}

// HaveGangs reports whether one of the runs has gangs.
func HaveGangs(all [][]*Result) bool {
	return slices.ContainsFunc(slices.Concat(all...), func(r *Result) bool { return r.Gangs != nil })
}
