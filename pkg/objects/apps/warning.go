package apps

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

func deploymentWarnings(d, old *appsv1.Deployment) []string {
	if old == nil {
		return append(nameWarnings(d.Name), templateWarnings(&d.Spec.Template)...)
	}
	if d.Generation == old.Generation {
		return nil
	}
	return templateWarnings(&d.Spec.Template)
}

func replicaSetWarnings(rs, old *appsv1.ReplicaSet) []string {
	if old == nil {
		return append(nameWarnings(rs.Name), templateWarnings(&rs.Spec.Template)...)
	}
	if rs.Generation == old.Generation {
		return nil
	}
	return templateWarnings(&rs.Spec.Template)
}

// nameWarnings warns about a name that is longer or freer than a host's.
func nameWarnings(name string) []string {
	if check.Label(name, nil) == nil {
		return nil
	}
	return []string{fmt.Sprintf("metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: %v",
		utilvalidation.IsDNS1123Label(name))}
}

func templateWarnings(t *corev1.PodTemplateSpec) []string {
	return podspec.Warnings(&t.Spec, t.Annotations, check.Spec.Child("template"))
}
