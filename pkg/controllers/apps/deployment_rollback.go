package apps

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// rollBack carries out the rollback of the annotation deprecated.deployment.rollback.to, which conversion makes of
// spec.rollbackTo in apps/v1beta1. Newer clients restore the template themselves. done means that the deployment was written.
func (r *deployment) rollBack(ctx context.Context, ro *rollout) (done bool, err error) {
	d := ro.deployment
	requested, ok := d.Annotations[appsv1.DeprecatedRollbackTo]
	if !ok || d.DeletionTimestamp != nil || d.Spec.Paused {
		return false, nil
	}
	to, err := strconv.ParseInt(requested, 10, 64)
	if err != nil {
		return false, nil //nolint:nilerr // not a number: upstream does not see it either
	}
	if to == 0 {
		if to = ro.lastRevision(); to == 0 {
			r.events.Event(ctx, d, corev1.EventTypeWarning, "DeploymentRollbackRevisionNotFound", "Unable to find last revision.")
			return true, r.endRollback(ctx, d)
		}
	}
	for _, s := range ro.sets() {
		if revision(s) != to {
			continue
		}
		if sameTemplate(&s.Spec.Template, &d.Spec.Template) {
			r.events.Event(ctx, d, corev1.EventTypeWarning, "DeploymentRollbackTemplateUnchanged",
				fmt.Sprintf("The rollback revision contains the same template as current deployment %q", d.Name))
			return true, r.endRollback(ctx, d)
		}
		restore(d, s)
		r.events.Event(ctx, d, corev1.EventTypeNormal, "DeploymentRollback",
			fmt.Sprintf("Rolled back deployment %q to revision %d", d.Name, to))
		return true, r.endRollback(ctx, d)
	}
	r.events.Event(ctx, d, corev1.EventTypeWarning, "DeploymentRollbackRevisionNotFound",
		"Unable to find the revision to rollback to.")
	return true, r.endRollback(ctx, d)
}

// lastRevision returns the second highest revision, 0 if there is none.
func (ro *rollout) lastRevision() int64 {
	var first, second int64
	for _, s := range ro.sets() {
		switch v := revision(s); {
		case v >= first:
			first, second = v, first
		case v > second:
			second = v
		}
	}
	return second
}

// restore gives d the template and the annotations of s.
func restore(d *appsv1.Deployment, s *appsv1.ReplicaSet) {
	d.Spec.Template = *s.Spec.Template.DeepCopy()
	delete(d.Spec.Template.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	maps.DeleteFunc(d.Annotations, func(k, _ string) bool { return !notCopied[k] })
	for k, v := range s.Annotations {
		if !notCopied[k] {
			d.Annotations[k] = v
		}
	}
}

func (r *deployment) endRollback(ctx context.Context, d *appsv1.Deployment) error {
	delete(d.Annotations, appsv1.DeprecatedRollbackTo)
	t := client.In(client.Deployments, objects.Key{Namespace: d.Namespace, Name: d.Name})
	out, err := r.client.Update(ctx, t, d.DeepCopy(), metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	r.deployments.Put(out.(*appsv1.Deployment))
	return nil
}
