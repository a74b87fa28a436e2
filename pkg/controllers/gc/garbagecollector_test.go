package gc

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

// TestOwnerIsNotAbsentByWrongReference: a reference with a wrong name or namespace does not make an existing owner absent.
func TestOwnerIsNotAbsentByWrongReference(t *testing.T) {
	c := apiservertest.New(t).Client("test")
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.ReplicaSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}
	out, err := c.Create(t.Context(), client.Target{Resource: client.ReplicaSets, Namespace: "default"}, set, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ref := *metav1.NewControllerRef(out.(*appsv1.ReplicaSet), appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
	g := newGarbageCollector(controller.Env{Client: c})
	misnamed := ref
	misnamed.Name = "another"
	for _, tc := range []struct {
		name      string
		ref       metav1.OwnerReference
		namespace string
		want      ownerState
	}{
		{"from another namespace", ref, "kube-system", absent},
		{"by another name", misnamed, "default", absent},
		{"correct", ref, "default", exists},
	} {
		dependent := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: tc.namespace}}
		if got, err := g.lookUp(t.Context(), tc.ref, dependent); err != nil || got != tc.want {
			t.Errorf("%s: got %v %v, want %v", tc.name, got, err, tc.want)
		}
	}
}
