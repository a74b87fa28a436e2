package admission

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/apps"
)

func TestNoController(t *testing.T) {
	sets, replicas := objects.Row(apps.StatefulSets), objects.Row(apps.ReplicaSets)
	u := NoController{{Group: "apps", Resource: "statefulsets"}, schema.GroupResource{Resource: "others"}}
	for name, c := range map[string]struct {
		a    stage.Admission
		want string
	}{
		"without a controller": {stage.Admission{Operation: stage.Create, Attributes: &stage.Attributes{Resource: &sets}}, "nothing in this cluster acts on statefulsets.apps yet: the object is stored, and that is all"},
		"its update":           {stage.Admission{Operation: stage.Update, Attributes: &stage.Attributes{Resource: &sets}}, ""},
		"its scale":            {stage.Admission{Operation: stage.Create, Attributes: &stage.Attributes{Resource: &sets, Subresource: "scale"}}, ""},
		"another":              {stage.Admission{Operation: stage.Create, Attributes: &stage.Attributes{Resource: &replicas}}, ""},
	} {
		got := ""
		c.a.Warn = func(text string) { got = text }
		if err := u.Mutate(t.Context(), &c.a); err != nil || got != c.want {
			t.Errorf("%s: %q, want %q (%v)", name, got, c.want, err)
		}
	}
}
