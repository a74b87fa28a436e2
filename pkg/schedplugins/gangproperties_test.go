package schedplugins

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects/feature"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

var (
	gangSeed  = flag.Uint64("gangs.seed", 1, "the seed of the first run of TestGangProperties")
	gangSeeds = flag.Int("gangs.seeds", 3, "how many seeds TestGangProperties runs with each API")
	gangSteps = flag.Int("gangs.steps", 60, "how many steps TestGangProperties takes with each seed")
)

// gangAPIs are the two APIs of gangs.
var gangAPIs = []string{"GangScheduling", "Coscheduling"}

// TestGangProperties takes random steps in random clusters, in virtual time: PodGroups and pods of gangs come in any order, pods are deleted, nodes come, go
// and change their size, and the scheduler is restarted. The pods of a gang are bound only if the gang then has its minimum, and once nothing changes any
// more each gang and each pod for which there is room is bound. A failure names the command that repeats it.
func TestGangProperties(t *testing.T) {
	for _, api := range gangAPIs {
		for i := range *gangSeeds {
			seed := *gangSeed + uint64(i)
			t.Run(fmt.Sprintf("%s/%d", api, seed), func(t *testing.T) { newGangRun(t, api, seed).all(*gangSteps) })
		}
	}
}

// TestGangPropertiesRepeat checks that two runs with the same seed have the same history.
func TestGangPropertiesRepeat(t *testing.T) {
	for _, api := range gangAPIs {
		t.Run(api, func(t *testing.T) {
			var histories [2][]string
			for i := range histories {
				t.Run(fmt.Sprint(i), func(t *testing.T) {
					r := newGangRun(t, api, 1000)
					r.all(30)
					histories[i] = r.history
				})
			}
			if !slices.Equal(histories[0], histories[1]) {
				t.Errorf("the histories are\n%s\n\nand\n%s", strings.Join(histories[0], "\n"), strings.Join(histories[1], "\n"))
			}
		})
	}
}

// gangRun is one sequence of random steps.
type gangRun struct {
	*virtualCluster
	*rand.Rand
	api     string
	steps   int
	stop    func() // of the scheduler
	args    string // of Coscheduling
	nodes   map[string]int
	gangs   map[string]*randomGang
	made    int               // objects so far
	before  map[string]string // the nodes of bound pods after the last step
	history []string
}

// randomGang is a gang of a run: pods that request cpus each. A need of 0 is that of single pods.
type randomGang struct {
	name       string
	size, need int
	cpus       int
	pods       int  // created so far
	exists     bool // its PodGroup
	resources  bool // its PodGroup has minResources, of need pods
}

func newGangRun(t *testing.T, api string, seed uint64) *gangRun {
	r := &gangRun{Rand: rand.New(rand.NewPCG(seed, 1)), api: api, nodes: map[string]int{}, gangs: map[string]*randomGang{}, before: map[string]string{}}
	if api == "Coscheduling" {
		r.virtualCluster = newVirtualCluster(t, seed)
		r.defineLabelledPodGroups()
		r.args = fmt.Sprintf("podGroupBackoffSeconds: %d, permitWaitingTimeSeconds: %d", max(0, r.IntN(40)-20), 10+r.IntN(60))
	} else {
		r.virtualCluster = newVirtualCluster(t, seed, withFeatures(feature.All))
	}
	r.gangs["single"] = &randomGang{name: "single", size: 1 << 30, cpus: 1, exists: true}
	r.startScheduler()
	return r
}

func (r *gangRun) startScheduler() {
	r.stop = r.start(func(cfg *scheduler.Config) {
		if r.api == "Coscheduling" {
			cfg.Config = coscheduled(r.t, r.args)
		} else {
			cfg.Features = feature.All
		}
	})
}

// all takes steps, and waits at random for the cluster to settle.
func (r *gangRun) all(steps int) {
	r.steps = steps
	for i := range steps {
		r.step()
		r.check()
		if r.IntN(15) == 0 || i == steps-1 {
			r.quiet()
		}
	}
}

func (r *gangRun) note(format string, args ...any) {
	r.history = append(r.history, fmt.Sprintf("%6.0fs ", r.clock.Since(virtualBegan).Seconds())+fmt.Sprintf(format, args...))
}

func (r *gangRun) fail(format string, args ...any) {
	r.t.Helper()
	r.t.Fatalf("%s\n\n%s\n\nrepeat it with: go test ./pkg/schedplugins -run 'TestGangProperties/%s/%d$' -gangs.seed %d -gangs.seeds 1 -gangs.steps %d", fmt.Sprintf(format, args...),
		strings.Join(r.history, "\n"), r.api, r.seed, r.seed, r.steps)
}

func (r *gangRun) step() {
	switch n := r.IntN(20); {
	case n < 9:
		r.addPod()
	case n < 11:
		r.addGang()
	case n < 13:
		r.removePod()
	case n < 14:
		r.endGang()
	case n < 17:
		r.changeNodes()
	case n < 18 && r.IntN(3) == 0:
		r.note("the scheduler restarts")
		r.stop()
		r.startScheduler()
	default:
		d := time.Duration(r.IntN(40)) * time.Second
		r.note("advance by %s", d)
		r.advance(d)
	}
	if r.IntN(3) > 0 { // otherwise the next step is at the same time
		r.advance(time.Duration(r.IntN(3000)) * time.Millisecond)
	}
}

// pick returns one of the gangs for which want returns true, or nil.
func (r *gangRun) pick(want func(*randomGang) bool) *randomGang {
	var list []*randomGang
	for _, name := range slices.Sorted(maps.Keys(r.gangs)) {
		if g := r.gangs[name]; want(g) {
			list = append(list, g)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[r.IntN(len(list))]
}

// addGang creates the PodGroup of a gang that has none, or begins a new gang, with its PodGroup or without.
func (r *gangRun) addGang() {
	g := r.pick(func(g *randomGang) bool { return !g.exists })
	if g == nil && len(r.gangs) < 6 {
		r.made++
		g = &randomGang{name: fmt.Sprintf("g%d", r.made), size: 1 + r.IntN(6), cpus: 1 + r.IntN(2)}
		g.need = 1 + r.IntN(g.size)
		r.gangs[g.name] = g
		r.note("gang %s needs %d of %d pods of %d CPUs", g.name, g.need, g.size, g.cpus)
		if r.IntN(3) == 0 {
			return
		}
	}
	if g == nil {
		return
	}
	r.note("PodGroup %s", g.name)
	g.exists = true
	if r.api == "Coscheduling" {
		more := ""
		if r.IntN(3) == 0 {
			g.resources = true
			more = fmt.Sprintf(", minResources: {cpu: %d}", g.need*g.cpus)
		}
		r.labelledPodGroup(g.name, g.need, more)
	} else {
		r.podGroup(g.name, g.need)
	}
}

// addPod creates a pod of a gang, or a single one.
func (r *gangRun) addPod() {
	g := r.pick(func(g *randomGang) bool { return g.need > 0 && g.pods < g.size })
	if g == nil || r.IntN(8) == 0 {
		g = r.gangs["single"]
	}
	name := fmt.Sprintf("%s-%d", g.name, g.pods)
	g.pods++
	r.note("pod %s", name)
	r.pod(name, fmt.Sprint(g.cpus), func(p *corev1.Pod) {
		switch {
		case g.need == 0:
		case r.api == "Coscheduling":
			inLabelledGroup(g.name)(p)
		default:
			inGroup(g.name)(p)
		}
	})
}

// removePod deletes a pod. A gang may get another one for it.
func (r *gangRun) removePod() {
	names := slices.Sorted(maps.Keys(r.allPods()))
	if len(names) == 0 {
		return
	}
	name := names[r.IntN(len(names))]
	r.note("delete pod %s", name)
	r.remove(name)
	if g := r.gangOf(name); r.IntN(2) == 0 && g.need > 0 {
		g.size++
	}
}

// endGang deletes all pods of a gang that is bound, and its PodGroup.
func (r *gangRun) endGang() {
	pods := r.allPods()
	g := r.pick(func(g *randomGang) bool { return g.need > 0 && g.exists && r.boundOf(g, pods) >= g.need })
	if g == nil {
		return
	}
	r.note("gang %s ends", g.name)
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		if r.gangOf(name) == g {
			r.remove(name)
		}
	}
	resource := podGroupResource
	if r.api == "Coscheduling" {
		resource = coschedulingResource
	}
	r.deleteNow(client.In(resource, keyOf(g.name)))
	delete(r.gangs, g.name)
}

// changeNodes adds a node, resizes one, or deletes one with its pods.
func (r *gangRun) changeNodes() {
	names := slices.Sorted(maps.Keys(r.nodes))
	switch n := r.IntN(6); {
	case len(names) == 0 || n < 3 && len(names) < 4:
		r.made++
		name := fmt.Sprintf("n%d", r.made)
		r.nodes[name] = 1 + r.IntN(5)
		r.note("node %s of %d CPUs", name, r.nodes[name])
		r.node(name, fmt.Sprint(r.nodes[name]))
	case n < 5:
		name := names[r.IntN(len(names))]
		r.nodes[name] = 1 + r.IntN(6)
		r.note("node %s has %d CPUs", name, r.nodes[name])
		r.resize(name, fmt.Sprint(r.nodes[name]))
	default:
		name := names[r.IntN(len(names))]
		r.note("delete node %s", name)
		delete(r.nodes, name)
		r.deleteNow(client.Target{Resource: client.Nodes, Name: name})
		for _, pod := range slices.Sorted(maps.Keys(r.allPods())) {
			if p := r.allPods()[pod]; p.Spec.NodeName == name {
				r.remove(pod)
			}
		}
	}
}

func (r *gangRun) gangOf(pod string) *randomGang {
	name, _, _ := strings.Cut(pod, "-")
	return r.gangs[name]
}

// boundOf returns the number of a gang's pods that have a node.
func (r *gangRun) boundOf(g *randomGang, pods map[string]*corev1.Pod) (n int) {
	for name, p := range pods {
		if r.gangOf(name) == g && p.Spec.NodeName != "" {
			n++
		}
	}
	return n
}

// check checks the pods that have been bound since the last check: their gangs have their minimum, and their nodes have room. The clock has not moved on since
// the cluster has settled.
func (r *gangRun) check() {
	r.t.Helper()
	r.advance(0)
	pods := r.allPods()
	now := map[string]string{}
	used := map[string]int{}
	for name, p := range pods {
		if p.Spec.NodeName != "" {
			now[name] = p.Spec.NodeName
			used[p.Spec.NodeName] += r.gangOf(name).cpus
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if r.before[name] == now[name] {
			continue
		}
		r.note("  %s is on %s", name, now[name])
		g := r.gangOf(name)
		if n := r.boundOf(g, pods); !g.exists || n < g.need {
			r.fail("%d pods of gang %s are bound, and it needs %d; its PodGroup exists: %v", n, g.name, g.need, g.exists)
		}
		if node := now[name]; used[node] > r.nodes[node] {
			r.fail("pods of %d CPUs are on node %s, which has %d", used[node], node, r.nodes[node])
		}
		if g.need > 0 {
			r.checkStatus(g)
		}
	}
	r.before = now
}

// checkStatus checks that the PodGroup of a scheduled gang has that status.
func (r *gangRun) checkStatus(g *randomGang) {
	r.t.Helper()
	if r.api != "Coscheduling" {
		if c := r.groupCondition(g.name); c == nil || c.Status != metav1.ConditionTrue {
			r.fail("gang %s is bound, and its PodGroup has the condition %+v", g.name, c)
		}
		return
	}
	obj, err := r.client.Get(r.ctx, client.In(coschedulingResource, keyOf(g.name)), metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	if phase, _, _ := unstructured.NestedString(obj.(*unstructured.Unstructured).Object, "status", "phase"); phase != "Scheduled" {
		r.fail("gang %s is bound, and its PodGroup has the phase %q", g.name, phase)
	}
}

// maxQuiet is how long a gang may wait for room that it has: timeouts of Permit plugins, backoffs, and the time after which unschedulable pods are tried again
// without an event may come one after another.
const maxQuiet = 20 * time.Minute

// quiet waits until each gang and pod for which there is room is bound, while nothing changes.
func (r *gangRun) quiet() {
	r.t.Helper()
	r.note("quiet")
	began := r.clock.Now()
	for {
		r.check()
		waits := r.waiting()
		if waits == "" {
			return
		}
		if r.clock.Since(began) > maxQuiet {
			r.fail("%s for more than %s", waits, maxQuiet)
		}
		r.advance(time.Second)
	}
}

// capacityFor returns the CPUs that are free besides those of the gang's own pods. Pods of a node that has shrunk may request more than it has.
func (r *gangRun) capacityFor(g *randomGang, pods map[string]*corev1.Pod) (sum int) {
	free := maps.Clone(r.nodes)
	for name, p := range pods {
		if of := r.gangOf(name); p.Spec.NodeName != "" && of != g {
			free[p.Spec.NodeName] -= of.cpus
		}
	}
	for _, cpus := range free {
		sum += max(0, cpus)
	}
	return sum
}

// waiting returns which gang or pod waits although there is room for it, or "". All pods of a gang are equal.
func (r *gangRun) waiting() string {
	pods := r.allPods()
	free := maps.Clone(r.nodes)
	for name, p := range pods {
		if p.Spec.NodeName != "" {
			free[p.Spec.NodeName] -= r.gangOf(name).cpus
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.gangs)) {
		g := r.gangs[name]
		all := 0
		for pod := range pods {
			if r.gangOf(pod) == g {
				all++
			}
		}
		room := 0
		for _, cpus := range free {
			room += max(0, cpus) / g.cpus
		}
		bound := r.boundOf(g, pods)
		wants := max(1, g.need-bound)
		if g.exists && all >= g.need && all-bound >= wants && room >= wants && (!g.resources || r.capacityFor(g, pods) >= g.need*g.cpus) {
			return fmt.Sprintf("gang %s has %d of %d pods bound, needs %d, and has room for %d more", g.name, bound, all, g.need, room)
		}
	}
	return ""
}
