package discovery

import (
	"slices"
	"testing"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/objects"
)

// plain returns a row with the same name for resource and kind in every group.
func plain(gv ...schema.GroupVersion) []*objects.Resource {
	var out []*objects.Resource
	for _, v := range gv {
		out = append(out, &objects.Resource{
			Names:    objects.Names{Group: v.Group, Version: v.Version, Kind: "Thing", Plural: "things"},
			Versions: []objects.VersionOf{{Group: v.Group, Version: v.Version, New: func() runtime.Object { return &corev1.Pod{} }}},
		})
	}
	return out
}

// TestWith: the groups of extension servers are sorted by their priority.
func TestWith(t *testing.T) {
	gv := func(group, version string) schema.GroupVersion {
		return schema.GroupVersion{Group: group, Version: version}
	}
	local := New(plain(gv("", "v1"), gv("apps", "v1"), gv(Registration, "v1"), gv("example.org", "v1"), gv("example.org", "v1beta1")))
	if local.With(nil) != local {
		t.Error("another catalog without other servers")
	}
	remote := func(group, version string, p Priority) Remote {
		return Remote{gv(group, version), p, &apidiscovery.APIVersionDiscovery{
			Version: version, Freshness: apidiscovery.DiscoveryFreshnessStale,
			Resources: []apidiscovery.APIResourceDiscovery{{Resource: "others", Subresources: []apidiscovery.APISubresourceDiscovery{{Subresource: "status"}}}},
		}}
	}
	c := local.With([]Remote{
		remote("metrics.k8s.io", "v1beta1", Priority{100, 100}), remote("high.example.org", "v1", Priority{17850, 1}),
		remote("example.org", "v1", Priority{500, 50}), remote("example.org", "v2alpha1", Priority{1000, 200}), remote("metrics.k8s.io", "v1", Priority{100, 100}),
	})
	want := []string{
		"/apis/" + Registration, "/apis/" + Registration + "/v1", "/api/v1", "/apis/high.example.org", "/apis/high.example.org/v1", "/apis/apps", "/apis/apps/v1",
		"/apis/example.org", "/apis/example.org/v2alpha1", "/apis/example.org/v1beta1", "/apis/example.org/v1",
		"/apis/metrics.k8s.io", "/apis/metrics.k8s.io/v1", "/apis/metrics.k8s.io/v1beta1",
	}
	if got := c.Paths(); !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if g := c.Group("example.org"); g.PreferredVersion.Version != "v2alpha1" {
		t.Errorf("preferred: %v", g.PreferredVersion)
	}
	for _, item := range c.Aggregated(false).Items {
		if item.Name != "example.org" {
			continue
		}
		if v := item.Versions[2]; v.Freshness != apidiscovery.DiscoveryFreshnessStale || v.Resources[0].Resource != "others" ||
			v.Resources[0].ResponseKind == nil || v.Resources[0].Subresources[0].ResponseKind == nil {
			t.Errorf("the other server's: %+v", v)
		}
		if v := item.Versions[1]; v.Freshness != apidiscovery.DiscoveryFreshnessCurrent || v.Resources[0].Resource != "things" {
			t.Errorf("ours: %+v", v)
		}
	}
}
