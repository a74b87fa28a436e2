package apps

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

// ReplicaSets is the row of ReplicaSet.
var ReplicaSets = objects.Def[*appsv1.ReplicaSet]{
	Names: objects.Names{Group: "apps", Version: "v1", Kind: "ReplicaSet", Plural: "replicasets",
		Short: []string{"rs"}, Categories: []string{"all"}},
	Versions:   oldReplicaSets,
	New:        func() *appsv1.ReplicaSet { return &appsv1.ReplicaSet{} },
	Controller: "replicaset-controller",
	NewList:    func() runtime.Object { return &appsv1.ReplicaSetList{} },
	Default:    defaultReplicaSet,
	Prepare:    prepareReplicaSet,
	Validate:   validateReplicaSet,
	Warnings:   replicaSetWarnings,
	Columns:    replicaSetColumns,
	Reset:      []string{"status"},
	Status: &objects.Status[*appsv1.ReplicaSet]{
		Prepare:  func(rs, old *appsv1.ReplicaSet) { rs.Spec = old.Spec },
		Validate: validateReplicaSetStatus,
		Reset:    []string{"spec"},
	},
	Scale: &objects.Scale[*appsv1.ReplicaSet]{
		Spec:     func(rs *appsv1.ReplicaSet) int32 { return value(rs.Spec.Replicas) },
		SetSpec:  func(rs *appsv1.ReplicaSet, n int32) { rs.Spec.Replicas = &n },
		Status:   func(rs *appsv1.ReplicaSet) int32 { return rs.Status.Replicas },
		Selector: func(rs *appsv1.ReplicaSet) string { return selectorString(rs.Spec.Selector) },
	},
}

func defaultReplicaSet(rs *appsv1.ReplicaSet) {
	if rs.Spec.Replicas == nil {
		rs.Spec.Replicas = new(int32(1))
	}
	podspec.DefaultTemplate(&rs.Spec.Template)
}

func prepareReplicaSet(rs, old *appsv1.ReplicaSet) {
	podspec.PrepareTemplate(&rs.Spec.Template)
	if old == nil {
		rs.Status = appsv1.ReplicaSetStatus{}
		rs.Generation = 1
		return
	}
	rs.Status = old.Status
	check.Generation(rs, old, func() bool { return !check.Same(&rs.Spec, &old.Spec) })
}

var (
	replicaSetSpecDoc   = appsv1.ReplicaSetSpec{}.SwaggerDoc()
	replicaSetStatusDoc = appsv1.ReplicaSetStatus{}.SwaggerDoc()
)

var replicaSetColumns = []objects.Column[*appsv1.ReplicaSet]{
	objects.NameColumn[*appsv1.ReplicaSet](),
	{Name: "Desired", Type: "integer", Description: replicaSetSpecDoc["replicas"],
		Cell: func(rs *appsv1.ReplicaSet, _ time.Time) any { return int64(value(rs.Spec.Replicas)) }},
	{Name: "Current", Type: "integer", Description: replicaSetStatusDoc["replicas"],
		Cell: func(rs *appsv1.ReplicaSet, _ time.Time) any { return int64(rs.Status.Replicas) }},
	{Name: "Ready", Type: "integer", Description: replicaSetStatusDoc["readyReplicas"],
		Cell: func(rs *appsv1.ReplicaSet, _ time.Time) any { return int64(rs.Status.ReadyReplicas) }},
	objects.AgeColumn[*appsv1.ReplicaSet](),
	{Name: "Containers", Wide: true, Description: "Names of each container in the template.",
		Cell: func(rs *appsv1.ReplicaSet, _ time.Time) any { return podspec.ContainerNames(&rs.Spec.Template.Spec) }},
	{Name: "Images", Wide: true, Description: "Images referenced by each container in the template.",
		Cell: func(rs *appsv1.ReplicaSet, _ time.Time) any { return podspec.Images(&rs.Spec.Template.Spec) }},
	{Name: "Selector", Wide: true, Description: replicaSetSpecDoc["selector"],
		Cell: func(rs *appsv1.ReplicaSet, _ time.Time) any { return metav1.FormatLabelSelector(rs.Spec.Selector) }},
}
