package scheduler

import (
	"testing"
	"time"

	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestGroupOutcome: conditions of a PodGroup are written one after the other, and it stays scheduled although the scheduler's copy of it
// does not show that yet.
func TestGroupOutcome(t *testing.T) {
	is := func(status metav1.ConditionStatus, message string, at int64) metav1.Condition {
		return metav1.Condition{Type: schedulingv1alpha2.PodGroupScheduled, Status: status, Message: message, LastTransitionTime: metav1.NewTime(time.Unix(at, 0))}
	}
	group := &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{UID: "a"}} // as it was before all writes
	var o groupOutcome
	next := func(what, want string) {
		t.Helper()
		got := ""
		if _, c := o.next(); c != nil {
			got = string(c.Status) + " " + c.Message
		}
		if got != want {
			t.Errorf("%s: write %q, want %q", what, got, want)
		}
	}
	decide := func(what string, c metav1.Condition, want bool) {
		t.Helper()
		if got := o.decide(group, c); got != want {
			t.Errorf("%s: begin to write: %v, want %v", what, got, want)
		}
	}
	decide("first", is(metav1.ConditionFalse, "x", 1), true)
	next("first", "False x")
	decide("another while one is written", is(metav1.ConditionFalse, "y", 2), false)
	decide("scheduled while one is written", is(metav1.ConditionTrue, "", 3), false)
	next("the last of those that wait", "True ")
	next("nothing waits", "")
	decide("an extra pod finds no node", is(metav1.ConditionFalse, "x", 4), false)
	decide("scheduled again", is(metav1.ConditionTrue, "", 5), false)
	next("nothing new", "")
	group = &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{UID: "b"}}
	decide("another PodGroup of the name", is(metav1.ConditionFalse, "x", 6), true)
	next("another PodGroup of the name", "False x")
	o.failed()
	next("after a failure", "")
	decide("the same after a failure", is(metav1.ConditionFalse, "x", 7), true)
	next("the same after a failure", "False x")
}
