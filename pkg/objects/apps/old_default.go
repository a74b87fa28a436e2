package apps

import (
	"math"

	appsv1beta1 "k8s.io/api/apps/v1beta1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// defaultDeploymentV1beta1 sets only the defaults that differ from apps/v1, which are set afterwards.
func defaultDeploymentV1beta1(d *appsv1beta1.Deployment) {
	defaultFromTemplate(&d.ObjectMeta, &d.Spec.Selector, d.Spec.Template.Labels)
	if d.Spec.RevisionHistoryLimit == nil {
		d.Spec.RevisionHistoryLimit = new(int32(2))
	}
}

// defaultDeploymentExtensions sets the defaults that differ from apps/v1: maxSurge and maxUnavailable 1, and no progress deadline
// nor history limit, for which it sets the highest number.
func defaultDeploymentExtensions(d *extensionsv1beta1.Deployment) {
	defaultFromTemplate(&d.ObjectMeta, &d.Spec.Selector, d.Spec.Template.Labels)
	strategy := &d.Spec.Strategy
	if strategy.Type == "" {
		strategy.Type = extensionsv1beta1.RollingUpdateDeploymentStrategyType
	}
	if strategy.Type == extensionsv1beta1.RollingUpdateDeploymentStrategyType || strategy.RollingUpdate != nil {
		if strategy.RollingUpdate == nil {
			strategy.RollingUpdate = &extensionsv1beta1.RollingUpdateDeployment{}
		}
		if strategy.RollingUpdate.MaxUnavailable == nil {
			strategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(1))
		}
		if strategy.RollingUpdate.MaxSurge == nil {
			strategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(1))
		}
	}
	if d.Spec.ProgressDeadlineSeconds == nil {
		d.Spec.ProgressDeadlineSeconds = new(int32(math.MaxInt32))
	}
	if d.Spec.RevisionHistoryLimit == nil {
		d.Spec.RevisionHistoryLimit = new(int32(math.MaxInt32))
	}
}
