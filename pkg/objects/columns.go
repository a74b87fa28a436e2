package objects

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

var metaDoc = metav1.ObjectMeta{}.SwaggerDoc()

// NameColumn is the first column of every resource.
func NameColumn[T Object]() Column[T] {
	return Column[T]{
		Name: "Name", Format: "name", Description: metaDoc["name"],
		Cell: func(obj T, _ time.Time) any { return obj.GetName() },
	}
}

// AgeColumn shows the time since the creation of an object.
func AgeColumn[T Object]() Column[T] {
	return Column[T]{
		Name: "Age", Description: metaDoc["creationTimestamp"],
		Cell: func(obj T, now time.Time) any { return Age(obj.GetCreationTimestamp(), now) },
	}
}

// Age formats the time since t as kubectl does; a zero t is unknown.
func Age(t metav1.Time, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t.Time))
}
