package apiserver_test

import (
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	metadataclient "k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

// TestDynamicClient uses an object without its Go type.
func TestDynamicClient(t *testing.T) {
	e := apiservertest.New(t)
	c, err := dynamic.NewForConfig(e.AdminConfig)
	if err != nil {
		t.Fatal(err)
	}
	maps, ctx := c.Resource(configMaps).Namespace("default"), t.Context()
	object := func(value string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "m"}, "data": map[string]any{"a": value},
		}}
	}
	value := func(obj *unstructured.Unstructured, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		v, _, _ := unstructured.NestedString(obj.Object, "data", "a")
		return v
	}
	w, err := maps.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if got := value(maps.Create(ctx, object("1"), metav1.CreateOptions{})); got != "1" {
		t.Errorf("created with %q", got)
	}
	stale, err := maps.Get(ctx, "m", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := value(maps.Patch(ctx, "m", types.MergePatchType, []byte(`{"data":{"a":"2"}}`), metav1.PatchOptions{})); got != "2" {
		t.Errorf("patched to %q", got)
	}
	if _, err := maps.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("a stale update: %v", err)
	}
	if _, err := maps.Apply(ctx, "m", object("3"), metav1.ApplyOptions{FieldManager: "dynamic"}); !apierrors.IsConflict(err) {
		t.Errorf("an apply of another's field: %v", err)
	}
	if got := value(maps.Apply(ctx, "m", object("3"), metav1.ApplyOptions{FieldManager: "dynamic", Force: true})); got != "3" {
		t.Errorf("applied %q", got)
	}
	if err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=m"}); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"ADDED", "MODIFIED", "MODIFIED", "DELETED"} {
		if ev := <-w.ResultChan(); string(ev.Type) != want || ev.Object.GetObjectKind().GroupVersionKind().Kind != "ConfigMap" {
			t.Errorf("watched %s %v, want %s", ev.Type, ev.Object, want)
		}
	}
}

// TestMetadataClient reads the metadata of objects.
func TestMetadataClient(t *testing.T) {
	e := apiservertest.New(t)
	c, err := metadataclient.NewForConfig(e.AdminConfig)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if _, err := clientset(t, e.AdminConfig).CoreV1().ConfigMaps("default").Create(ctx, configMap("m"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	maps := c.Resource(configMaps).Namespace("default")
	if _, err := maps.Patch(ctx, "m", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "a=b"})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "m" || list.Items[0].UID == "" {
		t.Errorf("listed %+v: %v", list, err)
	}
	if err := maps.Delete(ctx, "m", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := maps.Get(ctx, "m", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("got a deleted object: %v", err)
	}
}

// TestDiscoveryClient finds every resource, through aggregated and unaggregated discovery.
func TestDiscoveryClient(t *testing.T) {
	oneAtATime(t)
	e := apiservertest.New(t)
	config := rest.CopyConfig(e.AdminConfig)
	config.Timeout = 3 * time.Minute // the client's default, 32 s, is too short for the OpenAPI documents on a busy machine
	for _, legacy := range []bool{false, true} {
		c, err := discovery.NewDiscoveryClientForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		c.UseLegacyDiscovery = legacy
		v, err := c.ServerVersion()
		if err != nil || v.Major != "1" || v.Minor != "36" {
			t.Errorf("version %v: %v", v, err)
		}
		groups, all, err := c.ServerGroupsAndResources()
		if err != nil || len(groups) < 2 {
			t.Errorf("groups %v: %v", groups, err)
		}
		var names []string
		for _, l := range all {
			for _, r := range l.APIResources {
				names = append(names, l.GroupVersion+"/"+r.Name)
			}
		}
		for _, want := range []string{"v1/pods", "v1/pods/log", "apps/v1/deployments/scale"} {
			if !slices.Contains(names, want) {
				t.Errorf("legacy %v: %s is missing among %v", legacy, want, names)
			}
		}
		if _, err := c.OpenAPISchema(); err != nil {
			t.Error(err)
		}
		paths, err := c.OpenAPIV3().Paths()
		if err != nil || paths["apis/apps/v1"] == nil {
			t.Errorf("OpenAPI v3 of %v: %v", paths, err)
		}
	}
}
