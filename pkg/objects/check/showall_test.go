package check

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestShowAll(t *testing.T) {
	at := field.NewPath("x")
	template := resourcev1.ResourceClaimTemplateSpec{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	var got []string
	for _, err := range ShowAll(field.ErrorList{
		field.NotSupported(at, appsv1.DeploymentStrategy{Type: "Magic"}, []string{"a"}),
		field.Duplicate(at, &corev1.NodeAddress{Type: "t"}),
		field.Invalid(at, []corev1.NodeSelectorTerm{{}}, "m"),
		field.Invalid(at, map[string]resourcev1.Counter{"c": {}}, "m"),
		field.Invalid(at, template, "m"),
		field.Invalid(at, metav1.LabelSelector{}, "m"),
		field.Invalid(at, nil, "m"),
		field.Invalid(at, "text", "m"),
		field.Required(at, "m"),
	}) {
		got = append(got, err.ErrorBody())
	}
	want := []string{
		`Unsupported value: {"Type":"Magic","RollingUpdate":null}: supported values: "a"`,
		`Duplicate value: {"Type":"t","Address":""}`,
		`Invalid value: [{"MatchExpressions":null,"MatchFields":null}]: m`,
		`Invalid value: {"c":{"Value":"0"}}: m`,
		`Invalid value: {"name":"n","Spec":{"Devices":{"Requests":null,"Constraints":null,"Config":null}}}: m`,
		`Invalid value: {}: m`, `Invalid value: null: m`, `Invalid value: "text": m`, `Required value: m`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

// TestShowMany checks that omitted errors are counted.
func TestShowMany(t *testing.T) {
	errs := make(field.ErrorList, 10_000)
	for i := range errs {
		errs[i] = field.Invalid(field.NewPath("x").Index(i), "v", strings.Repeat("long ", 200))
	}
	got := ShowAll(errs)
	last := got[len(got)-1].Error()
	if n := len(got); n < 500 || n > 2000 || !strings.HasPrefix(last, "<nil>: Invalid value: there is no room for ") {
		t.Errorf("%d errors, the last of them: %s", n, last)
	}
	if few := ShowAll(errs[:500]); len(few) != 500 {
		t.Errorf("%d errors of 500", len(few))
	}
}
