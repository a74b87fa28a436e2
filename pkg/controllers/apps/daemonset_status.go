package apps

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

// status returns the status of the DaemonSet, and the time until a ready pod becomes available, 0 if there is none.
func (s *daemonSync) status() (appsv1.DaemonSetStatus, time.Duration) {
	status := *s.set.Status.DeepCopy()
	status.ObservedGeneration = s.set.Generation
	status.DesiredNumberScheduled = int32(s.desired())
	status.CurrentNumberScheduled, status.NumberMisscheduled, status.UpdatedNumberScheduled = 0, 0, 0
	status.NumberReady, status.NumberAvailable = 0, 0
	var again time.Duration
	for _, n := range s.nodes {
		switch {
		case n.deleted || len(n.pods) == 0:
			continue
		case !n.run:
			status.NumberMisscheduled++
			continue
		}
		status.CurrentNumberScheduled++
		oldest := n.pods[0]
		if s.isUpdated(oldest) {
			status.UpdatedNumberScheduled++
		}
		if controller.IsPodReady(oldest) {
			status.NumberReady++
		}
		if s.isAvailable(oldest) {
			status.NumberAvailable++
		}
		for _, p := range n.pods { // an update goes on when any of them becomes available
			_, wait := controller.PodAvailable(p, s.minReady(), s.now)
			again = controller.Sooner(again, wait)
		}
	}
	status.NumberUnavailable = status.DesiredNumberScheduled - status.NumberAvailable
	return status, again
}

func (r *daemonSet) writeStatus(ctx context.Context, set *appsv1.DaemonSet, status appsv1.DaemonSetStatus) error {
	if equality.Semantic.DeepEqual(set.Status, status) {
		return nil
	}
	next := set.DeepCopy()
	next.Status = status
	out, err := r.client.Update(ctx, client.In(client.DaemonSets, controller.KeyOf(set)).Sub("status"), next, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	r.sets.Put(out.(*appsv1.DaemonSet))
	return nil
}
