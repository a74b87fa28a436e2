package whatif_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/schedplugins"
	"github.com/minikctl/minikctl/pkg/scheduler/whatif"
)

// gangAPIs are the two APIs of gangs, each with a configuration that schedules gangs: a PodGroup by its name and minimum, and a pod by its name, group,
// priority class and number of CPUs.
var gangAPIs = []struct{ name, group, pod, config string }{
	{"scheduling.k8s.io", "apiVersion: scheduling.k8s.io/v1alpha2\nkind: PodGroup\nmetadata: {name: %s}\nspec: {schedulingPolicy: {gang: {minCount: %d}}}\n---\n",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {schedulingGroup: {podGroupName: %s}, priorityClassName: '%s', containers: [{name: c, image: x, resources: {requests: {cpu: %d}}}]}\n---\n", "{}"},
	{"scheduling.x-k8s.io", "apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: %s}\nspec: {minMember: %d}\n---\n",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: %s, labels: {scheduling.x-k8s.io/pod-group: %s}}\nspec: {priorityClassName: '%s', containers: [{name: c, image: x, resources: {requests: {cpu: %d}}}]}\n---\n", coscheduled},
}

const (
	oneNode = "apiVersion: v1\nkind: Node\nmetadata: {name: one}\nstatus: {capacity: {cpu: %d, memory: 1Gi, pods: 10}}\n---\n"
	classes = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 10\n---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: low}\nvalue: 0\n---\n"
)

// compare runs a configuration with some seeds, and checks that a second time gives the same.
func compare(t *testing.T, text, config string) []*whatif.Result {
	t.Helper()
	m, skipped := read(t, strings.TrimSuffix(text, "---\n"))
	if len(skipped) > 0 {
		t.Fatalf("skipped %v", skipped)
	}
	run := func() []*whatif.Result {
		now := clock.Real().Now()
		tick := func() time.Time { now = now.Add(time.Second); return now }
		runs, err := whatif.Compare(t.Context(), "x", m.Simulation(schedplugins.Registry, configOf(t, config)), m.Workloads, 8, tick)
		if err != nil {
			t.Fatal(err)
		}
		return runs
	}
	runs, again := run(), run()
	for i, r := range runs {
		if !reflect.DeepEqual(r, again[i]) {
			t.Errorf("seed %d: %+v, and again %+v", r.Seed, *r, *again[i])
		}
	}
	return runs
}

// coscheduled is a configuration with the plugin Coscheduling.
const coscheduled = `{profiles: [{plugins: {multiPoint: {enabled: [{name: Coscheduling}]}, queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: "*"}]}}}]}`

func configOf(t *testing.T, text string) *configv1.KubeSchedulerConfiguration {
	t.Helper()
	out := &configv1.KubeSchedulerConfiguration{}
	if err := yaml.Unmarshal([]byte(text), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestCompareOfGangs checks that of two gangs one is scheduled and the other waits as a whole, whatever the order in which the pods arrive, and that one that
// is not complete waits, too.
func TestCompareOfGangs(t *testing.T) {
	for _, api := range gangAPIs {
		for _, config := range slices.Compact([]string{api.config, coscheduled}) {
			t.Run(api.name+" "+config, func(t *testing.T) {
				text := fmt.Sprintf(oneNode, 4) + fmt.Sprintf(api.group, "none", 1)
				for _, gang := range []string{"a", "b"} {
					text += fmt.Sprintf(api.group, gang, 3)
					for i := range 3 {
						text += fmt.Sprintf(api.pod, fmt.Sprintf("%s-%d", gang, i), gang, "", 1)
					}
				}
				text += fmt.Sprintf(api.group, "few", 2) + fmt.Sprintf(api.pod, "few-0", "few", "", 1)
				waited := false
				for _, r := range compare(t, text, config) {
					if r.Placed != 3 || r.Pending != 4 || r.Gangs == nil || r.Gangs.Placed != 1 || r.Gangs.Pending != 2 || r.UsedNodes != 1 {
						t.Errorf("seed %d: %+v %+v", r.Seed, *r, r.Gangs)
					}
					// Pods arrive one each 100 ms, and those of the gang wait for the last one; its attempt takes a millisecond for each.
					if !near(r.Gangs.Wait, 0.003) || !near(r.Gangs.WaitP99, 0.003) {
						t.Errorf("seed %d: the gang waited %v s", r.Seed, r.Gangs.Wait)
					}
					waited = waited || r.WaitP99 > 0.25
				}
				if !waited {
					t.Error("no pod waited for others of its gang")
				}
			})
		}
	}
}

// TestLabelsThatNoPluginReads checks that the pods of a group of scheduling.x-k8s.io are scheduled each by itself where the profile does not have the plugin
// Coscheduling among its Permit plugins.
func TestLabelsThatNoPluginReads(t *testing.T) {
	const sort = `queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: "*"}]}`
	for name, x := range map[string]struct {
		config, scheduler string
		placed            int
	}{
		"the default":         {"{}", "default-scheduler", 2},
		"it sorts the queue":  {`{profiles: [{plugins: {` + sort + `}}]}`, "default-scheduler", 2},
		"permit is disabled":  {`{profiles: [{plugins: {multiPoint: {enabled: [{name: Coscheduling}]}, permit: {disabled: [{name: Coscheduling}]}, ` + sort + `}}]}`, "default-scheduler", 2},
		"of the one profile":  {`{profiles: [{schedulerName: one, plugins: {multiPoint: {enabled: [{name: Coscheduling}]}, ` + sort + `}}, {schedulerName: other, plugins: {` + sort + `}}]}`, "one", 0},
		"of the other":        {`{profiles: [{schedulerName: one, plugins: {multiPoint: {enabled: [{name: Coscheduling}]}, ` + sort + `}}, {schedulerName: other, plugins: {` + sort + `}}]}`, "other", 2},
		"it is among permits": {`{profiles: [{plugins: {permit: {enabled: [{name: Coscheduling}]}}}]}`, "default-scheduler", 0},
	} {
		t.Run(name, func(t *testing.T) {
			api := gangAPIs[1]
			text := fmt.Sprintf(oneNode, 2) + fmt.Sprintf(api.group, "a", 3)
			for i := range 3 {
				text += strings.Replace(fmt.Sprintf(api.pod, fmt.Sprint("a-", i), "a", "", 1), "spec: {", "spec: {schedulerName: "+x.scheduler+", ", 1)
			}
			for _, r := range compare(t, text, x.config) {
				if r.Placed != x.placed || r.Pending != 3-x.placed || r.Gangs == nil || r.Gangs.Placed != 0 || r.Gangs.Pending != 1 {
					t.Errorf("seed %d: %+v %+v", r.Seed, *r, r.Gangs)
				}
			}
			m, _ := read(t, strings.TrimSuffix(text, "---\n"))
			got, err := whatif.Run(t.Context(), m.Simulation(schedplugins.Registry, configOf(t, x.config)), &m.Cluster, m.Workloads, 1)
			if err != nil {
				t.Fatal(err)
			}
			placed := 0
			for _, p := range got.Pods {
				if p.Node != "" {
					placed++
				}
			}
			if placed != x.placed {
				t.Errorf("a dry run schedules %d pods, want %d", placed, x.placed)
			}
		})
	}
}

// TestCompareOfLargerGangs checks that a gang with more pods than it needs is scheduled as far as there is room, but not below its minimum.
func TestCompareOfLargerGangs(t *testing.T) {
	for _, api := range gangAPIs {
		t.Run(api.name, func(t *testing.T) {
			text := fmt.Sprintf(oneNode, 3) + fmt.Sprintf(api.group, "a", 2)
			for i := range 5 {
				text += fmt.Sprintf(api.pod, fmt.Sprintf("a-%d", i), "a", "", 1)
			}
			for _, r := range compare(t, text, api.config) {
				if r.Placed != 3 || r.Pending != 2 || r.Gangs.Placed != 1 || r.Gangs.Pending != 0 {
					t.Errorf("seed %d: %+v %+v", r.Seed, *r, r.Gangs)
				}
			}
		})
	}
}

// TestCompareWithEvictions checks that a gang whose pods are evicted has to be scheduled again, and that a gang evicts others.
func TestCompareWithEvictions(t *testing.T) {
	for _, api := range gangAPIs {
		t.Run(api.name, func(t *testing.T) {
			text := fmt.Sprintf(oneNode, 2) + classes + fmt.Sprintf(api.group, "a", 2) + fmt.Sprintf(api.pod, "a-0", "a", "low", 1) + fmt.Sprintf(api.pod, "a-1", "a", "low", 1) +
				"apiVersion: v1\nkind: Pod\nmetadata: {name: alone}\nspec: {priorityClassName: high, containers: [{name: c, image: x, resources: {requests: {cpu: 1}}}]}\n"
			evicted := 0
			for _, r := range compare(t, text, api.config) {
				evicted += r.Preemptions
				if r.Placed != 1+r.Preemptions || r.Pending != 2-r.Preemptions || r.Gangs.Placed != 0 || r.Gangs.Pending != 1 {
					t.Errorf("seed %d: %+v %+v", r.Seed, *r, r.Gangs)
				}
			}
			if evicted == 0 {
				t.Error("no order of arrival led to an eviction")
			}
			text = fmt.Sprintf(oneNode, 2) + classes + fmt.Sprintf(api.group, "a", 2) + fmt.Sprintf(api.pod, "a-0", "a", "high", 1) + fmt.Sprintf(api.pod, "a-1", "a", "high", 1) +
				"apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: low}\nspec: {replicas: 2, template: {spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 1}}}]}}}\n"
			evicted = 0
			for _, r := range compare(t, text, api.config) {
				evicted += r.Preemptions
				if r.Placed != 2 || r.Pending != 2 || r.Gangs.Placed != 1 || r.Gangs.Pending != 0 {
					t.Errorf("seed %d: %+v %+v", r.Seed, *r, r.Gangs)
				}
			}
			if evicted == 0 {
				t.Error("no order of arrival led to an eviction by the gang")
			}
		})
	}
}

// TestGangsOfTheCluster checks that pods that run count for their gang, and that a gang that ran before is not counted.
func TestGangsOfTheCluster(t *testing.T) {
	for _, api := range gangAPIs {
		t.Run(api.name, func(t *testing.T) {
			bound := strings.Replace(api.pod, "spec: {", "spec: {nodeName: one, ", 1)
			text := fmt.Sprintf(oneNode, 4) + fmt.Sprintf(api.group, "a", 2) + fmt.Sprintf(bound, "a-0", "a", "", 1) + fmt.Sprintf(bound, "a-1", "a", "", 1) +
				fmt.Sprintf(api.pod, "a-2", "a", "", 1)
			for _, r := range compare(t, text, api.config) {
				if r.Placed != 1 || r.Pending != 0 || r.Gangs != nil {
					t.Errorf("seed %d: %+v %+v", r.Seed, *r, r.Gangs)
				}
			}
			text = fmt.Sprintf(oneNode, 4) + fmt.Sprintf(api.group, "a", 3) + fmt.Sprintf(bound, "a-0", "a", "", 1) + fmt.Sprintf(api.pod, "a-1", "a", "", 1)
			for _, r := range compare(t, text, api.config) {
				if r.Placed != 0 || r.Gangs == nil || r.Gangs.Placed != 0 || r.Gangs.Pending != 1 {
					t.Errorf("bound in part, seed %d: %+v %+v", r.Seed, *r, r.Gangs)
				}
			}
		})
	}
}

// constrained is a gang whose pods have to be in one rack.
const constrained = "apiVersion: scheduling.k8s.io/v1alpha2\nkind: PodGroup\nmetadata: {name: a}\nspec: {schedulingPolicy: {gang: {minCount: 2}}, schedulingConstraints: {topology: [{key: rack}]}}\n"

// rackNode returns a node of one CPU.
func rackNode(name, rack string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Node\nmetadata: {name: %s, labels: {rack: rack-%s}}\nstatus: {capacity: {cpu: 1, memory: 1Gi, pods: 10}}\n", name, rack)
}

// TestCompareOfConstrainedGangs checks that the pods of a gang with a topology constraint are not spread over racks.
func TestCompareOfConstrainedGangs(t *testing.T) {
	member := strings.TrimSuffix(gangAPIs[0].pod, "---\n")
	for racks, placed := range map[string]int{"xy": 0, "xx": 2} {
		text := ""
		for i, rack := range racks {
			text += rackNode(fmt.Sprintf("n%d", i), string(rack)) + "---\n"
		}
		text += constrained + "---\n" + fmt.Sprintf(member, "a-0", "a", "", 1) + "---\n" + fmt.Sprintf(member, "a-1", "a", "", 1)
		for _, r := range compare(t, text, "{}") {
			if r.Placed != placed {
				t.Errorf("racks %s, seed %d: %+v", racks, r.Seed, *r)
			}
		}
	}
}

// TestReplayOfGangs replays a trace in which a gang waits until another has left, and one never has the pods that it needs.
func TestReplayOfGangs(t *testing.T) {
	nodes := "one,3000,32768,0,\n"
	header := "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time,gang,gang_min\n"
	pods := "a-0,1000,1024,0,0,,100,200,a,\n" + "a-1,1000,1024,0,0,,110,200,a,\n" +
		"b-0,1000,1024,0,0,,120,,b,2\n" + "b-1,1000,1024,0,0,,130,,b,2\n" + "b-2,1000,1024,0,0,,300,,b,2\n" +
		"few,100,1024,0,0,,140,,few,2\n" + "alone,1000,1024,0,0,,150,160,,\n"
	trace, err := whatif.ReadOpenB("", []whatif.File{{Name: "pods.csv", Data: []byte(header + pods)}, {Name: "nodes.csv", Data: []byte(nodeHeader + nodes)}})
	if err != nil {
		t.Fatal(err)
	}
	r := replay(t, trace)
	if r.Placed != 6 || r.Pending != 1 || r.Gangs.Placed != 2 || r.Gangs.Pending != 1 {
		t.Errorf("got %+v %+v", *r, r.Gangs)
	}
	// b has two pods from 130 on, and waits until 200 and then for its backoff, which is at most 10 s.
	if b := r.Gangs.WaitP99; b < 70 || b > 80.01 || !near(r.Gangs.Wait, (b+0.002)/2) {
		t.Errorf("gangs waited %v, p99 %v", r.Gangs.Wait, b)
	}
	at := func(seconds float64) whatif.Sample {
		i := slices.IndexFunc(r.Samples, func(s whatif.Sample) bool { return s.Time > seconds })
		return r.Samples[i]
	}
	if s := at(70); s.GangsRunning != 1 || s.GangsPending != 2 || s.Running != 2 || s.Pending != 3 {
		t.Errorf("while b waits: %+v", s)
	}
	if s := r.Samples[len(r.Samples)-1]; s.GangsRunning != 1 || s.GangsPending != 1 || s.Running != 3 {
		t.Errorf("at the end: %+v", s)
	}
	if again := replay(t, trace); !reflect.DeepEqual(r, again) {
		t.Errorf("got %+v, and again %+v", *r, *again)
	}
	for wrong, message := range map[string]string{
		"a,1,1,0,0,,1,,g,2\nb,1,1,0,0,,1,,g,3\n": `column "gang_min": another pod of the gang g has 2`,
		"a,1,1,0,0,,1,,g,x\n":                    `column "gang_min": "x" is not a whole number`,
		"a,1,1,0,0,,1,,G!,\n":                    `column "gang": "G!" is not a name`,
	} {
		_, err := whatif.ReadOpenB("", []whatif.File{{Name: "pods.csv", Data: []byte(header + wrong)}, {Name: "nodes.csv", Data: []byte(nodeHeader + nodes)}})
		if err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("got %v, want %s", err, message)
		}
	}
}
