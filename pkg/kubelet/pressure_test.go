package kubelet

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
)

// newPressureRig returns a rig whose machine has as much memory available as available returns for the containers that have ended.
func newPressureRig(t *testing.T, e Eviction, available func(ended []string) int64) *rig {
	var r *rig
	started := make(chan struct{})
	r = newRig(t, func(_ *HostConfig, c *Config) {
		c.Node.Eviction = e
		c.readPressure = func(string) pressure {
			select {
			case <-started:
			default:
				return pressure{}
			}
			r.runtime.mu.Lock()
			defer r.runtime.mu.Unlock()
			return pressure{memory: supply{available(r.runtime.ended), 1 << 30}}
		}
	})
	close(started)
	return r
}

// waitEvicted advances the clock until a pod has been evicted.
func (r *rig) waitEvicted(name, container string) *corev1.Pod {
	r.t.Helper()
	return r.waitSummaryAdvancing(name, "Failed (Evicted) "+container+":Error=143")
}

// endedWithin checks the grace period of an evicted pod's container. The clock advances while the test waits, so that less than the whole
// period may have been left when the runtime was asked to stop it.
func (r *rig) endedWithin(pod *corev1.Pod, container string, least, most time.Duration) {
	r.t.Helper()
	if grace := r.runtime.graces[ContainerID(string(pod.UID)+"_"+container+"_0")]; grace <= least || grace > most {
		r.t.Errorf("%s had %s to end", container, grace)
	}
}

func TestEvictionUnderPressure(t *testing.T) {
	thresholds := Eviction{Hard: map[string]string{"memory.available": "100Mi"}, TransitionPeriod: 5 * time.Minute}
	var pressed atomic.Bool
	r := newPressureRig(t, thresholds, func(ended []string) int64 {
		if pressed.Load() && !slices.Contains(ended, "low") {
			return 50 << 20
		}
		return 200 << 20
	})
	r.create(client.Target{Resource: schedulingv1.SchemeGroupVersion.WithResource("priorityclasses")},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000})
	r.pod("high", corev1.PodSpec{PriorityClassName: "high", Containers: []corev1.Container{{Name: "high"}}})
	r.pod("low", corev1.PodSpec{Containers: []corev1.Container{{Name: "low"}}})
	r.waitSummary("high", "Running high:running+started+ready")
	r.waitSummary("low", "Running low:running+started+ready")
	pressed.Store(true)
	got := r.waitEvicted("low", "low")
	const message = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. "
	if got.Status.Message != message {
		t.Errorf("got message %q", got.Status.Message)
	}
	if c := conditionOf(got, corev1.DisruptionTarget); c.Status != corev1.ConditionTrue || c.Reason != "TerminationByKubelet" {
		t.Errorf("got condition %+v", c)
	}
	r.endedWithin(got, "low", 0, time.Second)
	r.event("low", "Evicted", message)
	r.event("n1", "EvictionThresholdMet", "Attempting to reclaim memory")
	r.event("n1", "NodeHasInsufficientMemory", "Node n1 status is now: NodeHasInsufficientMemory")
	if got := r.pressure(); got != "MemoryPressure" {
		t.Errorf("the node has the conditions %s", got)
	}
	// Under memory pressure only BestEffort pods that do not tolerate it are rejected.
	r.pod("besteffort", corev1.PodSpec{})
	got = r.waitSummary("besteffort", "Failed (Evicted)")
	if got.Status.Message != "Pod was rejected: The node had condition: [MemoryPressure]. " {
		t.Errorf("got message %q", got.Status.Message)
	}
	requests := corev1.ResourceList{"memory": resource.MustParse("1Mi")}
	r.pod("burstable", corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: requests}}}})
	r.waitSummary("burstable", "Running c:running+started+ready")
	r.pod("tolerant", corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists}}})
	r.waitSummary("tolerant", "Running c:running+started+ready")

	r.until("the end of the pressure", func() string {
		r.advance(10 * time.Second)
		return r.pressure()
	})
	r.event("n1", "NodeHasSufficientMemory", "Node n1 status is now: NodeHasSufficientMemory")
	r.pod("later", corev1.PodSpec{})
	r.waitSummary("later", "Running c:running+started+ready")
	r.waitSummary("high", "Running high:running+started+ready")
}

// pressure returns the node's conditions about pressure that are true.
func (r *rig) pressure() string {
	r.t.Helper()
	got, err := r.api.Get(r.t.Context(), client.Target{Resource: client.Nodes, Name: "n1"}, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	var out []string
	for _, c := range got.(*corev1.Node).Status.Conditions {
		if strings.HasSuffix(string(c.Type), "Pressure") && c.Status == corev1.ConditionTrue {
			out = append(out, string(c.Type))
		}
	}
	return strings.Join(out, " ")
}

// TestSoftEviction checks that a soft threshold evicts after its time, with the pod's grace period up to the maximum.
func TestSoftEviction(t *testing.T) {
	var pressed atomic.Bool
	r := newPressureRig(t, Eviction{
		Soft: map[string]string{"memory.available": "10%"}, SoftGracePeriod: map[string]string{"memory.available": "1m"}, MaxPodGracePeriod: 7,
	}, func(ended []string) int64 {
		if pressed.Load() && len(ended) == 0 {
			return 50 << 20
		}
		return 1 << 30
	})
	r.pod("p", corev1.PodSpec{})
	r.waitSummary("p", "Running c:running+started+ready")
	started := r.clock.Now()
	pressed.Store(true)
	got := r.waitEvicted("p", "c")
	if after := r.clock.Since(started); after < time.Minute {
		t.Errorf("the pod was evicted after %s", after)
	}
	r.endedWithin(got, "c", time.Second, 7*time.Second)
}

// TestEvictionAboveLimit evicts a pod whose emptyDir is larger than its limit, and no other.
func TestEvictionAboveLimit(t *testing.T) {
	r := newRig(t)
	limit := resource.MustParse("1Mi")
	spec := corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}}},
		Volumes:    []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &limit}}}},
	}
	r.pod("small", spec)
	r.pod("large", spec)
	r.waitSummary("small", "Running c:running+started+ready")
	pod := r.waitSummary("large", "Running c:running+started+ready")
	directory := r.host.worker(r.kubelet, keyOf(pod), pod.UID).volumes.directory("v")
	if err := os.WriteFile(filepath.Join(directory, "file"), make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	got := r.waitEvicted("large", "c")
	if want := `Usage of EmptyDir volume "v" exceeds the limit "1Mi". `; got.Status.Message != want {
		t.Errorf("got message %q", got.Status.Message)
	}
	r.waitSummary("small", "Running c:running+started+ready")
}
