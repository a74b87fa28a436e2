package node

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

// TestCheckHeartbeat: a node is unreachable at the second check past its grace period.
func TestCheckHeartbeat(t *testing.T) {
	clk := testclock.NewFakeClock(noon)
	r := &nodeLifecycle{clock: clk, config: controller.DefaultNodeLifecycle(), heartbeats: map[string]heartbeat{}}
	known := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "known"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady}}}}
	fresh := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "fresh"}}
	look := func(what string, n *corev1.Node, want string) {
		t.Helper()
		unreachable, again := r.checkHeartbeat(n)
		if got := fmt.Sprint(unreachable, " ", again); got != want {
			t.Errorf("%s: got %s, want %s", what, got, want)
		}
	}
	look("the first time", known, "false 50s")
	look("without a condition Ready", fresh, "false 1m0s")
	clk.Step(30 * time.Second)
	r.recordHeartbeat("known")
	clk.Step(30 * time.Second)
	look("after a heartbeat", known, "false 20s")
	clk.Step(10 * time.Hour)
	look("after a long sleep", known, "false 5s")
	r.recordHeartbeat("known")
	look("and a heartbeat", known, "false 50s")
	clk.Step(50 * time.Second)
	look("past the grace period", known, "false 5s")
	clk.Step(5 * time.Second)
	look("at the second check", known, "true 0s")
	look("at the third check", known, "true 0s")
}

func TestUnknownConditions(t *testing.T) {
	n := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"},
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionUnknown, Reason: "before"},
	}}}
	next, changed := withUnknownConditions(n, noon)
	got := ""
	for _, c := range next.Status.Conditions {
		got += fmt.Sprintf("%s=%s %s; ", c.Type, c.Status, c.Reason)
	}
	want := "Ready=Unknown NodeStatusUnknown; MemoryPressure=Unknown before; DiskPressure=Unknown NodeStatusNeverUpdated; PIDPressure=Unknown NodeStatusNeverUpdated; "
	if got != want || !changed {
		t.Errorf("got %s, changed %t", got, changed)
	}
	if n.Status.Conditions[0].Status != corev1.ConditionTrue {
		t.Error("the shared node was changed")
	}
	if _, changed := withUnknownConditions(next, noon); changed {
		t.Error("the second call changes conditions")
	}
}
