package controller

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func TestActionFor(t *testing.T) {
	owner := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "rs", UID: "mine"}}
	dying := owner.DeepCopy()
	dying.DeletionTimestamp = &metav1.Time{Time: noon}
	selector := labels.SelectorFromSet(labels.Set{"a": "1"})
	obj := func(label, controller string, deleted bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": label}}}
		if controller != "" {
			p.OwnerReferences = []metav1.OwnerReference{{UID: "bystander"}, {UID: "x", Controller: new(true)}}
			p.OwnerReferences[1].UID = owner.UID
			if controller != "mine" {
				p.OwnerReferences[1].UID = "theirs"
			}
		}
		if deleted {
			p.DeletionTimestamp = &metav1.Time{Time: noon}
		}
		return p
	}
	for _, c := range []struct {
		name  string
		owner *appsv1.ReplicaSet
		obj   *corev1.Pod
		want  claimAction
	}{
		{"mine", owner, obj("1", "mine", false), keep},
		{"mine, being deleted", owner, obj("1", "mine", true), keep},
		{"mine, owner being deleted", dying, obj("1", "mine", false), keep},
		{"mine, no longer matching", owner, obj("2", "mine", false), release},
		{"mine, no longer matching, owner being deleted", dying, obj("2", "mine", false), ignore},
		{"theirs", owner, obj("1", "theirs", false), ignore},
		{"orphan", owner, obj("1", "", false), adopt},
		{"orphan, being deleted", owner, obj("1", "", true), ignore},
		{"orphan, owner being deleted", dying, obj("1", "", false), ignore},
		{"orphan that does not match", owner, obj("2", "", false), ignore},
	} {
		if got := actionFor(c.owner, selector.Matches(labels.Set(c.obj.Labels)), c.obj); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

func TestNewPod(t *testing.T) {
	template := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "1"}, Annotations: map[string]string{"b": "2"}, Finalizers: []string{"x/y"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}},
	}
	owner := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "rs", Namespace: "ns", UID: "mine"}}
	p := NewPod(template, owner, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
	if p.GenerateName != "rs-" || p.Namespace != "ns" || !metav1.IsControlledBy(p, owner) || p.Annotations["b"] != "2" || p.Finalizers[0] != "x/y" {
		t.Errorf("got %+v", p.ObjectMeta)
	}
	p.Labels["a"], p.Spec.Containers[0].Name = "changed", "changed"
	if template.Labels["a"] != "1" || template.Spec.Containers[0].Name != "c" {
		t.Error("the pod shares with its template")
	}
}
