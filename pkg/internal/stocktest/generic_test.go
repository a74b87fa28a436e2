package stocktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"
)

var (
	siteKind        = schema.GroupVersionKind{Group: "web.example.com", Version: "v1", Kind: "Site"}
	siteResource    = siteKind.GroupVersion().WithResource("sites")
	definitionsKind = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// generic is a cluster with the untyped clients of client-go.
type generic struct {
	*testing.T
	cluster
	dynamic  dynamic.Interface
	metadata metadata.Interface
	discover *discovery.DiscoveryClient
}

func newGeneric(t *testing.T) generic {
	c := newCluster(t)
	return generic{
		T: t, cluster: c, dynamic: dynamic.NewForConfigOrDie(c.config), metadata: metadata.NewForConfigOrDie(c.config),
		discover: discovery.NewDiscoveryClientForConfigOrDie(c.config),
	}
}

// define creates the CustomResourceDefinition of a file.
func (g generic) define(file string) *unstructured.Unstructured {
	g.Helper()
	crd, err := g.dynamic.Resource(definitionsKind).Create(g.Context(), read(g.T, file), metav1.CreateOptions{})
	if err != nil {
		g.Fatal(err)
	}
	return crd
}

func (g generic) sites() dynamic.ResourceInterface {
	return g.dynamic.Resource(siteResource).Namespace("default")
}

// served waits until the server serves Sites.
func (g generic) served() {
	g.Helper()
	eventually(g.T, "the custom resource is served", func(ctx context.Context) error {
		_, err := g.sites().List(ctx, metav1.ListOptions{})
		return err
	})
}

// newSite returns a Site with a title and further fields of its spec.
func newSite(name, title string) *unstructured.Unstructured {
	site := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"title": title}}}
	site.SetGroupVersionKind(siteKind)
	site.SetNamespace("default")
	site.SetName(name)
	return site
}

// TestDynamic uses the verbs of the untyped clients on a custom resource.
func TestDynamic(t *testing.T) {
	t.Parallel()
	g := newGeneric(t)
	g.define("testdata/sites.yaml")
	g.served()
	ctx, sites := t.Context(), g.sites()

	made, err := sites.Create(ctx, newSite("a", "First"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n, _, _ := unstructured.NestedInt64(made.Object, "spec", "replicas"); n != 1 {
		t.Errorf("made without the default: %v", made.Object)
	}
	watch, err := sites.Watch(ctx, metav1.ListOptions{ResourceVersion: made.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	stale := made.DeepCopy()
	unstructured.SetNestedField(made.Object, "Second", "spec", "title")
	if made, err = sites.Update(ctx, made, metav1.UpdateOptions{}); err != nil || made.GetGeneration() != 2 {
		t.Fatalf("update: %v, %v", made, err)
	}
	if _, err := sites.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("update of what has changed: %v", err)
	}
	unstructured.SetNestedField(made.Object, int64(3), "status", "ready")
	if made, err = sites.UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil || made.GetGeneration() != 2 {
		t.Fatalf("update of the status: %v, %v", made, err)
	}
	if _, err = sites.Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"replicas":4},"status":{"ready":9}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	applied := newSite("b", "Applied")
	if _, err := sites.Apply(ctx, "b", applied, metav1.ApplyOptions{FieldManager: "one"}); err != nil {
		t.Fatal(err)
	}
	unstructured.SetNestedField(applied.Object, "Other", "spec", "title")
	if _, err := sites.Apply(ctx, "b", applied, metav1.ApplyOptions{FieldManager: "two"}); !apierrors.IsConflict(err) {
		t.Errorf("apply against another: %v", err)
	}
	page, err := sites.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil || len(page.Items) != 1 || page.GetContinue() == "" || page.GetKind() != "SiteList" || *page.GetRemainingItemCount() != 1 {
		t.Errorf("page %v: %v", page, err)
	}
	seen := <-watch.ResultChan()
	if got, ok := seen.Object.(*unstructured.Unstructured); !ok || got.GetGeneration() != 2 {
		t.Errorf("watch shows %v", seen)
	}

	g.scale("a")
	g.onlyMetadata()
	if err := sites.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := sites.Get(ctx, "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get of a deleted object: %v", err)
	}
}

// scale changes the scale of a Site with the client for scales of any kind.
func (g generic) scale(name string) {
	g.Helper()
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(g.discover))
	client, err := scale.NewForConfig(g.config, mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(g.discover))
	if err != nil {
		g.Fatal(err)
	}
	scales, gr := client.Scales("default"), siteResource.GroupResource()
	s, err := scales.Get(g.Context(), gr, name, metav1.GetOptions{})
	if err != nil || s.Spec.Replicas != 4 || s.Status.Replicas != 3 {
		g.Fatalf("scale %v: %v", s, err)
	}
	s.Spec.Replicas = 2
	var changed *autoscalingv1.Scale
	if changed, err = scales.Update(g.Context(), gr, s, metav1.UpdateOptions{}); err != nil || changed.Spec.Replicas != 2 {
		g.Errorf("changed to %v: %v", changed, err)
	}
}

// onlyMetadata reads Sites with the metadata client.
func (g generic) onlyMetadata() {
	g.Helper()
	sites := g.metadata.Resource(siteResource).Namespace("default")
	list, err := sites.List(g.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 2 || list.Items[0].Kind != "PartialObjectMetadata" && list.Kind != "PartialObjectMetadataList" {
		g.Errorf("metadata of %v: %v", list, err)
	}
	one, err := sites.Patch(g.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	if err != nil || one.Labels["a"] != "b" || one.UID == "" {
		g.Errorf("labelled to %v: %v", one, err)
	}
	factory := metadatainformer.NewSharedInformerFactory(g.metadata, 0)
	informer := factory.ForResource(siteResource)
	informer.Informer()
	ctx, cancel := context.WithCancel(g.Context())
	defer factory.Shutdown()
	defer cancel()
	factory.Start(ctx.Done())
	eventually(g.T, "the metadata informer has the Site", func(context.Context) error {
		_, err := informer.Lister().ByNamespace("default").Get("a")
		return err
	})
}

// TestDiscovery looks for a custom resource in the discovery and OpenAPI documents.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	g := newGeneric(t)
	cached := memory.NewMemCacheClient(g.discover)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(cached)
	if _, err := mapper.RESTMapping(siteKind.GroupKind()); !meta.IsNoMatchError(err) {
		t.Errorf("mapped before it is defined: %v", err)
	}
	g.define("testdata/sites.yaml")
	g.served()
	plain := discovery.NewDiscoveryClientForConfigOrDie(g.config)
	plain.UseLegacyDiscovery = true
	for name, d := range map[string]*discovery.DiscoveryClient{"aggregated": g.discover, "one by one": plain} {
		_, lists, err := d.ServerGroupsAndResources()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		i := slices.IndexFunc(lists, func(l *metav1.APIResourceList) bool { return l.GroupVersion == "web.example.com/v1" })
		if i < 0 {
			t.Fatalf("%s: no group", name)
		}
		var got []string
		for _, r := range lists[i].APIResources {
			got = append(got, fmt.Sprint(r.Name, " ", r.Kind, " ", r.ShortNames, r.Categories, r.Verbs))
		}
		want := []string{
			"sites Site [st] [all] [delete deletecollection get list patch create update watch]",
			"sites/status Site [] [] [get patch update]",
			"sites/scale Scale [] [] [get patch update]",
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	mapper.Reset()
	mapping, err := mapper.RESTMapping(siteKind.GroupKind())
	if err != nil || mapping.Resource != siteResource || mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		t.Errorf("mapping %v: %v", mapping, err)
	}
	short := restmapper.NewShortcutExpander(mapper, cached, nil)
	if r, err := short.ResourceFor(schema.GroupVersionResource{Resource: "st"}); err != nil || r != siteResource {
		t.Errorf("st is %v: %v", r, err)
	}
	g.openAPI()
	if err := g.dynamic.Resource(definitionsKind).Delete(t.Context(), "sites.web.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is no longer to be found", func(context.Context) error {
		groups, err := g.discover.ServerGroups()
		if err != nil {
			return err
		}
		if slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == "web.example.com" }) {
			return errors.New("its group is there")
		}
		return nil
	})
}

// openAPI looks for the schema of Sites in both documents.
func (g generic) openAPI() {
	g.Helper()
	eventually(g.T, "the schema is in OpenAPI v2", func(context.Context) error {
		doc, err := g.discover.OpenAPISchema()
		if err != nil {
			return err
		}
		for _, d := range doc.Definitions.AdditionalProperties {
			if d.Name == "com.example.web.v1.Site" {
				return nil
			}
		}
		return errors.New("it is not there")
	})
	paths, err := g.discover.OpenAPIV3().Paths()
	if err != nil {
		g.Fatal(err)
	}
	group, ok := paths["apis/web.example.com/v1"]
	if !ok {
		g.Fatal("OpenAPI v3 does not have the group")
	}
	b, err := group.Schema(runtime.ContentTypeJSON)
	if err != nil || !json.Valid(b) || !strings.Contains(string(b), `"x-kubernetes-group-version-kind":[{"group":"web.example.com","kind":"Site","version":"v1"}]`) {
		g.Errorf("OpenAPI v3: %.200s: %v", b, err)
	}
}

// events records the events of an informer.
type events struct {
	mu   sync.Mutex
	seen []string
}

func (e *events) add(what string, obj any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen = append(e.seen, what+" "+obj.(*unstructured.Unstructured).GetName())
}

// has returns an error unless this is the last event.
func (e *events) has(last string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.seen) == 0 || e.seen[len(e.seen)-1] != last {
		return fmt.Errorf("seen %v", e.seen)
	}
	return nil
}

// TestInformer starts an informer before its custom resource is defined, then changes and removes the definition.
func TestInformer(t *testing.T) {
	t.Parallel()
	g := newGeneric(t)
	factory := dynamicinformer.NewDynamicSharedInformerFactory(g.dynamic, 0)
	informer := factory.ForResource(siteResource).Informer()
	var seen events
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { seen.add("added", obj) },
		UpdateFunc: func(_, obj any) { seen.add("changed", obj) },
		DeleteFunc: func(obj any) { seen.add("deleted", obj) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer factory.Shutdown()
	defer cancel()
	factory.Start(ctx.Done())
	crd := g.define("testdata/sites.yaml")
	g.served()
	expectEvent := func(what string) {
		t.Helper()
		eventually(t, "the informer reports: "+what, func(context.Context) error { return seen.has(what) })
	}
	if _, err := g.sites().Create(t.Context(), newSite("a", "A"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	expectEvent("added a")

	// a change of the schema ends the watches; the informer resumes them
	change := []byte(`[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/more","value":{"type":"string"}}]`)
	definitions := g.dynamic.Resource(definitionsKind)
	if _, err := definitions.Patch(t.Context(), crd.GetName(), types.JSONPatchType, change, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the field is kept", func(ctx context.Context) error {
		site, err := g.sites().Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"more":"x"}}`), metav1.PatchOptions{})
		if err != nil {
			return err
		}
		if more, _, _ := unstructured.NestedString(site.Object, "spec", "more"); more != "x" {
			return fmt.Errorf("got %v", site.Object)
		}
		return nil
	})
	expectEvent("changed a")
	if _, err := g.sites().Create(t.Context(), newSite("b", "B"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	expectEvent("added b")

	if err := definitions.Delete(t.Context(), crd.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all are deleted with their definition", func(context.Context) error {
		if n := len(informer.GetStore().List()); n != 0 {
			return fmt.Errorf("%d are left", n)
		}
		return nil
	})
	eventually(t, "the definition is gone", func(ctx context.Context) error {
		if _, err := definitions.Get(ctx, crd.GetName(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("got it: %w", err)
		}
		return nil
	})
	g.define("testdata/sites.yaml")
	g.served()
	if _, err := g.sites().Create(t.Context(), newSite("c", "C"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	expectEvent("added c")
}

// read decodes a file of testdata.
func read(t *testing.T, file string) *unstructured.Unstructured {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(b, &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}
