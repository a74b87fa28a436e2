package apps

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/controllers/apps/internal/history"
	rows "github.com/minikctl/minikctl/pkg/objects/apps"
)

func TestSameRevision(t *testing.T) {
	image := func(name string) *appsv1.StatefulSet {
		set := stateful(1)
		set.Spec.Template.Spec = corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: name}}}
		rows.StatefulSets.Default(set)
		return set
	}
	revision := func(set *appsv1.StatefulSet, number int64) *appsv1.ControllerRevision {
		r, err := history.New(set, statefulSetKind, &set.Spec.Template, number, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	fewerFields := revision(image("a"), 3)
	fewerFields.Data.Raw = []byte(strings.Replace(string(fewerFields.Data.Raw), `"schedulerName":"default-scheduler",`, "", 1))
	broken := revision(image("a"), 3)
	broken.Data.Raw = []byte(`{"spec":7}`)
	a, b := revision(image("a"), 1), revision(image("b"), 2)
	for _, c := range []struct {
		name   string
		sorted []*appsv1.ControllerRevision
		same   *appsv1.ControllerRevision
		newest bool
	}{
		{"none", nil, nil, false},
		{"another", []*appsv1.ControllerRevision{b}, nil, false},
		{"the newest", []*appsv1.ControllerRevision{b, a}, a, true},
		{"an earlier one", []*appsv1.ControllerRevision{a, b}, a, false},
		{"the newest, stored with fewer fields", []*appsv1.ControllerRevision{b, fewerFields}, fewerFields, true},
		{"an earlier one, stored with fewer fields", []*appsv1.ControllerRevision{fewerFields, b}, nil, false},
		{"no patch of a StatefulSet", []*appsv1.ControllerRevision{b, broken}, nil, false},
	} {
		set := image("a")
		same, newest := sameRevision(set, revision(set, 4), c.sorted)
		if same != c.same || newest != c.newest {
			t.Errorf("%s: got %v, %v", c.name, same, newest)
		}
	}
}
