package discovery

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	endpointsutil "k8s.io/endpointslice/util"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// TestSliceDeletedBeforeTheResponse checks that a slice whose deletion is seen before the response to its creation is not waited for.
func TestSliceDeletedBeforeTheResponse(t *testing.T) {
	e := &endpointSlice{tracker: endpointsutil.NewEndpointSliceTracker(), gone: map[objects.Key][]*discoveryv1.EndpointSlice{}}
	web := objects.Key{Namespace: "default", Name: "web"}
	s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-x", UID: "1", Generation: 1, Labels: map[string]string{
		discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: sliceController}}}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}

	if got := e.changedByOthers(client.Change[*discoveryv1.EndpointSlice]{Old: s}); !slices.Equal(got, []objects.Key{web}) {
		t.Errorf("the deletion is a change of %v", got)
	}
	e.tracker.Update(s) // the response
	e.forgetGone(web)
	if e.tracker.StaleSlices(service, nil) {
		t.Error("the controller waits for the deleted slice")
	}

	e.tracker.Update(s)
	e.tracker.ExpectDeletion(s) // its own
	if got := e.changedByOthers(client.Change[*discoveryv1.EndpointSlice]{Old: s}); got != nil {
		t.Errorf("its own deletion is a change of %v", got)
	}
}
