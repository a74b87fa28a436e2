package apply

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
)

func TestSort(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"nothing", "", ""},
		{"namespaces first", "Deployment ConfigMap Namespace", "Namespace ConfigMap Deployment"},
		{"definitions before what they define", "Widget CustomResourceDefinition", "CustomResourceDefinition Widget"},
		{"what pods need before pods", "Pod Service Secret ServiceAccount PriorityClass", "PriorityClass ServiceAccount Secret Service Pod"},
		{"the rest stays in the files' order", "Pod/b Deployment/a Pod/a ConfigMap/b ConfigMap/a", "ConfigMap/b ConfigMap/a Pod/b Deployment/a Pod/a"},
		{"roles before bindings", "RoleBinding ClusterRoleBinding Role ClusterRole", "ClusterRole ClusterRoleBinding Role RoleBinding"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var infos []*resource.Info
			for _, f := range strings.Fields(c.in) {
				kind, name, _ := strings.Cut(f, "/")
				infos = append(infos, &resource.Info{Name: name, Object: &unstructured.Unstructured{Object: map[string]any{"kind": kind}}})
			}
			Sort(infos)
			var got []string
			for _, i := range infos {
				s := i.Object.GetObjectKind().GroupVersionKind().Kind
				if i.Name != "" {
					s += "/" + i.Name
				}
				got = append(got, s)
			}
			if g := strings.Join(got, " "); g != c.want {
				t.Errorf("got  %s\nwant %s", g, c.want)
			}
		})
	}
}
