package apps

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
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

func daemonSetWarnings(ds, old *appsv1.DaemonSet) []string {
	if old != nil && ds.Generation == old.Generation {
		return nil
	}
	return templateWarnings(&ds.Spec.Template)
}

// statefulSetWarnings also warns about what its claims ask for, and about a history without an end.
func statefulSetWarnings(set, old *appsv1.StatefulSet) []string {
	if old != nil && set.Generation == old.Generation {
		return nil
	}
	out := templateWarnings(&set.Spec.Template)
	for i := range set.Spec.VolumeClaimTemplates {
		out = append(out, claimWarnings(&set.Spec.VolumeClaimTemplates[i].Spec, check.Spec.Child("volumeClaimTemplates").Index(i).Child("Spec"))...)
	}
	if limit := set.Spec.RevisionHistoryLimit; limit != nil && *limit < 0 {
		out = append(out, "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended")
	}
	return out
}

// claimWarnings warns about sizes that are no whole number of bytes.
func claimWarnings(s *corev1.PersistentVolumeClaimSpec, at *field.Path) []string {
	var out []string
	for _, list := range []struct {
		name string
		of   corev1.ResourceList
	}{{"requests", s.Resources.Requests}, {"limits", s.Resources.Limits}} {
		if q := list.of[corev1.ResourceStorage]; q.MilliValue()%1000 != 0 {
			out = append(out, fmt.Sprintf("%s: fractional byte value %q is invalid, must be an integer",
				at.Child("resources", list.name).Key(string(corev1.ResourceStorage)), q.String()))
		}
	}
	return out
}

func templateWarnings(t *corev1.PodTemplateSpec) []string {
	return podspec.Warnings(&t.Spec, t.Annotations, check.Spec.Child("template"))
}
