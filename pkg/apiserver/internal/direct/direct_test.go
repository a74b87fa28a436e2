package direct_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/direct"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/store/memory"
)

// serve returns a client of an engine over an empty store, which runs until the test ends.
func serve(t testing.TB, rows ...objects.Resource) client.Client {
	t.Helper()
	e, err := verbs.New(verbs.Config{Store: memory.New(), Resources: rows, Clock: clock.Real(), Source: clock.NewSource(1)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return direct.New(e, e.Lookup, &user.DefaultInfo{Name: "tester"}, "test/1")
}

func configMaps() objects.Resource {
	return objects.Row(objects.Def[*corev1.ConfigMap]{
		Names:   objects.Names{Version: "v1", Kind: "ConfigMap", Plural: "configmaps"},
		New:     func() *corev1.ConfigMap { return new(corev1.ConfigMap) },
		NewList: func() runtime.Object { return new(corev1.ConfigMapList) },
	})
}

func TestObjectLifecycle(t *testing.T) {
	c := serve(t, configMaps())
	ctx := t.Context()
	target := client.Target{Resource: client.ConfigMaps, Namespace: "default", Name: "a"}

	list, err := c.List(ctx, client.Target{Resource: client.ConfigMaps}, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made, err := c.Create(ctx, client.Target{Resource: client.ConfigMaps, Namespace: "default"},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"k": "1"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cm := made.(*corev1.ConfigMap)
	if cm.UID == "" || cm.ResourceVersion == "" || cm.Namespace != "default" {
		t.Fatalf("created object lacks system fields: %+v", cm.ObjectMeta)
	}
	got, err := c.Get(ctx, target, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got != objects.Object(cm) {
		t.Error("get does not hand out the object that was created")
	}

	next := cm.DeepCopy()
	next.Data["k"] = "2"
	changed, err := c.Update(ctx, target, next, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stale := cm.DeepCopy()
	stale.Data["k"] = "3"
	if _, err := c.Update(ctx, target, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("stale update: got %v, want a conflict", err)
	}
	same, err := c.Update(ctx, target, changed.(*corev1.ConfigMap).DeepCopy(), metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if rv := same.(*corev1.ConfigMap).ResourceVersion; rv != changed.(*corev1.ConfigMap).ResourceVersion {
		t.Errorf("an update without a change has made version %s", rv)
	}

	if _, err := c.Delete(ctx, target, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(ctx, target, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get of a deleted object: %v", err)
	}

	want := []watch.EventType{watch.Added, watch.Modified, watch.Deleted}
	for i, ev := range follow(t, c, list.ResourceVersion, len(want)) {
		if ev.Type != want[i] {
			t.Errorf("event %d is %s, want %s", i, ev.Type, want[i])
		}
	}
}

// follow collects n events of all config maps.
func follow(t *testing.T, c client.Client, version string, n int) []client.Event {
	t.Helper()
	var out []client.Event
	opts := metav1.ListOptions{ResourceVersion: version}
	for ev, err := range c.Watch(t.Context(), client.Target{Resource: client.ConfigMaps}, opts) {
		if err != nil {
			t.Fatal(err)
		}
		if out = append(out, ev); len(out) == n {
			break
		}
	}
	return out
}

func TestWatchAfterList(t *testing.T) {
	c := serve(t, configMaps())
	all := client.Target{Resource: client.ConfigMaps, Namespace: "default"}
	list, err := c.List(t.Context(), all, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("x", i)}}
		if _, err := c.Create(t.Context(), all, obj, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		target := all
		target.Name = fmt.Sprint("x", i)
		if _, err := c.Delete(t.Context(), target, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	events := follow(t, c, list.ResourceVersion, 20)
	for i, ev := range events {
		want := watch.Added
		if i >= 10 {
			want = watch.Deleted
		}
		if ev.Type != want || ev.Object.GetName() != fmt.Sprint("x", i%10) {
			t.Errorf("event %d: %s %s", i, ev.Type, ev.Object.GetName())
		}
	}
}
