package apps

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
	"github.com/minikctl/minikctl/pkg/objects/volume"
)

// StatefulSets is the row of StatefulSet.
var StatefulSets = objects.Def[*appsv1.StatefulSet]{
	Names: objects.Names{Group: "apps", Version: "v1", Kind: "StatefulSet", Plural: "statefulsets",
		Short: []string{"sts"}, Categories: []string{"all"}},
	Versions:   oldStatefulSets,
	New:        func() *appsv1.StatefulSet { return &appsv1.StatefulSet{} },
	Controller: "statefulset-controller",
	NewList:    func() runtime.Object { return &appsv1.StatefulSetList{} },
	Default:    defaultStatefulSet,
	Prepare:    prepareStatefulSet,
	Validate:   validateStatefulSet,
	Warnings:   statefulSetWarnings,
	Columns: []objects.Column[*appsv1.StatefulSet]{
		objects.NameColumn[*appsv1.StatefulSet](),
		{Name: "Ready", Description: "Number of the pod with ready state", Cell: func(set *appsv1.StatefulSet, _ time.Time) any {
			return fmt.Sprintf("%d/%d", set.Status.ReadyReplicas, value(set.Spec.Replicas))
		}},
		objects.AgeColumn[*appsv1.StatefulSet](),
		{Name: "Containers", Wide: true, Description: "Names of each container in the template.",
			Cell: func(set *appsv1.StatefulSet, _ time.Time) any {
				return podspec.ContainerNames(&set.Spec.Template.Spec)
			}},
		{Name: "Images", Wide: true, Description: "Images referenced by each container in the template.",
			Cell: func(set *appsv1.StatefulSet, _ time.Time) any { return podspec.Images(&set.Spec.Template.Spec) }},
	},
	Reset: []string{"status"},
	Status: &objects.Status[*appsv1.StatefulSet]{
		Prepare:  func(set, old *appsv1.StatefulSet) { set.Spec = old.Spec },
		Validate: validateStatefulSetStatus,
		Reset:    []string{"spec"},
	},
	Scale: &objects.Scale[*appsv1.StatefulSet]{
		Spec:     func(set *appsv1.StatefulSet) int32 { return value(set.Spec.Replicas) },
		SetSpec:  func(set *appsv1.StatefulSet, n int32) { set.Spec.Replicas = &n },
		Status:   func(set *appsv1.StatefulSet) int32 { return set.Status.Replicas },
		Selector: func(set *appsv1.StatefulSet) string { return selectorString(set.Spec.Selector) },
	},
}

func defaultStatefulSet(set *appsv1.StatefulSet) {
	s := &set.Spec
	if s.PodManagementPolicy == "" {
		s.PodManagementPolicy = appsv1.OrderedReadyPodManagement
	}
	if s.UpdateStrategy.Type == "" {
		s.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		if s.UpdateStrategy.RollingUpdate == nil {
			s.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{}
		}
	}
	if r := s.UpdateStrategy.RollingUpdate; r != nil && s.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType && r.Partition == nil {
		r.Partition = new(int32(0))
	}
	if s.PersistentVolumeClaimRetentionPolicy == nil {
		s.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{}
	}
	if p := s.PersistentVolumeClaimRetentionPolicy; p.WhenDeleted == "" {
		p.WhenDeleted = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	}
	if p := s.PersistentVolumeClaimRetentionPolicy; p.WhenScaled == "" {
		p.WhenScaled = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	}
	if s.Replicas == nil {
		s.Replicas = new(int32(1))
	}
	if s.RevisionHistoryLimit == nil {
		s.RevisionHistoryLimit = new(int32(10))
	}
	podspec.DefaultTemplate(&s.Template)
	for i := range s.VolumeClaimTemplates {
		defaultClaimTemplate(&s.VolumeClaimTemplates[i])
	}
}

func defaultClaimTemplate(c *corev1.PersistentVolumeClaim) {
	c.APIVersion, c.Kind = "v1", "PersistentVolumeClaim"
	if c.Status.Phase == "" {
		c.Status.Phase = corev1.ClaimPending
	}
	volume.DefaultClaimSpec(&c.Spec)
}

func prepareStatefulSet(set, old *appsv1.StatefulSet) {
	podspec.PrepareTemplate(&set.Spec.Template)
	if r := set.Spec.UpdateStrategy.RollingUpdate; r != nil {
		r.MaxUnavailable = nil // its feature gate is off
	}
	if old == nil {
		set.Status = appsv1.StatefulSetStatus{}
		set.Generation = 1
		return
	}
	set.Status = old.Status
	check.Generation(set, old, func() bool { return !check.Same(&set.Spec, &old.Spec) })
}
