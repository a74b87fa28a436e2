package rbac

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAggregate(t *testing.T) {
	may := func(resource string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{resource}}
	}
	role := func(name, label string, resources ...string) *rbacv1.ClusterRole {
		r := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: "true"}}}
		for _, res := range resources {
			r.Rules = append(r.Rules, may(res))
		}
		return r
	}
	view := role("view", "to-view", "itself")
	view.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
		{MatchLabels: map[string]string{"to-view": "true"}}, {MatchLabels: map[string]string{"also": "true"}},
	}}
	all := []*rbacv1.ClusterRole{view, role("c", "also", "last", "pods"), role("b", "to-view", "secrets"), role("a", "to-view", "pods"), role("d", "no", "nodes")}
	got, err := aggregate(view, all)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"pods", "secrets", "last"}
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range want {
		if got[i].Resources[0] != want[i] {
			t.Errorf("rule %d: %v, want %s", i, got[i], want[i])
		}
	}
	view.AggregationRule.ClusterRoleSelectors[0].MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "x", Operator: "Near"}}
	if _, err := aggregate(view, all); err == nil {
		t.Error("an invalid selector selects no role")
	}
}
