package kubelet

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
)

// nodeReady waits until the node's condition Ready has the given status and message.
func (r *rig) nodeReady(status corev1.ConditionStatus, message string) {
	r.t.Helper()
	r.until("the node's condition Ready", func() string {
		got, err := r.api.Get(r.t.Context(), r.kubelet.nodeTarget(), metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		for _, c := range got.(*corev1.Node).Status.Conditions {
			if c.Type == corev1.NodeReady && (c.Status != status || c.Message != message) {
				return "it is " + string(c.Status) + ": " + c.Message
			}
		}
		return ""
	})
}

const readyMessage = "kubelet is posting ready status"

func TestNodeIsNotReadyWhileTheRuntimeIsUnhealthy(t *testing.T) {
	r := newRig(t)
	r.nodeReady(corev1.ConditionTrue, readyMessage)
	r.event("n1", "NodeReady", "Node n1 status is now: NodeReady")
	r.runtime.fail(errors.New("no supervisor"))
	r.nodeReady(corev1.ConditionFalse, "container runtime is down: no supervisor")
	r.event("n1", "NodeNotReady", "Node n1 status is now: NodeNotReady")
	r.host.renewAll(t.Context(), true)
	r.nodeReady(corev1.ConditionFalse, "container runtime is down: no supervisor")
	r.runtime.fail(nil)
	r.nodeReady(corev1.ConditionTrue, readyMessage)
}

// TestExtendedResourcesStay: a resource that a client has added to the node's capacity stays, also when the kubelet is started again, and is
// allocatable.
func TestExtendedResourcesStay(t *testing.T) {
	r := newRig(t)
	r.nodeReady(corev1.ConditionTrue, readyMessage)
	patch := client.Patch{Type: types.StrategicMergePatchType, Data: []byte(`{"status":{"capacity":{"example.com/slot":"2"}}}`)}
	if _, err := r.api.Patch(t.Context(), r.kubelet.nodeTarget().Sub("status"), patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	r.stop()
	r.start()
	r.until("the extended resource", func() string {
		got, err := r.api.Get(t.Context(), r.kubelet.nodeTarget(), metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		s := got.(*corev1.Node).Status
		capacity, allocatable := s.Capacity["example.com/slot"], s.Allocatable["example.com/slot"]
		if capacity.Value() != 2 || allocatable.Value() != 2 {
			return "capacity " + capacity.String() + ", allocatable " + allocatable.String()
		}
		return ""
	})
}

// TestPodsAreNotLostBeforeTheFirstRelist starts a kubelet whose runtime cannot list its pods yet. The kubelet does not treat a
// running pod as lost.
func TestPodsAreNotLostBeforeTheFirstRelist(t *testing.T) {
	r := newRig(t)
	r.pod("p", corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever})
	r.waitSummary("p", "Running c:running+started+ready")
	r.stop()
	r.runtime.fail(errors.New("no supervisor"))
	r.start()
	r.nodeReady(corev1.ConditionFalse, "container runtime is down: no supervisor")
	r.until("the pod is changed", func() string {
		next := r.get("p").DeepCopy()
		next.Labels = map[string]string{"a": "b"}
		if _, err := r.api.Update(t.Context(), client.In(client.Pods, keyOf(next)), next, metav1.UpdateOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	r.pod("q", corev1.PodSpec{})
	for range 20 {
		r.advance(time.Second)
	}
	r.runtime.fail(nil)
	r.waitSummary("q", "Running c:running+started+ready")
	r.waitSummary("p", "Running c:running+started+ready")
	r.nodeReady(corev1.ConditionTrue, readyMessage)
}

func TestRefusedRegistrationGetsAnEvent(t *testing.T) {
	for _, tier := range []Tier{processTier, simTier} {
		t.Run(tier.Name, func(t *testing.T) {
			r := newRig(t)
			k, err := New(Config{
				Node: NodeConfig{Name: "n2", Tier: tier, Taints: []corev1.Taint{{Key: "a", Effect: "Never"}}},
				Host: r.host, Client: r.api, Runtime: newFakeRuntime(r.clock),
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- k.Run(ctx) }()
			r.event("n2", "RegistrationRefused", `Cannot register node: Node "n2" is invalid: …`)
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
