package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Kubernetes no longer serves these versions. They are here because articles and books use them.
var oldDeployments = []objects.Version[*appsv1.Deployment]{
	{
		Group: "apps", Version: "v1beta1",
		New:        func() runtime.Object { return &appsv1beta1.Deployment{} },
		NewList:    func() runtime.Object { return &appsv1beta1.DeploymentList{} },
		Default:    on(defaultDeploymentV1beta1),
		To:         deploymentFromV1beta1,
		From:       deploymentToV1beta1,
		Deprecated: deprecated("apps/v1beta1", "Deployment", "v1.8"),
	},
	{
		Group: "apps", Version: "v1beta2",
		New:     func() runtime.Object { return &appsv1beta2.Deployment{} },
		NewList: func() runtime.Object { return &appsv1beta2.DeploymentList{} },
		To: func(obj runtime.Object) (*appsv1.Deployment, error) {
			return objects.Recode(obj, &appsv1.Deployment{})
		},
		From: func(d *appsv1.Deployment) (runtime.Object, error) {
			return objects.Recode(d, &appsv1beta2.Deployment{})
		},
		Deprecated: deprecated("apps/v1beta2", "Deployment", "v1.9"),
	},
	{
		Group: "extensions", Version: "v1beta1",
		New:        func() runtime.Object { return &extensionsv1beta1.Deployment{} },
		NewList:    func() runtime.Object { return &extensionsv1beta1.DeploymentList{} },
		Default:    on(defaultDeploymentExtensions),
		To:         deploymentFromExtensions,
		From:       deploymentToExtensions,
		Deprecated: deprecated("extensions/v1beta1", "Deployment", "v1.8"),
	},
}

var oldReplicaSets = []objects.Version[*appsv1.ReplicaSet]{
	{
		Group: "apps", Version: "v1beta2",
		New:     func() runtime.Object { return &appsv1beta2.ReplicaSet{} },
		NewList: func() runtime.Object { return &appsv1beta2.ReplicaSetList{} },
		To: func(obj runtime.Object) (*appsv1.ReplicaSet, error) {
			return objects.Recode(obj, &appsv1.ReplicaSet{})
		},
		From: func(rs *appsv1.ReplicaSet) (runtime.Object, error) {
			return objects.Recode(rs, &appsv1beta2.ReplicaSet{})
		},
		Deprecated: deprecated("apps/v1beta2", "ReplicaSet", "v1.9"),
	},
	{
		Group: "extensions", Version: "v1beta1",
		New:     func() runtime.Object { return &extensionsv1beta1.ReplicaSet{} },
		NewList: func() runtime.Object { return &extensionsv1beta1.ReplicaSetList{} },
		Default: on(func(rs *extensionsv1beta1.ReplicaSet) {
			defaultFromTemplate(&rs.ObjectMeta, &rs.Spec.Selector, rs.Spec.Template.Labels)
		}),
		To: func(obj runtime.Object) (*appsv1.ReplicaSet, error) {
			return objects.Recode(obj, &appsv1.ReplicaSet{})
		},
		From: func(rs *appsv1.ReplicaSet) (runtime.Object, error) {
			return objects.Recode(rs, &extensionsv1beta1.ReplicaSet{})
		},
		Deprecated: deprecated("extensions/v1beta1", "ReplicaSet", "v1.8"),
	},
}

func deprecated(version, kind, since string) string {
	return version + " " + kind + " is deprecated in " + since + "+, unavailable in v1.16+; use apps/v1 " + kind
}

// on adapts a typed default function to objects.Version.
func on[V runtime.Object](f func(V)) func(runtime.Object) {
	return func(obj runtime.Object) { f(obj.(V)) }
}

// defaultFromTemplate sets the labels and the selector from the template's labels, as old versions
// do.
func defaultFromTemplate(meta *metav1.ObjectMeta, selector **metav1.LabelSelector, labels map[string]string) {
	if labels == nil {
		return
	}
	if *selector == nil {
		*selector = &metav1.LabelSelector{MatchLabels: labels}
	}
	if len(meta.Labels) == 0 {
		meta.Labels = labels
	}
}
