package whatif_test

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/schedplugins"
	"github.com/minikctl/minikctl/pkg/scheduler"
	"github.com/minikctl/minikctl/pkg/scheduler/whatif"
)

const (
	nodeHeader = "sn,cpu_milli,memory_mib,gpu,model\n"
	podHeader  = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)

func openb(t *testing.T, nodes, pods string) whatif.Trace {
	t.Helper()
	trace, err := whatif.ReadOpenB("", []whatif.File{{Name: "pods.csv", Data: []byte(podHeader + pods)}, {Name: "nodes.csv", Data: []byte(nodeHeader + nodes)}})
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// replay replays a trace with the default configuration. Each reading of the clock takes a millisecond.
func replay(t *testing.T, trace whatif.Trace) *whatif.Result {
	t.Helper()
	now := clock.Real().Now()
	o := whatif.Options{Seed: 1, AttemptTime: time.Millisecond, Now: func() time.Time { now = now.Add(time.Millisecond); return now }}
	r, err := whatif.Replay(context.Background(), scheduler.Simulation{Registry: schedplugins.Registry}, trace, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-3 }

// TestOpenB replays a trace in which a pod waits for another to leave, one asks for a model that no node has, and one leaves at once.
func TestOpenB(t *testing.T) {
	nodes := "gpu,8000,32768,2,V100\ncpu,8000,32768,0,\n"
	pods := "first,1000,1024,2,1000,V100|T4,LS,Running,100,160,100\n" +
		"second,1000,1024,1,500,,BE,Pending,110,200,\n" + // waits until first leaves
		"other,1000,1024,1,500,A100,LS,Pending,120,220,\n" + // no node has the model
		"atonce,1000,1024,0,0,nan,LS,Failed,130,130,\n" +
		"stays,4000,1024.0,0,0,,LS,Running,100,,100\n"
	r := replay(t, openb(t, nodes, pods))
	if r.Placed != 3 || r.Pending != 2 || r.Preemptions != 0 || r.Stopped != "" {
		t.Errorf("got %+v", *r)
	}
	// second waits from 110 to 160, and a millisecond for its attempt; first and stays arrive together.
	if want := (50.001 + 0.001 + 0.002) / 3; !near(r.Wait, want) || !near(r.WaitP99, 50.001) {
		t.Errorf("wait %v, p99 %v, want %v and 50.001", r.Wait, r.WaitP99, want)
	}
	last := r.Samples[len(r.Samples)-1]
	if last.Running != 1 || last.Pending != 0 || last.Time != 120 || !near(last.CPU, 0.25) || last.Extended[whatif.GPUMilli] != 0 {
		t.Errorf("at the end: %+v", last)
	}
	for _, s := range r.Samples {
		want := 0.0 // of 2000 units
		switch {
		case s.Time > 0.001 && s.Time <= 60:
			want = 1
		case s.Time > 60.001 && s.Time <= 100:
			want = 0.25
		}
		if s.Time > 0.002 && (s.Time < 60 || s.Time > 60.1) && s.Extended[whatif.GPUMilli] != want {
			t.Errorf("at %v: %v of the GPUs, want %v", s.Time, s.Extended[whatif.GPUMilli], want)
		}
	}
	if again := replay(t, openb(t, nodes, pods)); !reflect.DeepEqual(r, again) {
		t.Errorf("got %+v, and again %+v", *r, *again)
	}
}

// TestOpenBSamples verifies that a long trace has a bounded number of samples, whose times increase.
func TestOpenBSamples(t *testing.T) {
	var pods strings.Builder
	for i := range 500 {
		fmt.Fprintf(&pods, "p%d,1,1,0,0,,LS,Running,%d,%d,\n", i, i*1000, i*1000+500)
	}
	r := replay(t, openb(t, "a,1000,1024,0,\n", pods.String()))
	if n := len(r.Samples); n < 100 || n > 400 || r.Placed != 500 {
		t.Errorf("%d samples, %d pods", n, r.Placed)
	}
	for i := 1; i < len(r.Samples); i++ {
		if r.Samples[i].Time <= r.Samples[i-1].Time {
			t.Fatalf("sample %d is at %v, the one before at %v", i, r.Samples[i].Time, r.Samples[i-1].Time)
		}
	}
}

// TestOpenBInvariants replays random traces: each pod is scheduled or pending, no resource is requested beyond what nodes have, and nothing runs before it arrives.
func TestOpenBInvariants(t *testing.T) {
	for seed := range 40 {
		random := clock.NewSource(uint64(seed))
		var nodes, pods strings.Builder
		for i := range 1 + random.IntN(6) {
			fmt.Fprintf(&nodes, "n%d,%d,%d,%d,%s\n", i, 1000*random.IntN(16), 1024*random.IntN(16), random.IntN(3), []string{"V100", "T4"}[random.IntN(2)])
		}
		count := 1 + random.IntN(60)
		for i := range count {
			created := random.IntN(1000)
			left := ""
			if random.IntN(5) > 0 {
				left = fmt.Sprint(created + random.IntN(500))
			}
			fmt.Fprintf(&pods, "p%d,%d,%d,%d,%d,%s,LS,,%d,%s,\n", i, 500*random.IntN(8), 512*random.IntN(8), random.IntN(2), 100*random.IntN(11), []string{"", "V100", "T4|V100"}[random.IntN(3)], created, left)
		}
		r := replay(t, openb(t, nodes.String(), pods.String()))
		if r.Placed+r.Pending != count || r.Preemptions != 0 || r.Wait < 0 || r.WaitP99 < 0 {
			t.Errorf("seed %d: %d pods, %+v", seed, count, *r)
		}
		for _, s := range r.Samples {
			for name, part := range map[string]float64{"cpu": s.CPU, "memory": s.Memory, "gpu": s.Extended[whatif.GPUMilli], "fragmentation": s.Fragmentation} {
				if part < 0 || part > 1+1e-9 {
					t.Errorf("seed %d: at %v the part of %s is %v", seed, s.Time, name, part)
				}
			}
			if s.Running < 0 || s.Pending < 0 || s.Running+s.Pending > count {
				t.Errorf("seed %d: %+v", seed, s)
			}
		}
	}
}

func TestOpenBErrors(t *testing.T) {
	node, pod := "n,1000,1024,0,\n", "p,1,1,0,0,,LS,Running,1,2,1\n"
	for _, c := range []struct{ name, nodes, pods, want string }{
		{"no nodes", nodeHeader, podHeader + pod, "an openb trace needs a list of nodes"},
		{"no pods", nodeHeader + node, podHeader, "an openb trace needs a list of pods"},
		{"no number", nodeHeader + "n,x,1,0,\n", podHeader + pod, `nodes.csv:2: column "cpu_milli": "x" is not a whole number from 0 to 1073741824`},
		{"negative", nodeHeader + node, podHeader + pod + "q,1,-1,0,0,,LS,Running,1,2,1\n", `pods.csv:3: column "memory_mib": "-1" is not a whole number`},
		{"not finite", nodeHeader + node, podHeader + "p,1,Inf,0,0,,LS,Running,1,2,1\n", `pods.csv:2: column "memory_mib": "Inf" is not`},
		{"part of a GPU", nodeHeader + node, podHeader + "p,1,1,1,1001,,LS,Running,1,2,1\n", `pods.csv:2: column "gpu_milli": "1001" is not a whole number from 0 to 1000`},
		{"left before", nodeHeader + node, podHeader + "p,1,1,0,0,,LS,Running,5,4,1\n", `pods.csv:2: column "deletion_time": 4 is before the creation_time, 5`},
		{"name", nodeHeader + "N_1,1,1,0,\n", podHeader + pod, `nodes.csv:2: column "sn": "N_1" is not a name`},
		{"twice", nodeHeader + node + node, podHeader + pod, `nodes.csv:3: node "n" is there already, at nodes.csv:2`},
		{"short line", nodeHeader + "n,1\n", podHeader + pod, "nodes.csv: line 2: wrong number of fields"},
		{"quote", nodeHeader + "n,\"1,1,0,\n", podHeader + pod, "nodes.csv: line"},
		{"column missing", "sn,cpu_milli,memory_mib\nn,1,1\n", podHeader + pod, `nodes.csv:2: column "gpu": the file has no such column`},
		{"column twice", "sn,sn,cpu_milli,memory_mib\nn,n,1,1\n", podHeader + pod, `nodes.csv:1: column "sn" is there twice`},
		{"model", nodeHeader + "n,1,1,1,a b\n", podHeader + pod, `nodes.csv:2: column "model": "a b" is not the value of a label`},
		{"no model", nodeHeader + node, podHeader + "p,1,1,1,1,|,LS,Running,1,2,1\n", `pods.csv:2: column "gpu_spec": "|" has no model`},
		{"empty", "", podHeader + pod, "nodes.csv: header: unexpected EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := whatif.ReadOpenB("", []whatif.File{{Name: "nodes.csv", Data: []byte(c.nodes)}, {Name: "pods.csv", Data: []byte(c.pods)}})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// FuzzOpenB verifies that a list of pods is read or refused with its name.
func FuzzOpenB(f *testing.F) {
	f.Add(nodeHeader+"n,1000,1024,2,V100\n", podHeader+"p,1,1,1,500,V100|T4,LS,Running,1,2,1\n")
	f.Add("\xef\xbb\xbf"+nodeHeader+"n,1e3,1024,0,nan\r\n", podHeader+"\"p\",1,1,0,0,,LS,Running,1,,\n\n")
	f.Fuzz(func(t *testing.T, nodes, pods string) {
		_, err := whatif.ReadOpenB("x", []whatif.File{{Name: "nodes.csv", Data: []byte(nodes)}, {Name: "pods.csv", Data: []byte(pods)}})
		if err != nil && !strings.Contains(err.Error(), ".csv") && !strings.Contains(err.Error(), "openb trace needs") {
			t.Errorf("the error names no file: %v", err)
		}
	})
}
