package whatif

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/feature"
	"github.com/minikctl/minikctl/pkg/objects/podref"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// Trace is what happens to a cluster over time: nodes and pods come and go.
type Trace struct {
	Name   string
	Config *configv1.KubeSchedulerConfiguration // that the trace names; nil: none
	// Features are the feature gates that the PodGroups need that are created during the trace.
	Features feature.Gates
	// Play makes the events of the trace happen, in p's virtual time.
	Play func(ctx context.Context, p *Player) error
}

// Options are the settings of a run.
type Options struct {
	Seed uint64 // draws among equally good nodes
	// AttemptTime is the virtual time that a scheduling attempt takes. It must be positive.
	AttemptTime time.Duration
	Now         func() time.Time // measures the throughput
}

// DefaultAttemptTime is the virtual time of an attempt by default.
const DefaultAttemptTime = time.Millisecond

// Replay plays a trace on the simulation's cluster. The same seed gives the same result, except for its throughput.
func Replay(ctx context.Context, q scheduler.Simulation, t Trace, o Options) (*Result, error) {
	q.Features = t.Features
	p, err := newPlayer(ctx, q, o)
	if err != nil {
		return nil, err
	}
	defer p.box.Close(ctx)
	err = t.Play(ctx, p)
	_, isStop := errors.AsType[stopped](err)
	if err != nil && !isStop {
		return nil, err
	}
	r := p.result()
	if isStop {
		r.Stopped = err.Error()
	}
	r.Workload, r.Seed, r.Samples = t.Name, int(o.Seed), p.samples
	return r, nil
}

// Player plays a trace: it owns a sandbox and the virtual time, and records what becomes of the pods. Attempts follow one another, and each takes
// Options.AttemptTime; events that become due meanwhile happen between two attempts.
type Player struct {
	// Evicted, if not nil, is called with each pod that a preemption evicted.
	Evicted func(pod *corev1.Pod)
	// Interval is the virtual time between two samples at first. It grows so that there are at most maxSamples.
	Interval time.Duration

	box     *scheduler.Sandbox
	clock   *clock.Manual
	began   time.Time
	options Options

	events    eventHeap
	scheduled uint64 // events so far, breaks ties
	nextFlush time.Time

	pods     map[types.UID]*podRecord
	records  []*podRecord // in the order of their arrival
	unbound  int
	counts   map[string]*podCounts // by namespace
	gangs    *gangs
	shapes   shapes
	samples  []Sample
	sampled  time.Time // when the last sample was due
	windows  []window
	collects func(pod *corev1.Pod) bool // nil: figures are not collected now

	preemptions int
	bound       int           // pods that were bound while figures were collected
	engine      time.Duration // the time that their attempts, and those that failed, took on this machine
}

// podRecord is the state of a pod.
type podRecord struct {
	pod            *corev1.Pod
	arrived, bound time.Time // bound is zero while it has no node
	measured       bool      // it counts in the figures
	attempted      bool
	evicted, gone  bool
}

// podCounts are the pods of a namespace that have a node, and those that have been tried, or are gated, and have none.
type podCounts struct{ bound, attempted int }

// window is a part of the virtual time in which figures are collected. to is zero until it ends.
type window struct{ from, to time.Time }

func newPlayer(ctx context.Context, q scheduler.Simulation, o Options) (*Player, error) {
	began := time.Unix(0, 0).UTC()
	clk := clock.NewManual(began, clock.Real())
	gangs := newGangs(q)
	q = gangs.inPodGroups(q)
	q.Clock = clk
	box, err := scheduler.NewSandbox(ctx, q, o.Seed)
	if err != nil {
		return nil, err
	}
	p := &Player{box: box, clock: clk, began: began, options: o, Interval: 10 * o.AttemptTime, pods: map[types.UID]*podRecord{}, counts: map[string]*podCounts{}, gangs: gangs, sampled: began,
		nextFlush: began.Add(scheduler.FlushEvery)}
	for _, n := range box.NodeInfos() {
		for _, pod := range n.GetPods() {
			r := &podRecord{pod: pod.GetPod(), bound: began}
			p.pods[r.pod.UID] = r
			p.tally(r, 1)
			gangs.ran(r.pod, began)
		}
	}
	return p, nil
}

// Elapsed returns the virtual time since the begin.
func (p *Player) Elapsed() time.Duration { return p.clock.Now().Sub(p.began) }

// At has do called at a time since the begin. Events of the same time happen in the order of these calls, and before an attempt that begins then.
func (p *Player) At(at time.Duration, do func(ctx context.Context) error) {
	p.scheduled++
	heap.Push(&p.events, event{p.began.Add(at), p.scheduled, do})
}

// SetPodGroup adds or replaces a PodGroup of either API. One of scheduling.x-k8s.io comes before its pods.
func (p *Player) SetPodGroup(ctx context.Context, obj objects.Object) {
	group := p.gangs.add(obj)
	if group != obj {
		p.box.SetObject(ctx, labelledGroups, obj)
	}
	if group == nil {
		return
	}
	key := objects.Key{Namespace: group.GetNamespace(), Name: group.GetName()}
	var waiting []*podRecord
	for _, r := range p.records { // pods that came before it
		of, grouped := podref.PodGroup(r.pod)
		if grouped && of == key && p.gangs.present[key] == nil && p.pods[r.pod.UID] == r {
			waiting = append(waiting, r)
		}
	}
	for _, r := range waiting {
		p.gangs.arrived(r.pod, r.measured, p.clock.Now())
	}
	p.box.SetObject(ctx, framework.PodGroup, group)
}

// AddPod adds a pod that arrives now. A pod without a UID gets one. It needs its defaults and its priority.
func (p *Player) AddPod(ctx context.Context, pod *corev1.Pod) error {
	if pod.UID == "" {
		pod.UID = types.UID(fmt.Sprintf("replay-%d", len(p.records)+1))
	}
	pod.DeletionTimestamp = nil // a cluster may be deleting it; here it arrives like any other
	p.gangs.join(pod)
	r := &podRecord{pod: pod, arrived: p.clock.Now()}
	if pod.Spec.NodeName != "" {
		r.bound = r.arrived
	} else {
		p.unbound++
	}
	r.attempted = len(pod.Spec.SchedulingGates) > 0
	p.tally(r, 1)
	r.measured = p.measures(pod)
	p.gangs.arrived(pod, r.measured, r.arrived)
	p.pods[pod.UID] = r
	p.records = append(p.records, r)
	p.shapes.add(pod)
	return p.box.SetPod(ctx, pod)
}

// tally adds a pod to the counts of its namespace, or takes it from them.
func (p *Player) tally(r *podRecord, by int) {
	c := p.counts[r.pod.Namespace]
	if c == nil {
		c = &podCounts{}
		p.counts[r.pod.Namespace] = c
	}
	switch {
	case !r.bound.IsZero():
		c.bound += by
	case r.attempted:
		c.attempted += by
	}
}

// count returns how many pods of a namespace have a node, or, with attempted, have been tried as well.
func (p *Player) count(namespace string, selector map[string]string, attempted bool) int {
	if len(selector) == 0 {
		c := p.counts[namespace]
		switch {
		case c == nil:
			return 0
		case attempted:
			return c.bound + c.attempted
		}
		return c.bound
	}
	n := 0
	for _, r := range p.pods {
		if r.pod.Namespace == namespace && (!r.bound.IsZero() || attempted && r.attempted) && matches(selector, r.pod.Labels) {
			n++
		}
	}
	return n
}

// measures reports whether a pod counts in the figures if it arrives or is bound now.
func (p *Player) measures(pod *corev1.Pod) bool { return p.collects != nil && p.collects(pod) }

// UpdatePod replaces a pod by a newer version with the same UID. It keeps its node.
func (p *Player) UpdatePod(ctx context.Context, pod *corev1.Pod) error {
	r := p.pods[pod.UID]
	p.gangs.join(pod)
	pod.Spec.NodeName, pod.Generation = r.pod.Spec.NodeName, r.pod.Generation+1
	r.pod = pod
	return p.box.SetPod(ctx, pod)
}

// DeletePod deletes a pod. One that is gone already is left out.
func (p *Player) DeletePod(ctx context.Context, uid types.UID) {
	r, ok := p.pods[uid]
	if !ok {
		return
	}
	p.forget(r, false)
	p.box.DeletePod(ctx, r.pod)
}

// forget ends the record of a pod that is deleted, or evicted.
func (p *Player) forget(r *podRecord, evicted bool) {
	delete(p.pods, r.pod.UID)
	p.tally(r, -1)
	p.gangs.left(r.pod, !r.bound.IsZero(), evicted, p.clock.Now())
	r.gone, r.evicted = true, evicted
	if r.bound.IsZero() {
		p.unbound--
	}
}

// SetNode adds or replaces a node.
func (p *Player) SetNode(ctx context.Context, node *corev1.Node) { p.box.SetNode(ctx, node) }

// DeleteNode deletes a node and its pods.
func (p *Player) DeleteNode(ctx context.Context, name string) {
	p.box.DeleteNode(ctx, name)
	var on []types.UID
	for uid, r := range p.pods {
		if r.pod.Spec.NodeName == name {
			on = append(on, uid)
		}
	}
	slices.Sort(on)
	for _, uid := range on {
		p.DeletePod(ctx, uid)
	}
}

// Collect begins to collect figures of the pods for which match returns true, and that arrive or are bound from now on. A trace that never calls it has
// the figures of all pods.
func (p *Player) Collect(match func(pod *corev1.Pod) bool) {
	p.sample()
	p.collects = match
	p.windows = append(p.windows, window{from: p.clock.Now()})
}

// StopCollecting ends what Collect began.
func (p *Player) StopCollecting() {
	if p.collects == nil {
		return
	}
	p.sample()
	p.collects = nil
	p.windows[len(p.windows)-1].to = p.clock.Now()
}

// Run plays until done returns true, the virtual time is limit, or nothing is left to happen. It returns whether done returned true.
func (p *Player) Run(ctx context.Context, done func() bool, limit time.Duration) (bool, error) {
	for !done() {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		more, err := p.step(ctx, p.began.Add(limit))
		if err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// wait plays until a time since the begin.
func (p *Player) wait(ctx context.Context, until time.Duration) error {
	if _, err := p.Run(ctx, never, until); err != nil {
		return err
	}
	return p.advance(ctx, p.began.Add(until))
}

// never is the done of runs that last until their limit, or until nothing is left to happen.
func never() bool { return false }

// step makes the next event happen or tries the next pod. If there is neither, it moves the clock to what is due next, at most to limit. It returns
// false if the clock is at limit, or nothing is left to happen.
func (p *Player) step(ctx context.Context, limit time.Time) (bool, error) {
	now := p.clock.Now()
	if !now.Before(limit) {
		return false, nil
	}
	if len(p.events) > 0 && !p.events[0].at.After(now) {
		e := heap.Pop(&p.events).(event)
		return true, e.do(ctx)
	}
	if !p.nextFlush.After(now) {
		p.box.Flush(ctx)
		p.nextFlush = now.Add(scheduler.FlushEvery)
	}
	if tried, err := p.try(ctx); tried || err != nil {
		return true, err
	}
	next := p.box.Due()
	if len(p.events) > 0 && (next.IsZero() || p.events[0].at.Before(next)) {
		next = p.events[0].at
	}
	if next.IsZero() {
		return false, nil
	}
	if p.unbound > 0 && p.nextFlush.Before(next) {
		next = p.nextFlush
	}
	if next.After(limit) {
		next = limit
	}
	return true, p.advance(ctx, next)
}

// advance moves the clock, and takes the samples that are due on the way.
func (p *Player) advance(ctx context.Context, to time.Time) error {
	p.sampleUntil(to)
	_, err := p.clock.Advance(ctx, to, 0)
	return err
}

// try tries the next pod of the queue, and with it those of its PodGroup.
func (p *Player) try(ctx context.Context) (bool, error) {
	before := p.options.Now()
	attempts := p.box.Next(ctx)
	if len(attempts) == 0 {
		return false, nil
	}
	took := p.options.Now().Sub(before)
	if err := p.advance(ctx, p.clock.Now().Add(time.Duration(len(attempts))*p.options.AttemptTime)); err != nil {
		return true, err
	}
	if p.collecting() {
		p.engine += took
	}
	for _, a := range attempts {
		p.attempted(a)
	}
	for _, a := range attempts {
		for _, v := range a.Evicted {
			p.evicted(v)
		}
	}
	return true, nil
}

// attempted records the result of an attempt that ends now.
func (p *Player) attempted(a scheduler.Attempt) {
	r := p.pods[a.Pod.UID]
	p.tally(r, -1)
	r.attempted = true
	if a.Node != "" {
		pod := *r.pod
		pod.Spec.NodeName = a.Node
		r.pod, r.bound = &pod, p.clock.Now()
		measured := p.measures(&pod)
		r.measured = r.measured || measured
		p.unbound--
		if p.collecting() {
			p.bound++
		}
		p.gangs.bound(&pod, measured, r.bound)
	}
	p.tally(r, 1)
}

// evicted records that a preemption evicted a pod.
func (p *Player) evicted(pod *corev1.Pod) {
	if p.collecting() {
		p.preemptions++
	}
	victim := p.pods[pod.UID]
	p.forget(victim, true)
	if p.Evicted != nil {
		p.Evicted(victim.pod)
	}
}

// collecting reports whether what happens now counts in the figures.
func (p *Player) collecting() bool { return p.collects != nil || len(p.windows) == 0 }

// event is something that happens at a time.
type event struct {
	at    time.Time
	order uint64
	do    func(ctx context.Context) error
}

// eventHeap has the events that have not happened, the next one first.
type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return cmp.Or(h[i].at.Compare(h[j].at), cmp.Compare(h[i].order, h[j].order)) < 0
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = event{}
	*h = (*h)[:last]
	return e
}

// result returns the figures of the run.
func (p *Player) result() *Result {
	p.sample()
	p.StopCollecting()
	r := &Result{Preemptions: p.preemptions}
	var waits []float64
	for _, record := range p.records {
		if !record.measured && len(p.windows) > 0 || record.evicted {
			continue
		}
		if record.bound.IsZero() {
			r.Pending++
			continue
		}
		r.Placed++
		waits = append(waits, record.bound.Sub(record.arrived).Seconds())
	}
	r.Wait, r.WaitP99 = meanAndP99(waits)
	r.Gangs = p.gangs.figures(len(p.windows) == 0)
	if p.engine > 0 {
		r.Throughput = float64(p.bound) / p.engine.Seconds()
	}
	r.average(p.samples, func(at time.Duration) bool { return p.inWindow(p.began.Add(at)) })
	return r
}

// inWindow reports whether a sample of a time counts in the figures.
func (p *Player) inWindow(at time.Time) bool {
	for _, w := range p.windows {
		if at.After(w.from) && !at.After(w.to) {
			return true
		}
	}
	return len(p.windows) == 0
}
