package builtin

import (
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/feature"
	"github.com/minikctl/minikctl/pkg/objects/scheduling"
)

// ResourcesWith returns every built-in resource of a cluster with these feature gates. Without any they are Resources. The slice is shared
// and must not be changed.
func ResourcesWith(g feature.Gates) []objects.Resource {
	if !g.GenericWorkload {
		return Resources()
	}
	return withWorkloads()
}

var withWorkloads = sync.OnceValue(func() []objects.Resource {
	return append(slices.Clone(rows()), objects.Row(scheduling.Workloads()), objects.Row(scheduling.PodGroups()))
})

// withoutSchedulingGroups returns the rows of a cluster without the feature gate GenericWorkload: they drop the scheduling groups of pod
// specs, except in objects that have one since a time when the gate was on.
func withoutSchedulingGroups(rows []objects.Resource) []objects.Resource {
	rows = slices.Clone(rows)
	for i := range rows {
		prepare := rows[i].Prepare
		if _, has := podSpecOf(rows[i].New()); !has {
			continue
		}
		rows[i].Prepare = func(obj, old objects.Object) {
			spec, _ := podSpecOf(obj)
			before, _ := podSpecOf(old)
			if spec != nil && (before == nil || before.SchedulingGroup == nil) {
				spec.SchedulingGroup = nil
			}
			prepare(obj, old)
		}
	}
	return rows
}

// podSpecOf returns the pod spec of an object, nil if it has none, and whether objects of its kind have one.
func podSpecOf(obj objects.Object) (spec *corev1.PodSpec, has bool) {
	switch o := obj.(type) {
	case *corev1.Pod:
		return &o.Spec, true
	case *corev1.PodTemplate:
		return &o.Template.Spec, true
	case *corev1.ReplicationController:
		if o.Spec.Template == nil {
			return nil, true
		}
		return &o.Spec.Template.Spec, true
	case *appsv1.Deployment:
		return &o.Spec.Template.Spec, true
	case *appsv1.ReplicaSet:
		return &o.Spec.Template.Spec, true
	case *appsv1.StatefulSet:
		return &o.Spec.Template.Spec, true
	case *appsv1.DaemonSet:
		return &o.Spec.Template.Spec, true
	case *batchv1.Job:
		return &o.Spec.Template.Spec, true
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template.Spec, true
	}
	return nil, false
}
