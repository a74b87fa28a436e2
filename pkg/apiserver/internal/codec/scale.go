package codec

import (
	"sync"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
)

// scales is the kind of scale subresources. customScales is that of custom resources, whose columns have other descriptions.
var (
	scales = sync.OnceValue(func() *objects.Resource {
		return scaleRow("", "string", autoscalingv1.ScaleSpec{}.SwaggerDoc()["replicas"], autoscalingv1.ScaleStatus{}.SwaggerDoc()["replicas"])
	})

	customScales = sync.OnceValue(func() *objects.Resource {
		return scaleRow("name", "date", "Number of desired replicas", "Number of actual replicas")
	})
)

func scaleRow(nameFormat, ageType, desired, available string) *objects.Resource {
	meta := metav1.ObjectMeta{}.SwaggerDoc()
	r := objects.Row(objects.Def[*autoscalingv1.Scale]{
		Names:   objects.Names{Group: "autoscaling", Version: "v1", Kind: "Scale", Plural: "scales"},
		New:     func() *autoscalingv1.Scale { return new(autoscalingv1.Scale) },
		NewList: func() runtime.Object { return new(autoscalingv1.Scale) },
		Columns: []objects.Column[*autoscalingv1.Scale]{
			{Name: "Name", Format: nameFormat, Description: meta["name"],
				Cell: func(s *autoscalingv1.Scale, _ time.Time) any { return s.Name }},
			{Name: "Desired", Type: "integer", Description: desired,
				Cell: func(s *autoscalingv1.Scale, _ time.Time) any { return int64(s.Spec.Replicas) }},
			{Name: "Available", Type: "integer", Description: available,
				Cell: func(s *autoscalingv1.Scale, _ time.Time) any { return int64(s.Status.Replicas) }},
			{Name: "Age", Type: ageType, Description: meta["creationTimestamp"],
				Cell: func(s *autoscalingv1.Scale, now time.Time) any { return objects.Age(s.CreationTimestamp, now) }},
		},
	})
	return &r
}
