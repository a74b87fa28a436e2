package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

// The maximum lengths of texts in events with an event time.
const (
	maxEventName = 128 // of the reporting instance, and also of action and reason
	maxEventNote = 1024
)

// validateEvent checks events of both groups. Writes in events.k8s.io/v1 have further checks.
func validateEvent(e, _ *corev1.Event) field.ErrorList {
	var errs field.ErrorList
	if e.EventTime.IsZero() {
		errs = oldEvent(e)
	} else {
		errs = timedEvent(e)
	}
	return append(errs, check.Subdomain(e.Namespace, field.NewPath("namespace"))...)
}

func otherNamespace(e *corev1.Event) *field.Error {
	return field.Invalid(field.NewPath("involvedObject", "namespace"), e.InvolvedObject.Namespace, "does not match event.namespace")
}

// oldEvent checks an event without an eventTime. An event about a cluster-scoped object must be in the default namespace.
func oldEvent(e *corev1.Event) field.ErrorList {
	of := e.InvolvedObject.Namespace
	if of == e.Namespace || of == "" && e.Namespace == metav1.NamespaceDefault {
		return nil
	}
	return field.ErrorList{otherNamespace(e)}
}

func timedEvent(e *corev1.Event) field.ErrorList {
	var errs field.ErrorList
	if e.InvolvedObject.Namespace == "" && e.Namespace != metav1.NamespaceDefault && e.Namespace != metav1.NamespaceSystem {
		errs = append(errs, otherNamespace(e))
	}
	controller := field.NewPath("reportingComponent")
	if e.ReportingController == "" {
		errs = append(errs, field.Required(controller, ""))
	}
	errs = append(errs, check.Qualified(e.ReportingController, controller)...)
	errs = append(errs, eventText(e.ReportingInstance, "reportingInstance")...)
	errs = append(errs, eventText(e.Action, "action")...)
	errs = append(errs, eventText(e.Reason, "reason")...)
	if len(e.Message) > maxEventNote {
		errs = append(errs, tooLongText("message", maxEventNote))
	}
	return errs
}

func eventText(text, name string) field.ErrorList {
	switch {
	case text == "":
		return field.ErrorList{field.Required(field.NewPath(name), "")}
	case len(text) > maxEventName:
		return field.ErrorList{tooLongText(name, maxEventName)}
	}
	return nil
}

func tooLongText(name string, most int) *field.Error {
	return field.Invalid(field.NewPath(name), "", fmt.Sprintf("can have at most %v characters", most))
}

// validateNewEvent has the further checks of a write in events.k8s.io/v1.
func validateNewEvent(e, old *corev1.Event) field.ErrorList {
	if old != nil {
		return newEventChanges(e, old)
	}
	errs := append(check.Meta(e, true, apivalidation.NameIsDNSSubdomain), eventSeries(e)...)
	if e.EventTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("eventTime"), ""))
	}
	if e.Type != corev1.EventTypeNormal && e.Type != corev1.EventTypeWarning {
		errs = append(errs, field.Invalid(field.NewPath("type"), "", fmt.Sprintf("has invalid value: %v", e.Type)))
	}
	unset := func(is bool, name string) {
		if !is {
			errs = append(errs, field.Invalid(field.NewPath(name), "", "needs to be unset"))
		}
	}
	unset(e.FirstTimestamp.IsZero(), "firstTimestamp")
	unset(e.LastTimestamp.IsZero(), "lastTimestamp")
	unset(e.Count == 0, "count")
	unset(e.Source == (corev1.EventSource{}), "source")
	return errs
}

func eventSeries(e *corev1.Event) field.ErrorList {
	if e.Series == nil {
		return nil
	}
	var errs field.ErrorList
	if e.Series.Count < 2 {
		errs = append(errs, field.Invalid(field.NewPath("series.count"), "", "should be at least 2"))
	}
	if e.Series.LastObservedTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("series.lastObservedTime"), ""))
	}
	return errs
}

// newEventChanges rejects changes of fields other than series.
func newEventChanges(e, old *corev1.Event) field.ErrorList {
	errs := check.MetaUpdate(e, old)
	if !equality.Semantic.DeepEqual(e.Series, old.Series) {
		errs = append(errs, eventSeries(e)...)
	}
	fields := []struct {
		name     string
		now, was any
	}{
		{"involvedObject", e.InvolvedObject, old.InvolvedObject}, {"reason", e.Reason, old.Reason}, {"message", e.Message, old.Message},
		{"source", e.Source, old.Source}, {"firstTimestamp", e.FirstTimestamp, old.FirstTimestamp},
		{"lastTimestamp", e.LastTimestamp, old.LastTimestamp}, {"count", e.Count, old.Count}, {"reason", e.Reason, old.Reason},
		{"type", e.Type, old.Type}, {"eventTime", e.EventTime, old.EventTime}, {"action", e.Action, old.Action},
		{"related", e.Related, old.Related}, {"reportingController", e.ReportingController, old.ReportingController},
		{"reportingInstance", e.ReportingInstance, old.ReportingInstance},
	}
	for _, f := range fields {
		errs = append(errs, check.ImmutableShown(f.now, f.was, field.NewPath(f.name))...)
	}
	return errs
}
