package upstream_test

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/client/upstream"
)

func TestClientSet(t *testing.T) {
	ctx := t.Context()
	set := upstream.New(apiservertest.New(t).Client("library")).ClientSet()
	maps := set.CoreV1().ConfigMaps("default")
	made, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"x": "1"}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("create twice: %v", err)
	}
	made.Data = map[string]string{"k": "v"}
	if _, err := maps.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
	patched, err := maps.Patch(ctx, "a", types.MergePatchType, []byte(`{"data":{"k":"2"}}`), metav1.PatchOptions{})
	if err != nil || patched.Data["k"] != "2" {
		t.Errorf("patched to %v, %v", patched.Data, err)
	}
	list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "x=1"})
	if err != nil || len(list.Items) != 1 || list.ResourceVersion == "" || list.Items[0].Data["k"] != "2" {
		t.Errorf("listed %v, %v", list, err)
	}
	w, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: made.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"v", "2"} {
		ev := <-w.ResultChan()
		if cm, ok := ev.Object.(*corev1.ConfigMap); !ok || cm.Data["k"] != want {
			t.Errorf("watched %+v, want k=%s", ev, want)
		}
	}
	w.Stop()
	if err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "x=1"}); err != nil {
		t.Error(err)
	}
	if _, err := maps.Get(ctx, "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get a deleted object: %v", err)
	}
	ns, err := set.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
	if err != nil || ns.Name != "default" {
		t.Errorf("got namespace %v, %v", ns, err)
	}
	replicas := int32(1)
	web := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}
	if _, err := set.AppsV1().Deployments("default").Create(ctx, web, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	scale, err := set.AppsV1().Deployments("default").GetScale(ctx, "web", metav1.GetOptions{})
	if err != nil || scale.Spec.Replicas != 1 {
		t.Errorf("got scale %v, %v", scale, err)
	}
	if _, err := set.Discovery().ServerVersion(); err == nil {
		t.Error("the bridge serves a path that is no resource")
	}
}

// TestDynamic: other clients can use the configuration.
func TestDynamic(t *testing.T) {
	ctx := t.Context()
	c, err := dynamic.NewForConfig(upstream.New(apiservertest.New(t).Client("library")).Config())
	if err != nil {
		t.Fatal(err)
	}
	cm := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "default"},
	}}
	if _, err := c.Resource(client.ConfigMaps).Namespace("default").Create(ctx, cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	list, err := c.Resource(client.ConfigMaps).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=a"})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("listed %v, %v", list, err)
	}
}

func TestInformers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := apiservertest.New(t).Client("library")
	b := upstream.New(c)
	informers := b.Informers()
	if informers != b.Informers() {
		t.Error("two factories")
	}
	maps := informers.Core().V1().ConfigMaps()
	seen := make(chan string, 100)
	note := func(what string, obj any) {
		if cm := obj.(*corev1.ConfigMap); cm.Namespace == "default" { // other namespaces have the server's ConfigMaps
			seen <- what + " " + cm.Name
		}
	}
	if _, err := maps.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { note("add", obj) },
		DeleteFunc: func(obj any) { note("delete", obj) },
	}); err != nil {
		t.Fatal(err)
	}
	create := func(name string) {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
		if _, err := c.Create(ctx, client.Target{Resource: client.ConfigMaps, Namespace: "default"}, cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create("a")
	informers.StartWithContext(ctx)
	if err := informers.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
		t.Fatal(err)
	}
	create("b")
	if _, err := c.Delete(ctx, client.Target{Resource: client.ConfigMaps, Namespace: "default", Name: "a"}, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"add a", "add b", "delete a"} {
		select {
		case got := <-seen:
			if got != want {
				t.Errorf("the informer called the handler for %q, want %q", got, want)
			}
		case <-ctx.Done():
			t.Fatalf("the informer did not call the handler for %q", want)
		}
	}
	listed, err := maps.Lister().ConfigMaps("default").List(labels.Everything())
	if err != nil || len(listed) == 0 {
		t.Errorf("listed %d, %v", len(listed), err)
	}
	direct, err := c.Get(ctx, client.Target{Resource: client.ConfigMaps, Namespace: "default", Name: "b"}, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := maps.Lister().ConfigMaps("default").Get("b"); err != nil || got != direct {
		t.Errorf("the informer does not share the server's object: %v", err)
	}
	cancel()
	informers.Shutdown()
}
