package verbs

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
)

func TestEmptyLists(t *testing.T) {
	drivers := &storagev1.CSINode{Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
		{Name: "a", TopologyKeys: []string{}}, {Name: "b", TopologyKeys: []string{"k"}},
	}}}
	terms := &corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{}},
	}}}}
	role := &rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{}}
	for _, obj := range []any{drivers, terms, role} {
		v := reflect.ValueOf(obj).Elem()
		newEmptyFields(v.Type()).clear(v)
	}
	if d := drivers.Spec.Drivers; d[0].TopologyKeys != nil || len(d[1].TopologyKeys) != 1 {
		t.Errorf("got %v", drivers.Spec.Drivers)
	}
	if s := terms.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; s.NodeSelectorTerms != nil {
		t.Errorf("got %v", s)
	}
	if role.Rules != nil {
		t.Errorf("got %v", role.Rules)
	}
	if e := newEmptyFields(reflect.TypeFor[corev1.ConfigMap]()); e != nil {
		t.Errorf("a ConfigMap has nothing to take out, got %v", e)
	}
}
