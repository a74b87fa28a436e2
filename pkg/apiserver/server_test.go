package apiserver_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

func clientset(t testing.TB, c *rest.Config) *kubernetes.Clientset {
	t.Helper()
	cs, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return cs
}

// testContext returns a context that ends with the test, or after the time limit that every test of this package has.
func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// do sends a request with the administrator's token and returns status and body.
func do(t testing.TB, e *apiservertest.Env, method, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	hc, err := rest.HTTPClientFor(e.AdminConfig)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(testContext(t), method, e.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := hc.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// oneAtATime skips a test with -short, which make race gives: its requests come one after another, so that the race detector finds no more in them
// than in those of the other tests, and it makes them take a minute.
func oneAtATime(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("its many or large requests come one after another, which the race detector makes slow and finds nothing in")
	}
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"a": "1"}}
}

func TestObjectLifecycle(t *testing.T) {
	for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		t.Run(media, func(t *testing.T) {
			e := apiservertest.New(t)
			conf := rest.CopyConfig(e.AdminConfig)
			conf.ContentType, conf.AcceptContentTypes = media, media
			maps := clientset(t, conf).CoreV1().ConfigMaps("default")
			ctx := testContext(t)

			made, err := maps.Create(ctx, configMap("x"), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			w, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: made.ResourceVersion})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			made.Data["a"] = "2"
			changed, err := maps.Update(ctx, made, metav1.UpdateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			list, err := maps.List(ctx, metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if len(list.Items) != 1 || list.Items[0].Data["a"] != "2" || list.Items[0].ResourceVersion != changed.ResourceVersion {
				t.Errorf("list: got %+v", list.Items)
			}
			if err := maps.Delete(ctx, "x", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := maps.Get(ctx, "x", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("get after delete: got %v, want NotFound", err)
			}
			for _, want := range []watch.EventType{watch.Modified, watch.Deleted} {
				ev := <-w.ResultChan()
				if obj, ok := ev.Object.(*corev1.ConfigMap); ev.Type != want || !ok || obj.Data["a"] != "2" {
					t.Errorf("watch: got %s %+v, want %s of the changed object", ev.Type, ev.Object, want)
				}
			}
		})
	}
}
