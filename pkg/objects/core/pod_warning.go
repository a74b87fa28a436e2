package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

// podWarnings warns in creates only, since mostly components update pods.
func podWarnings(p, old *corev1.Pod) []string {
	if old != nil {
		return nil
	}
	var warnings []string
	if check.Label(p.Name, nil) != nil {
		warnings = append(warnings, fmt.Sprintf("metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: %v",
			utilvalidation.IsDNS1123Label(p.Name)))
	}
	return append(warnings, podspec.Warnings(&p.Spec, p.Annotations, nil)...)
}

// podStatusWarnings warns about ambiguous addresses.
func podStatusWarnings(p, _ *corev1.Pod) []string {
	var warnings []string
	for i := range p.Status.PodIPs {
		warnings = append(warnings, utilvalidation.GetWarningsForIP(check.Status.Child("podIPs").Index(i).Child("ip"), p.Status.PodIPs[i].IP)...)
	}
	for i := range p.Status.HostIPs {
		warnings = append(warnings, utilvalidation.GetWarningsForIP(check.Status.Child("hostIPs").Index(i).Child("ip"), p.Status.HostIPs[i].IP)...)
	}
	return warnings
}
