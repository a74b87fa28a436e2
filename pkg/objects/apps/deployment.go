// Package apps holds the rows of the group apps: workloads that keep pods of one template running.
package apps

import (
	"fmt"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

// Deployments is the row of Deployment.
var Deployments = objects.Def[*appsv1.Deployment]{
	Names: objects.Names{Group: "apps", Version: "v1", Kind: "Deployment", Plural: "deployments",
		Short: []string{"deploy"}, Categories: []string{"all"}},
	Versions:   oldDeployments,
	New:        func() *appsv1.Deployment { return &appsv1.Deployment{} },
	Controller: "deployment-controller",
	NewList:    func() runtime.Object { return &appsv1.DeploymentList{} },
	Default:    defaultDeployment,
	Prepare:    prepareDeployment,
	Validate:   validateDeployment,
	Warnings:   deploymentWarnings,
	Columns:    deploymentColumns,
	Reset:      []string{"status"},
	Status: &objects.Status[*appsv1.Deployment]{
		Prepare: func(d, old *appsv1.Deployment) {
			d.Spec = old.Spec
			d.Labels = old.Labels
		},
		Validate: validateDeploymentStatus,
		Reset:    []string{"spec", "metadata.labels"},
	},
	Scale: &objects.Scale[*appsv1.Deployment]{
		Spec:     func(d *appsv1.Deployment) int32 { return value(d.Spec.Replicas) },
		SetSpec:  func(d *appsv1.Deployment, n int32) { d.Spec.Replicas = &n },
		Status:   func(d *appsv1.Deployment) int32 { return d.Status.Replicas },
		Selector: func(d *appsv1.Deployment) string { return selectorString(d.Spec.Selector) },
	},
}

func value(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}

func shownSelector(s *metav1.LabelSelector) string {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return "<invalid>"
	}
	return selector.String()
}

// selectorString formats a selector for the scale subresource.
func selectorString(s *metav1.LabelSelector) string {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return ""
	}
	return selector.String()
}

func defaultDeployment(d *appsv1.Deployment) {
	s := &d.Spec
	if s.Replicas == nil {
		s.Replicas = new(int32(1))
	}
	if s.Strategy.Type == "" {
		s.Strategy.Type = appsv1.RollingUpdateDeploymentStrategyType
	}
	if s.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		if s.Strategy.RollingUpdate == nil {
			s.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{}
		}
		if s.Strategy.RollingUpdate.MaxUnavailable == nil {
			s.Strategy.RollingUpdate.MaxUnavailable = new(intstr.FromString("25%"))
		}
		if s.Strategy.RollingUpdate.MaxSurge == nil {
			s.Strategy.RollingUpdate.MaxSurge = new(intstr.FromString("25%"))
		}
	}
	if s.RevisionHistoryLimit == nil {
		s.RevisionHistoryLimit = new(int32(10))
	}
	if s.ProgressDeadlineSeconds == nil {
		s.ProgressDeadlineSeconds = new(int32(600))
	}
	podspec.DefaultTemplate(&s.Template)
}

// prepareDeployment increments the generation also for changed annotations, since the controller copies them to ReplicaSets.
func prepareDeployment(d, old *appsv1.Deployment) {
	podspec.PrepareTemplate(&d.Spec.Template)
	if old == nil {
		d.Status = appsv1.DeploymentStatus{}
		d.Generation = 1
		return
	}
	d.Status = old.Status
	check.Generation(d, old, func() bool {
		return !maps.Equal(d.Annotations, old.Annotations) || !check.Same(&d.Spec, &old.Spec)
	})
}

var (
	deploymentSpecDoc   = appsv1.DeploymentSpec{}.SwaggerDoc()
	deploymentStatusDoc = appsv1.DeploymentStatus{}.SwaggerDoc()
)

var deploymentColumns = []objects.Column[*appsv1.Deployment]{
	objects.NameColumn[*appsv1.Deployment](),
	{Name: "Ready", Description: "Number of the pod with ready state", Cell: func(d *appsv1.Deployment, _ time.Time) any {
		return fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, value(d.Spec.Replicas))
	}},
	{Name: "Up-to-date", Description: deploymentStatusDoc["updatedReplicas"],
		Cell: func(d *appsv1.Deployment, _ time.Time) any { return int64(d.Status.UpdatedReplicas) }},
	{Name: "Available", Description: deploymentStatusDoc["availableReplicas"],
		Cell: func(d *appsv1.Deployment, _ time.Time) any { return int64(d.Status.AvailableReplicas) }},
	objects.AgeColumn[*appsv1.Deployment](),
	{Name: "Containers", Wide: true, Description: "Names of each container in the template.",
		Cell: func(d *appsv1.Deployment, _ time.Time) any { return podspec.ContainerNames(&d.Spec.Template.Spec) }},
	{Name: "Images", Wide: true, Description: "Images referenced by each container in the template.",
		Cell: func(d *appsv1.Deployment, _ time.Time) any { return podspec.Images(&d.Spec.Template.Spec) }},
	{Name: "Selector", Wide: true, Description: deploymentSpecDoc["selector"],
		Cell: func(d *appsv1.Deployment, _ time.Time) any { return shownSelector(d.Spec.Selector) }},
}
