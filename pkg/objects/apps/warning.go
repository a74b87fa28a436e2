package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
	"github.com/minikctl/minikctl/pkg/objects/volume"
)

func deploymentWarnings(d, old *appsv1.Deployment) []string {
	if old == nil {
		return append(podspec.NameWarnings(d.Name), templateWarnings(&d.Spec.Template)...)
	}
	if d.Generation == old.Generation {
		return nil
	}
	return templateWarnings(&d.Spec.Template)
}

func replicaSetWarnings(rs, old *appsv1.ReplicaSet) []string {
	if old == nil {
		return append(podspec.NameWarnings(rs.Name), templateWarnings(&rs.Spec.Template)...)
	}
	if rs.Generation == old.Generation {
		return nil
	}
	return templateWarnings(&rs.Spec.Template)
}

// daemonSetWarnings checks the template only if it has changed.
func daemonSetWarnings(ds, old *appsv1.DaemonSet) []string {
	if old != nil && templateGeneration(ds) == templateGeneration(old) {
		return nil
	}
	return templateWarnings(&ds.Spec.Template)
}

// statefulSetWarnings also warns about requests of claims and about an unlimited history, even if they are unchanged.
func statefulSetWarnings(set, old *appsv1.StatefulSet) []string {
	var out []string
	if old == nil || set.Generation != old.Generation {
		out = templateWarnings(&set.Spec.Template)
	}
	for i := range set.Spec.VolumeClaimTemplates {
		at := check.Spec.Child("volumeClaimTemplates").Index(i)
		if old != nil {
			at = at.Child("Spec")
		}
		out = append(out, volume.ClaimWarnings(&set.Spec.VolumeClaimTemplates[i].Spec, at)...)
	}
	if limit := set.Spec.RevisionHistoryLimit; limit != nil && *limit < 0 {
		out = append(out, "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended")
	}
	return out
}

func templateWarnings(t *corev1.PodTemplateSpec) []string {
	return podspec.Warnings(&t.Spec, t.Annotations, check.Spec.Child("template"))
}
