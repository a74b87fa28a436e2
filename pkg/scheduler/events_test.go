package scheduler

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects/builtin"
)

// TestEventResourcesAreServed checks that a plugin of all events makes the scheduler watch only what the API server has.
func TestEventResourcesAreServed(t *testing.T) {
	served := map[schema.GroupVersionResource]bool{}
	for _, r := range builtin.Resources() {
		served[r.Names.GVR()] = true
	}
	var all registeredEvent
	all.Event = framework.ClusterEvent{Resource: framework.WildCard, ActionType: framework.All}
	s := setup{profiles: map[string]*profile{"p": {events: map[string][]registeredEvent{"picky": {all}}}}}
	for r := range s.eventResources() {
		if gvr, ok := gvrOf(r); !ok || !served[gvr] {
			t.Errorf("%s: the API server does not serve %v", r, gvr)
		}
	}
	if s.eventResources().Has(framework.PodGroup) {
		t.Error("events of PodGroups are watched without the feature gate")
	}
	s.features.GenericWorkload = true
	if !s.eventResources().Has(framework.PodGroup) {
		t.Error("events of PodGroups are not watched with the feature gate")
	}
}
