package core

import (
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	eventsv1beta1 "k8s.io/api/events/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
)

// oldEvents serves events as events.k8s.io/v1beta1, which Kubernetes has removed. It has the fields of v1.
var oldEvents = objects.Version[*corev1.Event]{
	Group: "events.k8s.io", Version: "v1beta1",
	Deprecated: objects.RemovalWarning("events.k8s.io/v1beta1", "Event", &eventsv1beta1.Event{}),
	New:        func() runtime.Object { return &eventsv1beta1.Event{} },
	NewList:    func() runtime.Object { return &eventsv1beta1.EventList{} },
	To: func(obj runtime.Object) (*corev1.Event, error) {
		in, err := objects.Recode(obj, &eventsv1.Event{})
		if err != nil {
			return nil, err
		}
		return eventFromNew(in)
	},
	From: func(e *corev1.Event) (runtime.Object, error) {
		return objects.Recode(eventToNew(e), &eventsv1beta1.Event{})
	},
	Label:   newEventLabel,
	Renamed: newEventFields,
}
