package apps

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
)

func newDaemonSet() *appsv1.DaemonSet               { return &appsv1.DaemonSet{} }
func newStatefulSet() *appsv1.StatefulSet           { return &appsv1.StatefulSet{} }
func newRevision() *appsv1.ControllerRevision       { return &appsv1.ControllerRevision{} }
func newExtDaemonSet() *extensionsv1beta1.DaemonSet { return &extensionsv1beta1.DaemonSet{} }

var oldDaemonSets = []objects.Version[*appsv1.DaemonSet]{
	objects.Older("apps/v1beta2", deprecated("apps/v1beta2", "DaemonSet", "v1.9"), newDaemonSet, func() *appsv1beta2.DaemonSet { return &appsv1beta2.DaemonSet{} },
		func() runtime.Object { return &appsv1beta2.DaemonSetList{} }),
	extensionsDaemonSet(),
}

// extensionsDaemonSet is the version with the field templateGeneration and OnDelete as the default strategy.
func extensionsDaemonSet() objects.Version[*appsv1.DaemonSet] {
	v := objects.Older("extensions/v1beta1", deprecated("extensions/v1beta1", "DaemonSet", "v1.8"), newDaemonSet, newExtDaemonSet,
		func() runtime.Object { return &extensionsv1beta1.DaemonSetList{} })
	v.Default = on(defaultDaemonSetExtensions)
	to, from := v.To, v.From
	v.To = func(obj runtime.Object) (*appsv1.DaemonSet, error) {
		ds, err := to(obj)
		if older, ok := obj.(*extensionsv1beta1.DaemonSet); ok && err == nil && older.Spec.TemplateGeneration != 0 {
			setTemplateGeneration(ds, older.Spec.TemplateGeneration)
		}
		return ds, err
	}
	v.From = func(ds *appsv1.DaemonSet) (runtime.Object, error) {
		obj, err := from(ds)
		if older, ok := obj.(*extensionsv1beta1.DaemonSet); ok && err == nil {
			older.Spec.TemplateGeneration, _ = strconv.ParseInt(ds.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64) // 0 if malformed
			delete(older.Annotations, appsv1.DeprecatedTemplateGeneration)
		}
		return obj, err
	}
	return v
}

func defaultDaemonSetExtensions(ds *extensionsv1beta1.DaemonSet) {
	defaultFromTemplate(&ds.ObjectMeta, &ds.Spec.Selector, ds.Spec.Template.Labels)
	if ds.Spec.UpdateStrategy.Type == "" {
		ds.Spec.UpdateStrategy.Type = extensionsv1beta1.OnDeleteDaemonSetStrategyType
	}
}

var oldStatefulSets = []objects.Version[*appsv1.StatefulSet]{
	firstStatefulSet(),
	objects.Older("apps/v1beta2", deprecated("apps/v1beta2", "StatefulSet", "v1.9"), newStatefulSet, func() *appsv1beta2.StatefulSet { return &appsv1beta2.StatefulSet{} },
		func() runtime.Object { return &appsv1beta2.StatefulSetList{} }),
}

// firstStatefulSet is the version with OnDelete as the default strategy.
func firstStatefulSet() objects.Version[*appsv1.StatefulSet] {
	v := objects.Older("apps/v1beta1", deprecated("apps/v1beta1", "StatefulSet", "v1.8"), newStatefulSet, func() *appsv1beta1.StatefulSet { return &appsv1beta1.StatefulSet{} },
		func() runtime.Object { return &appsv1beta1.StatefulSetList{} })
	v.Default = on(func(set *appsv1beta1.StatefulSet) {
		defaultFromTemplate(&set.ObjectMeta, &set.Spec.Selector, set.Spec.Template.Labels)
		if set.Spec.UpdateStrategy.Type == "" {
			set.Spec.UpdateStrategy.Type = appsv1beta1.OnDeleteStatefulSetStrategyType
		}
	})
	return v
}

var oldControllerRevisions = []objects.Version[*appsv1.ControllerRevision]{
	objects.Older("apps/v1beta1", deprecated("apps/v1beta1", "ControllerRevision", "v1.8"), newRevision, func() *appsv1beta1.ControllerRevision { return &appsv1beta1.ControllerRevision{} },
		func() runtime.Object { return &appsv1beta1.ControllerRevisionList{} }),
	objects.Older("apps/v1beta2", deprecated("apps/v1beta2", "ControllerRevision", "v1.9"), newRevision, func() *appsv1beta2.ControllerRevision { return &appsv1beta2.ControllerRevision{} },
		func() runtime.Object { return &appsv1beta2.ControllerRevisionList{} }),
}
