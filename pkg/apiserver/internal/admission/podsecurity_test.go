package admission

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

func TestPodSecurity(t *testing.T) {
	privileged := newPod(func(p *corev1.Pod) {
		p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
	})
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: "ns"},
		Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: privileged.Spec}}}
	const why = `privileged (container "c" must not set securityContext.privileged=true)`
	for name, c := range map[string]struct {
		labels map[string]string
		gr     schema.GroupResource
		obj    objects.Object
		want   string
		warns  []string
	}{
		"no labels":  {nil, pods, privileged, "", nil},
		"enforced":   {map[string]string{"pod-security.kubernetes.io/enforce": "baseline"}, pods, privileged, `pods "p" is forbidden: violates PodSecurity "baseline:latest": ` + why, nil},
		"a version":  {map[string]string{"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/enforce-version": "v1.25"}, pods, privileged, `pods "p" is forbidden: violates PodSecurity "baseline:v1.25": ` + why, nil},
		"within":     {map[string]string{"pod-security.kubernetes.io/enforce": "baseline"}, pods, newPod(nil), "", nil},
		"warned":     {map[string]string{"pod-security.kubernetes.io/warn": "baseline"}, pods, privileged, "", []string{`would violate PodSecurity "baseline:latest": ` + why}},
		"a template": {map[string]string{"pod-security.kubernetes.io/enforce": "baseline"}, schema.GroupResource{Group: "apps", Resource: "deployments"}, deployment, "", []string{`would violate PodSecurity "baseline:latest": ` + why}},
		"a bad label": {nil, namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "all"}}},
			`Namespace "n" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "all": must be one of privileged, baseline, restricted`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReader()
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: c.labels}}
			r.Put("namespaces", ns)
			a := create(c.gr, c.obj)
			a.Resource.Names.Kind = "Namespace" // only errors name it
			var warns []string
			a.Warn = func(text string) { warns = append(warns, text) }
			err := newPodSecurity(stage.Reader(r)).Validate(t.Context(), a)
			if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
			if !slices.Equal(warns, c.warns) {
				t.Errorf("warnings are %q", warns)
			}
		})
	}
}
