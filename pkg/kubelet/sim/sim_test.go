package sim_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/kubelet/runtimetest"
	"github.com/minikctl/minikctl/pkg/kubelet/sim"
)

func TestRuntime(t *testing.T) {
	runtimetest.Run(t, runtimetest.Driver{
		New: func(string) (kubelet.Runtime, func() error, error) {
			return sim.New(clock.Real()), func() error { return nil }, nil
		},
		Tier: sim.Tier,
	})
}

// start starts a pod with annotations, and in it a container called main.
func start(t *testing.T, rt kubelet.Runtime, uid types.UID, annotations map[string]string) error {
	t.Helper()
	return startOf(t, rt, uid, "", annotations)
}

// startOf is start for a pod that a controller of a kind owns.
func startOf(t *testing.T, rt kubelet.Runtime, uid types.UID, owner string, annotations map[string]string) error {
	t.Helper()
	if _, err := rt.StartPod(t.Context(), kubelet.PodSpec{UID: uid, Name: string(uid), OwnerKind: owner, Annotations: annotations}); err != nil {
		t.Fatal(err)
	}
	_, err := rt.Start(t.Context(), uid, kubelet.ContainerSpec{Name: "main"})
	return err
}

func pods(t *testing.T, rt kubelet.Runtime) []kubelet.Pod {
	t.Helper()
	all, err := rt.Pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestRules(t *testing.T) {
	began := time.Unix(1_700_000_000, 0)
	for _, c := range []struct {
		name        string
		owner       string
		annotations map[string]string
		code        int
		after       time.Duration
	}{
		{"after", "", map[string]string{sim.ExitAfter: "10s"}, 0, 10 * time.Second},
		{"at once", "", map[string]string{sim.ExitAfter: "0"}, 0, 0},
		{"of a job", "Job", nil, 0, 100 * time.Millisecond},
		{"of a job with a rule", "Job", map[string]string{sim.ExitAfter: "5s", sim.ExitCode: "2"}, 2, 5 * time.Second},
		{"code", "", map[string]string{sim.ExitAfter: "10s", sim.ExitCode: "3"}, 3, 10 * time.Second},
		{"first failure", "", map[string]string{sim.FailTimes: "1"}, 1, 100 * time.Millisecond},
		{"failure with a code", "", map[string]string{sim.FailTimes: "1", sim.ExitCode: "7", sim.ExitAfter: "3s"}, 7, 3 * time.Second},
		{"failure for a time", "", map[string]string{sim.FailFor: "1m", sim.ExitAfter: "3s"}, 1, 3 * time.Second},
		{"own", "", map[string]string{sim.ExitAfter: "10s", sim.ExitAfter + ".main": "5s", sim.ExitCode + ".main": "4"}, 4, 5 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			clk := testclock.NewFakeClock(began)
			rt := sim.New(clk)
			if err := startOf(t, rt, "a", c.owner, c.annotations); err != nil {
				t.Fatal(err)
			}
			if c.after > 0 {
				clk.SetTime(began.Add(c.after - time.Millisecond))
				if !pods(t, rt)[0].Containers[0].Running {
					t.Error("it has ended too early")
				}
			}
			clk.SetTime(began.Add(c.after))
			got := ended(t, rt)
			if got.ExitCode != c.code || !got.Finished.Equal(clk.Now()) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// ended waits for the end of the only container.
func ended(t *testing.T, rt kubelet.Runtime) kubelet.Container {
	t.Helper()
	for {
		if c := pods(t, rt)[0].Containers[0]; !c.Running {
			return c
		}
		select {
		case <-rt.Changed():
		case <-t.Context().Done():
			t.Fatal("it has not ended")
		}
	}
}

func TestBadRules(t *testing.T) {
	rt := sim.New(clock.Real())
	for i, c := range []struct {
		annotations map[string]string
		want        string
	}{
		{map[string]string{sim.ExitAfter: "soon"}, `annotation minikctl.dev/sim-exit-after: "soon" is no duration such as 30s`},
		{map[string]string{sim.ExitAfter: "-1s"}, `annotation minikctl.dev/sim-exit-after: "-1s" is no duration such as 30s`},
		{map[string]string{sim.FailTimes: "-1"}, `annotation minikctl.dev/sim-fail-times: "-1" is no number such as 2`},
		{map[string]string{sim.FailFor: "never"}, `annotation minikctl.dev/sim-fail-for: "never" is no duration such as 30s`},
		{map[string]string{sim.ReadyAfter + ".other": "no"}, `annotation minikctl.dev/sim-ready-after.other: "no" is neither a duration such as 30s nor "never"`},
		{map[string]string{sim.PullAfter: "-1s"}, `annotation minikctl.dev/sim-pull-after: "-1s" is neither a duration such as 30s nor "never"`},
		{map[string]string{sim.ExitAfter: "1s", sim.ExitCode + ".main": "256"}, `annotation minikctl.dev/sim-exit-code.main: "256" is no exit code from 0 to 255`},
	} {
		if err := start(t, rt, types.UID(fmt.Sprint(i)), c.annotations); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// TestFailures: the first starts fail. In a Job's pods, the starts of all of them count together.
func TestFailures(t *testing.T) {
	for _, c := range []struct {
		name, owner string
		rules       map[string]string
		want        string // of four starts, 30 s apart: the exit code, or - for a container that runs on
	}{
		{"of a pod", "ReplicaSet", map[string]string{sim.FailTimes: "2"}, "1 1 - -"},
		{"of a job", "Job", map[string]string{sim.FailTimes: "2"}, "1 1 0 0"},
		{"for a time", "ReplicaSet", map[string]string{sim.FailFor: "1m", sim.ExitCode: "9"}, "9 9 - -"},
		{"of a job for a time", "Job", map[string]string{sim.FailFor: "45s"}, "1 1 0 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			clk := testclock.NewFakeClock(time.Unix(1_700_000_000, 0))
			cl, job := newJob(t)
			rt := sim.NewCluster(clk, cl).Runtime("")
			var got []string
			for i := range 4 {
				uid, attempt := types.UID("a"), i
				if c.owner == "Job" { // each retry is a new pod
					uid, attempt = types.UID(fmt.Sprint(i)), 0
				}
				spec := podOf(job, uid, c.rules)
				spec.OwnerKind = c.owner
				if _, err := rt.StartPod(t.Context(), spec); err != nil {
					t.Fatal(err)
				}
				id, err := rt.Start(t.Context(), uid, kubelet.ContainerSpec{Name: "main", Attempt: attempt})
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, outcome(t, rt, clk, id))
				clk.Step(29 * time.Second)
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("got %s, want %s", text, c.want)
			}
		})
	}
}

// outcome returns the exit code of a container after a second, and - for one that runs on.
func outcome(t *testing.T, rt kubelet.Runtime, clk *testclock.FakeClock, id kubelet.ContainerID) string {
	t.Helper()
	ends := clk.HasWaiters()
	clk.Step(time.Second)
	for {
		for _, p := range pods(t, rt) {
			for _, c := range p.Containers {
				if c.ID == id && !c.Running {
					return fmt.Sprint(c.ExitCode)
				}
			}
		}
		if !ends {
			return "-"
		}
		<-rt.Changed()
	}
}

func TestStopBeforeExitAfter(t *testing.T) {
	clk := testclock.NewFakeClock(time.Unix(1_700_000_000, 0))
	rt := sim.New(clk)
	if err := start(t, rt, "a", map[string]string{sim.ExitAfter: "10s"}); err != nil {
		t.Fatal(err)
	}
	if err := rt.Stop(t.Context(), pods(t, rt)[0].Containers[0].ID, 0); err != nil {
		t.Fatal(err)
	}
	clk.Step(time.Minute)
	if got := pods(t, rt)[0].Containers[0]; got.ExitCode != 143 || got.Signal != 15 {
		t.Errorf("got %+v", got)
	}
}

func TestNodesShareAddresses(t *testing.T) {
	cluster := sim.NewCluster(clock.Real(), nil)
	seen := map[string]bool{}
	const nodes, perNode = 300, 250 // more than a /16 has
	for n := range nodes {
		rt := cluster.Runtime("")
		for i := range perNode {
			p, err := rt.StartPod(t.Context(), kubelet.PodSpec{UID: types.UID(fmt.Sprintf("%d-%d", n, i))})
			if err != nil {
				t.Fatal(err)
			}
			if seen[p.IP] || !strings.HasPrefix(p.IP, "10.24") {
				t.Fatalf("got %s", p.IP)
			}
			seen[p.IP] = true
		}
	}
}

// TestPodCIDR: the pods of a node with a podCIDR have addresses of it, and a stopped pod's address is free again.
func TestPodCIDR(t *testing.T) {
	n := sim.NewCluster(clock.Real(), nil).Runtime("n")
	begin := func(uid types.UID, cidr string) (string, error) {
		p, err := n.StartPod(t.Context(), kubelet.PodSpec{UID: uid, Name: string(uid), PodCIDR: cidr})
		return p.IP, err
	}
	for _, tt := range []struct{ uid, cidr, want string }{
		{"a", "10.9.8.0/30", "10.9.8.1"},
		{"b", "10.9.8.0/30", "10.9.8.2"},
		{"c", "10.9.9.0/24", "10.9.9.1"},
		{"d", "", "10.244.0.1"},
		{"e", "fd00::/64", "10.244.0.2"},
	} {
		if got, err := begin(types.UID(tt.uid), tt.cidr); err != nil || got != tt.want {
			t.Errorf("pod %s of a node with %q has %s, %v; want %s", tt.uid, tt.cidr, got, err, tt.want)
		}
	}
	if ip, err := begin("f", "10.9.8.0/30"); err == nil || !strings.Contains(err.Error(), "no address is left") {
		t.Errorf("a third address of /30: %s, %v", ip, err)
	}
	if err := n.StopPod(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if ip, err := begin("f", "10.9.8.0/30"); err != nil || ip != "10.9.8.1" {
		t.Errorf("after the end of a pod: %s, %v", ip, err)
	}
}
