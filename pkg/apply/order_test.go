package apply

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/minikctl/minikctl/pkg/objects/builtin"
)

func TestSort(t *testing.T) {
	kinds := map[string]schema.GroupVersionKind{
		"Widget": {Group: "example.com", Version: "v1", Kind: "Widget"}, "KnativeService": {Group: "serving.knative.dev", Version: "v1", Kind: "Service"},
	}
	for _, r := range builtin.Resources() {
		kinds[r.Names.Kind] = schema.GroupVersionKind{Group: r.Names.Group, Version: r.Names.Version, Kind: r.Names.Kind}
	}
	// The kinds that others need, in order.
	first := "Namespace CustomResourceDefinition PriorityClass StorageClass IngressClass RuntimeClass ServiceAccount ClusterRole " +
		"ClusterRoleBinding Role RoleBinding ResourceQuota LimitRange ConfigMap Secret PersistentVolume PersistentVolumeClaim Service"
	backwards := strings.Fields(first)
	slices.Reverse(backwards)
	for _, c := range []struct{ name, in, want string }{
		{"nothing", "", ""},
		{"namespaces first", "Deployment ConfigMap Namespace", "Namespace ConfigMap Deployment"},
		{"definitions before their objects", "Widget CustomResourceDefinition", "CustomResourceDefinition Widget"},
		{"what pods need before pods", "Pod Service Secret ServiceAccount PriorityClass", "PriorityClass ServiceAccount Secret Service Pod"},
		{"the rest stays in the files' order", "Pod/b Deployment/a Pod/a ConfigMap/b ConfigMap/a", "ConfigMap/b ConfigMap/a Pod/b Deployment/a Pod/a"},
		{"all kinds that other objects depend on", "Pod " + strings.Join(backwards, " ") + " Deployment", first + " Pod Deployment"},
		{"another group's kind of the same name", "Pod KnativeService Service", "Service Pod KnativeService"},
		{"roles before bindings", "RoleBinding ClusterRoleBinding Role ClusterRole", "ClusterRole ClusterRoleBinding Role RoleBinding"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var infos []*resource.Info
			for _, f := range strings.Fields(c.in) {
				kind, name, _ := strings.Cut(f, "/")
				obj := &unstructured.Unstructured{}
				obj.SetGroupVersionKind(kinds[kind])
				infos = append(infos, &resource.Info{Name: name, Object: obj})
			}
			Sort(infos)
			var got []string
			for _, i := range infos {
				s := i.Object.GetObjectKind().GroupVersionKind().Kind
				if kindOf(i).Group == "serving.knative.dev" {
					s = "KnativeService"
				}
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
