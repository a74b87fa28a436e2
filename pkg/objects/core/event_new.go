package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
)

// newEvents serves events as events.k8s.io/v1, which has other names for some fields.
var newEvents = objects.Version[*corev1.Event]{
	Group: "events.k8s.io", Version: "v1",
	New:      func() runtime.Object { return &eventsv1.Event{} },
	NewList:  func() runtime.Object { return &eventsv1.EventList{} },
	To:       eventFromNew,
	From:     func(e *corev1.Event) (runtime.Object, error) { return eventToNew(e), nil },
	Label:    newEventLabel,
	Renamed:  newEventFields,
	Validate: validateNewEvent,
}

func eventFromNew(obj runtime.Object) (*corev1.Event, error) {
	in, ok := obj.(*eventsv1.Event)
	if !ok {
		return nil, fmt.Errorf("convert %T to an Event", obj)
	}
	in = in.DeepCopy()
	e := &corev1.Event{
		ObjectMeta: in.ObjectMeta, InvolvedObject: in.Regarding, Related: in.Related, Reason: in.Reason, Action: in.Action,
		Message: in.Note, Type: in.Type, Source: in.DeprecatedSource, FirstTimestamp: in.DeprecatedFirstTimestamp,
		LastTimestamp: in.DeprecatedLastTimestamp, Count: in.DeprecatedCount, EventTime: in.EventTime,
		ReportingController: in.ReportingController, ReportingInstance: in.ReportingInstance,
	}
	if s := in.Series; s != nil {
		e.Series = &corev1.EventSeries{Count: s.Count, LastObservedTime: s.LastObservedTime}
	}
	return e, nil
}

func eventToNew(e *corev1.Event) *eventsv1.Event {
	e = e.DeepCopy()
	out := &eventsv1.Event{
		ObjectMeta: e.ObjectMeta, Regarding: e.InvolvedObject, Related: e.Related, Reason: e.Reason, Action: e.Action,
		Note: e.Message, Type: e.Type, DeprecatedSource: e.Source, DeprecatedFirstTimestamp: e.FirstTimestamp,
		DeprecatedLastTimestamp: e.LastTimestamp, DeprecatedCount: e.Count, EventTime: e.EventTime,
		ReportingController: e.ReportingController, ReportingInstance: e.ReportingInstance,
	}
	if s := e.Series; s != nil {
		out.Series = &eventsv1.EventSeries{Count: s.Count, LastObservedTime: s.LastObservedTime}
	}
	return out
}

var newEventFields = map[string]string{"reportingComponent": "reportingController"}

var newEventLabels = map[string]string{
	"regarding.kind":            "involvedObject.kind",
	"regarding.namespace":       "involvedObject.namespace",
	"regarding.name":            "involvedObject.name",
	"regarding.uid":             "involvedObject.uid",
	"regarding.apiVersion":      "involvedObject.apiVersion",
	"regarding.resourceVersion": "involvedObject.resourceVersion",
	"regarding.fieldPath":       "involvedObject.fieldPath",
	"reportingController":       "reportingComponent",
	"reason":                    "reason",
	"type":                      "type",
	"metadata.name":             "metadata.name",
	"metadata.namespace":        "metadata.namespace",
}

func newEventLabel(field, value string) (string, string) {
	if stored, ok := newEventLabels[field]; ok {
		return stored, value
	}
	return "", "" // fields that the version lacks or names differently
}
