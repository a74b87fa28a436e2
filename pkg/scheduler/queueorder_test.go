package scheduler

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"k8s.io/kube-scheduler/framework"
)

// ranks sorts pods by ranks that change while they are queued.
type ranks map[string]int

func (ranks) Name() string { return "ranks" }
func (r ranks) Less(a, b framework.QueuedPodInfo) bool {
	return r.LessKeyed(a, b, r.SortKey(a), r.SortKey(b))
}
func (r ranks) SortKey(q framework.QueuedPodInfo) any { return r[q.GetPodInfo().GetPod().Name] }
func (ranks) LessKeyed(_, _ framework.QueuedPodInfo, keyA, keyB any) bool {
	return keyA.(int) < keyB.(int)
}

// sortBy makes a plugin the QueueSort plugin of the queue.
func (q *queueTest) sortBy(plugin framework.QueueSortPlugin) {
	made := &instance{Plugin: plugin, name: plugin.Name()}
	s := &site{instance: made, point: "QueueSort", index: uint64(len(q.calls.sites))}
	q.calls.sites = append(q.calls.sites, s)
	q.profiles["s"].queueSort[0] = extension[framework.QueueSortPlugin]{s, plugin}
}

// TestQueueOrderOfChangingKeys checks that the pod that comes first is popped while the keys of queued pods become later, and that no pod is lost or popped
// twice.
func TestQueueOrderOfChangingKeys(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		keys := ranks{}
		q := newQueueTest(t)
		q.sortBy(keys)
		waiting := map[string]bool{}
		pop := func() {
			best := ""
			for name := range waiting {
				if best == "" || keys[name] < keys[best] {
					best = name
				}
			}
			q.expect(best)
			delete(waiting, best)
		}
		for i := range 200 {
			switch name := fmt.Sprintf("p%03d", i); random.IntN(4) {
			case 0:
				pop()
			default:
				keys[name] = random.IntN(1000)*1000 + i // no ties
				waiting[name] = true
				q.put(name, 0)
			}
			for name := range waiting {
				if random.IntN(8) == 0 {
					keys[name] += 1000 * random.IntN(500)
				}
			}
		}
		for len(waiting) > 0 {
			pop()
		}
		q.expect("")
	}
}

// TestQueueKeyOfUpdatedPod checks that an update of a queued pod, and another configuration, take effect on its key at once.
func TestQueueKeyOfUpdatedPod(t *testing.T) {
	keys := ranks{"a": 1, "b": 2, "c": 3, "d": 4}
	q := newQueueTest(t)
	q.sortBy(keys)
	for _, name := range []string{"a", "b", "c", "d"} {
		q.put(name, 0)
	}
	keys["d"] = 0
	q.update(t.Context(), q.pods["d"], queuePod("d", 0, nil), 2, q.now)
	q.expect("d")
	keys["c"] = 0
	q.configure(t.Context(), q.profiles, defaultBackoff)
	for _, name := range []string{"c", "a", "b", ""} {
		q.expect(name)
	}
}

// TestQueueKeyOfRequeuedPod checks that a pod that was tried gets a new key.
func TestQueueKeyOfRequeuedPod(t *testing.T) {
	keys := ranks{"a": 3, "b": 4, "c": 2}
	q := newQueueTest(t)
	q.sortBy(keys)
	q.put("a", 0)
	q.put("b", 0)
	q.requeueError(q.expect("a"), q.now)
	q.put("c", 0)
	keys["a"] = 1
	q.now = q.now.Add(defaultBackoff.first)
	for _, name := range []string{"a", "c", "b", ""} {
		q.expect(name)
	}
}

// fickle sorts pods by random, without keys.
type fickle struct{ *rand.Rand }

func (fickle) Name() string                                                 { return "fickle" }
func (f fickle) Less(framework.QueuedPodInfo, framework.QueuedPodInfo) bool { return f.IntN(2) == 0 }

// unequal sorts pods by keys that can't be compared.
type unequal struct{ ranks }

func (unequal) SortKey(framework.QueuedPodInfo) any { return []int{1} }
func (unequal) LessKeyed(framework.QueuedPodInfo, framework.QueuedPodInfo, any, any) bool {
	return false
}

// restless sorts pods by keys of which each is another one.
type restless struct{ ranks }

func (r restless) SortKey(framework.QueuedPodInfo) any {
	r.ranks["next"]++
	return r.ranks["next"]
}

// TestQueueKeepsPodsWithoutOrder checks that each pod is popped once, whatever the plugin does.
func TestQueueKeepsPodsWithoutOrder(t *testing.T) {
	for _, plugin := range []framework.QueueSortPlugin{restless{ranks{}}, fickle{rand.New(rand.NewPCG(1, 1))}, unequal{ranks{}}} {
		q := newQueueTest(t)
		q.sortBy(plugin)
		for i := range 20 {
			q.put(fmt.Sprint(i), 0)
		}
		popped := map[string]bool{}
		for p := q.pop(t.Context(), q.now); p != nil; p = q.pop(t.Context(), q.now) {
			if popped[p.info.pod.Name] {
				t.Errorf("%T: %s is popped twice", plugin, p.info.pod.Name)
			}
			popped[p.info.pod.Name] = true
		}
		if len(popped) != 20 {
			t.Errorf("%T: %d of 20 pods are popped", plugin, len(popped))
		}
	}
}
