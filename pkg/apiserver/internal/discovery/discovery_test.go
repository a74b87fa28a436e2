package discovery

import (
	"encoding/json"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/objects"
)

func catalog() *Catalog {
	pods := objects.Def[*corev1.Pod]{
		Names: objects.Names{Version: "v1", Kind: "Pod", Plural: "pods", Short: []string{"po"}, Categories: []string{"all"}},
		New:   func() *corev1.Pod { return new(corev1.Pod) }, NewList: func() runtime.Object { return new(corev1.PodList) },
		Connects: []string{"eviction", "exec"}, Status: &objects.Status[*corev1.Pod]{},
	}
	old := func(group, version string) objects.Version[*appsv1.Deployment] {
		return objects.Version[*appsv1.Deployment]{
			Group: group, Version: version, New: func() runtime.Object { return new(appsv1beta1.Deployment) },
			NewList: func() runtime.Object { return new(appsv1beta1.DeploymentList) },
		}
	}
	deployments := objects.Def[*appsv1.Deployment]{
		Names: objects.Names{Group: "apps", Version: "v1", Kind: "Deployment", Plural: "deployments", Categories: []string{"all"}},
		New:   func() *appsv1.Deployment { return new(appsv1.Deployment) }, NewList: func() runtime.Object { return new(appsv1.DeploymentList) },
		Versions: []objects.Version[*appsv1.Deployment]{old("apps", "v1beta1"), old("apps", "v1beta2"), old("extensions", "v1beta1")},
		Scale:    &objects.Scale[*appsv1.Deployment]{},
	}
	return New(objects.Each([]objects.Resource{objects.Row(deployments), objects.Row(pods)}))
}

func TestDocuments(t *testing.T) {
	c := catalog()
	all := `"verbs":["create","delete","deletecollection","get","list","patch","update","watch"]`
	for _, d := range []struct {
		name, want string
		document   any
	}{
		{"/api", `{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[{"clientCIDR":"0.0.0.0/0","serverAddress":"h:1"}]}`, c.Versions("h:1")},
		{"/apis/apps", `{"kind":"APIGroup","apiVersion":"v1","name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"},` +
			`{"groupVersion":"apps/v1beta2","version":"v1beta2"},{"groupVersion":"apps/v1beta1","version":"v1beta1"}],"preferredVersion":{"groupVersion":"apps/v1","version":"v1"}}`, c.Group("apps")},
		{"/api/v1", `{"kind":"APIResourceList","groupVersion":"v1","resources":[` +
			`{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod",` + all + `,"shortNames":["po"],"categories":["all"],"storageVersionHash":"xPOwRZ+Yhw8="},` +
			`{"name":"pods/eviction","singularName":"","namespaced":true,"group":"policy","version":"v1","kind":"Eviction","verbs":["create"]},` +
			`{"name":"pods/exec","singularName":"","namespaced":true,"kind":"PodExecOptions","verbs":["create","get"]},` +
			`{"name":"pods/status","singularName":"","namespaced":true,"kind":"Pod","verbs":["get","patch","update"]}]}`, c.Resources(schema.GroupVersion{Version: "v1"})},
		{"/apis/extensions/v1beta1", `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"extensions/v1beta1","resources":[` +
			`{"name":"deployments","singularName":"deployment","namespaced":true,"kind":"Deployment",` + all + `,"storageVersionHash":"8aSe+NMegvE="},` +
			`{"name":"deployments/scale","singularName":"","namespaced":true,"group":"autoscaling","version":"v1","kind":"Scale","verbs":["get","patch","update"]}]}`,
			c.Resources(schema.GroupVersion{Group: "extensions", Version: "v1beta1"})},
		{"aggregated /api", `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[{"metadata":{},"versions":[{"version":"v1","resources":[` +
			`{"resource":"pods","responseKind":{"group":"","version":"","kind":"Pod"},"scope":"Namespaced","singularResource":"pod",` + all + `,"shortNames":["po"],"categories":["all"],"subresources":[` +
			`{"subresource":"eviction","responseKind":{"group":"policy","version":"v1","kind":"Eviction"},"verbs":["create"]},` +
			`{"subresource":"exec","responseKind":{"group":"","version":"","kind":"PodExecOptions"},"verbs":["create","get"]},` +
			`{"subresource":"status","responseKind":{"group":"","version":"","kind":"Pod"},"verbs":["get","patch","update"]}]}],"freshness":"Current"}]}]}`, c.Aggregated(true)},
	} {
		b, err := json.Marshal(d.document)
		if err != nil {
			t.Fatal(err)
		}
		if string(b) != d.want {
			t.Errorf("%s:\ngot  %s\nwant %s", d.name, b, d.want)
		}
	}
	if c.Group("none") != nil || c.Group("") != nil || c.Resources(schema.GroupVersion{Group: "apps", Version: "v9"}) != nil {
		t.Error("there are documents of versions that are not served")
	}
	if got, want := c.Paths(), []string{"/api/v1", "/apis/apps", "/apis/apps/v1", "/apis/apps/v1beta2", "/apis/apps/v1beta1", "/apis/extensions", "/apis/extensions/v1beta1"}; !slices.Equal(got, want) {
		t.Errorf("got paths %v, want %v", got, want)
	}
}
