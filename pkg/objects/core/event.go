package core

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Events is the row of Event, which is also served as events.k8s.io/v1.
var Events = objects.Def[*corev1.Event]{
	Names:          objects.Names{Version: "v1", Kind: "Event", Plural: "events", Short: []string{"ev"}},
	Versions:       []objects.Version[*corev1.Event]{newEvents, oldEvents},
	New:            func() *corev1.Event { return &corev1.Event{} },
	NewList:        func() runtime.Object { return &corev1.EventList{} },
	Validate:       validateEvent,
	Columns:        eventColumns,
	CreateOnUpdate: true,
	Undecoded:      true,
	Selectable: map[string]func(*corev1.Event) string{
		"involvedObject.kind":            func(e *corev1.Event) string { return e.InvolvedObject.Kind },
		"involvedObject.namespace":       func(e *corev1.Event) string { return e.InvolvedObject.Namespace },
		"involvedObject.name":            func(e *corev1.Event) string { return e.InvolvedObject.Name },
		"involvedObject.uid":             func(e *corev1.Event) string { return string(e.InvolvedObject.UID) },
		"involvedObject.apiVersion":      func(e *corev1.Event) string { return e.InvolvedObject.APIVersion },
		"involvedObject.resourceVersion": func(e *corev1.Event) string { return e.InvolvedObject.ResourceVersion },
		"involvedObject.fieldPath":       func(e *corev1.Event) string { return e.InvolvedObject.FieldPath },
		"reason":                         func(e *corev1.Event) string { return e.Reason },
		"reportingComponent":             func(e *corev1.Event) string { return e.ReportingController },
		"source":                         eventComponent,
		"type":                           func(e *corev1.Event) string { return e.Type },
	},
}

// eventComponent returns the reporting component of an event, from the new or the old field.
func eventComponent(e *corev1.Event) string {
	if e.Source.Component != "" {
		return e.Source.Component
	}
	return e.ReportingController
}

var (
	eventDoc    = corev1.Event{}.SwaggerDoc()
	involvedDoc = corev1.ObjectReference{}.SwaggerDoc()
)

var eventColumns = []objects.Column[*corev1.Event]{
	{Name: "Last Seen", Description: eventDoc["lastTimestamp"], Cell: func(e *corev1.Event, now time.Time) any { return eventLast(e, now) }},
	{Name: "Type", Description: eventDoc["type"], Cell: func(e *corev1.Event, _ time.Time) any { return e.Type }},
	{Name: "Reason", Description: eventDoc["reason"], Cell: func(e *corev1.Event, _ time.Time) any { return e.Reason }},
	{Name: "Object", Description: eventDoc["involvedObject"], Cell: func(e *corev1.Event, _ time.Time) any { return eventObject(e) }},
	{Name: "Subobject", Wide: true, Description: involvedDoc["fieldPath"],
		Cell: func(e *corev1.Event, _ time.Time) any { return e.InvolvedObject.FieldPath }},
	{Name: "Source", Wide: true, Description: eventDoc["source"], Cell: func(e *corev1.Event, _ time.Time) any { return eventSource(e) }},
	{Name: "Message", Description: eventDoc["message"],
		Cell: func(e *corev1.Event, _ time.Time) any { return strings.TrimSpace(e.Message) }},
	{Name: "First Seen", Wide: true, Description: eventDoc["firstTimestamp"],
		Cell: func(e *corev1.Event, now time.Time) any { return eventFirst(e, now) }},
	{Name: "Count", Wide: true, Description: eventDoc["count"], Cell: func(e *corev1.Event, _ time.Time) any { return eventCount(e) }},
	{Name: "Name", Format: "name", Wide: true, Description: metav1.ObjectMeta{}.SwaggerDoc()["name"],
		Cell: func(e *corev1.Event, _ time.Time) any { return e.Name }},
}

func eventFirst(e *corev1.Event, now time.Time) string {
	if e.FirstTimestamp.IsZero() {
		return objects.Age(metav1.Time(e.EventTime), now)
	}
	return objects.Age(e.FirstTimestamp, now)
}

func eventLast(e *corev1.Event, now time.Time) string {
	switch {
	case e.Series != nil:
		return objects.Age(metav1.Time(e.Series.LastObservedTime), now)
	case e.LastTimestamp.IsZero():
		return eventFirst(e, now)
	}
	return objects.Age(e.LastTimestamp, now)
}

func eventCount(e *corev1.Event) int64 {
	switch {
	case e.Series != nil:
		return int64(e.Series.Count)
	case e.Count == 0:
		return 1
	}
	return int64(e.Count)
}

func eventObject(e *corev1.Event) string {
	kind := strings.ToLower(e.InvolvedObject.Kind)
	if e.InvolvedObject.Name == "" {
		return kind
	}
	return kind + "/" + e.InvolvedObject.Name
}

func eventSource(e *corev1.Event) string {
	component, instance := eventComponent(e), e.Source.Host
	if instance == "" {
		instance = e.ReportingInstance
	}
	if instance == "" {
		return component
	}
	return component + ", " + instance
}
