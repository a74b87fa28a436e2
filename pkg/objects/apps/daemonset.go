package apps

import (
	"maps"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

// DaemonSets is the row of DaemonSet.
var DaemonSets = objects.Def[*appsv1.DaemonSet]{
	Names: objects.Names{Group: "apps", Version: "v1", Kind: "DaemonSet", Plural: "daemonsets",
		Short: []string{"ds"}, Categories: []string{"all"}},
	Versions:   oldDaemonSets,
	New:        func() *appsv1.DaemonSet { return &appsv1.DaemonSet{} },
	Controller: "daemonset-controller",
	NewList:    func() runtime.Object { return &appsv1.DaemonSetList{} },
	Default:    defaultDaemonSet,
	Prepare:    prepareDaemonSet,
	Validate:   validateDaemonSet,
	Warnings:   daemonSetWarnings,
	Columns:    daemonSetColumns,
	Reset:      []string{"status"},
	Status: &objects.Status[*appsv1.DaemonSet]{
		Prepare: func(ds, old *appsv1.DaemonSet) {
			ds.Spec = old.Spec
			setTemplateGeneration(ds, templateGeneration(old))
		},
		Validate: validateDaemonSetStatus,
		Reset:    []string{"spec"},
	},
}

func defaultDaemonSet(ds *appsv1.DaemonSet) {
	s := &ds.Spec
	if s.UpdateStrategy.Type == "" {
		s.UpdateStrategy.Type = appsv1.RollingUpdateDaemonSetStrategyType
	}
	if s.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		if s.UpdateStrategy.RollingUpdate == nil {
			s.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{}
		}
		if s.UpdateStrategy.RollingUpdate.MaxUnavailable == nil {
			s.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(1))
		}
		if s.UpdateStrategy.RollingUpdate.MaxSurge == nil {
			s.UpdateStrategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(0))
		}
	}
	if s.RevisionHistoryLimit == nil {
		s.RevisionHistoryLimit = new(int32(10))
	}
	podspec.DefaultTemplate(&s.Template)
	setTemplateGeneration(ds, templateGeneration(ds)) // set before managedFields are updated, so that the writer owns it
}

// prepareDaemonSet counts the template's changes in an annotation, which was a field of extensions/v1beta1.
func prepareDaemonSet(ds, old *appsv1.DaemonSet) {
	podspec.PrepareTemplate(&ds.Spec.Template)
	if old == nil {
		ds.Status = appsv1.DaemonSetStatus{}
		ds.Generation = 1
		setTemplateGeneration(ds, max(1, templateGeneration(ds)))
		return
	}
	ds.Status = old.Status
	generation := templateGeneration(old)
	if !check.Same(&ds.Spec.Template, &old.Spec.Template) {
		generation++
	}
	setTemplateGeneration(ds, generation)
	check.Generation(ds, old, func() bool { return !check.Same(&ds.Spec, &old.Spec) })
}

// templateGeneration returns the annotation's number, or 0 if it is missing or malformed.
func templateGeneration(ds *appsv1.DaemonSet) int64 {
	n, err := strconv.ParseInt(ds.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func setTemplateGeneration(ds *appsv1.DaemonSet, n int64) {
	text := strconv.FormatInt(n, 10)
	if ds.Annotations[appsv1.DeprecatedTemplateGeneration] == text {
		return
	}
	ds.Annotations = maps.Clone(ds.Annotations) // may be shared
	if ds.Annotations == nil {
		ds.Annotations = map[string]string{}
	}
	ds.Annotations[appsv1.DeprecatedTemplateGeneration] = text
}

var (
	daemonSetSpecDoc   = appsv1.DaemonSetSpec{}.SwaggerDoc()
	daemonSetStatusDoc = appsv1.DaemonSetStatus{}.SwaggerDoc()
)

var daemonSetColumns = []objects.Column[*appsv1.DaemonSet]{
	objects.NameColumn[*appsv1.DaemonSet](),
	{Name: "Desired", Type: "integer", Description: daemonSetStatusDoc["desiredNumberScheduled"],
		Cell: func(ds *appsv1.DaemonSet, _ time.Time) any { return int64(ds.Status.DesiredNumberScheduled) }},
	{Name: "Current", Type: "integer", Description: daemonSetStatusDoc["currentNumberScheduled"],
		Cell: func(ds *appsv1.DaemonSet, _ time.Time) any { return int64(ds.Status.CurrentNumberScheduled) }},
	{Name: "Ready", Type: "integer", Description: daemonSetStatusDoc["numberReady"],
		Cell: func(ds *appsv1.DaemonSet, _ time.Time) any { return int64(ds.Status.NumberReady) }},
	{Name: "Up-to-date", Type: "integer", Description: daemonSetStatusDoc["updatedNumberScheduled"],
		Cell: func(ds *appsv1.DaemonSet, _ time.Time) any { return int64(ds.Status.UpdatedNumberScheduled) }},
	{Name: "Available", Type: "integer", Description: daemonSetStatusDoc["numberAvailable"],
		Cell: func(ds *appsv1.DaemonSet, _ time.Time) any { return int64(ds.Status.NumberAvailable) }},
	{Name: "Node Selector", Description: corev1.PodSpec{}.SwaggerDoc()["nodeSelector"],
		Cell: func(ds *appsv1.DaemonSet, _ time.Time) any {
			return labels.FormatLabels(ds.Spec.Template.Spec.NodeSelector)
		}},
	objects.AgeColumn[*appsv1.DaemonSet](),
	{Name: "Containers", Wide: true, Description: "Names of each container in the template.",
		Cell: func(ds *appsv1.DaemonSet, _ time.Time) any { return podspec.ContainerNames(&ds.Spec.Template.Spec) }},
	{Name: "Images", Wide: true, Description: "Images referenced by each container in the template.",
		Cell: func(ds *appsv1.DaemonSet, _ time.Time) any { return podspec.Images(&ds.Spec.Template.Spec) }},
	{Name: "Selector", Wide: true, Description: daemonSetSpecDoc["selector"],
		Cell: func(ds *appsv1.DaemonSet, _ time.Time) any { return metav1.FormatLabelSelector(ds.Spec.Selector) }},
}
