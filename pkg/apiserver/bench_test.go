package apiserver_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/client"
)

// BenchmarkList lists 5,000 pods that do not change.
func BenchmarkList(b *testing.B) {
	const pods = 5000
	e := apiservertest.New(b)
	c := e.Client("bench")
	ctx := testContext(b)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: "default"}}
	if _, err := c.Create(ctx, client.Target{Resource: client.ServiceAccounts, Namespace: "default"}, account, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	for i := range pods {
		if _, err := c.Create(ctx, client.Target{Resource: client.Pods, Namespace: "default"}, benchPod(fmt.Sprintf("pod-%05d", i)), metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	for _, accept := range []string{"application/json", "application/vnd.kubernetes.protobuf", "application/json;as=Table;v=v1;g=meta.k8s.io"} {
		b.Run(accept, func(b *testing.B) {
			hc := httpClient(b, e)
			b.ReportAllocs()
			for b.Loop() {
				b.SetBytes(fetch(b, hc, e.URL+"/api/v1/pods", accept))
			}
		})
	}
}

func benchPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"app": "bench", "tier": "web"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "c", Image: "nginx", Env: []corev1.EnvVar{{Name: "A", Value: "b"}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}},
		}}},
	}
}

func httpClient(b testing.TB, e *apiservertest.Env) *http.Client {
	b.Helper()
	conf := rest.CopyConfig(e.AdminConfig)
	conf.DisableCompression = true
	hc, err := rest.HTTPClientFor(conf)
	if err != nil {
		b.Fatal(err)
	}
	return hc
}

func fetch(b testing.TB, hc *http.Client, url, accept string) int64 {
	b.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := hc.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		b.Fatal(resp.Status, err)
	}
	return n
}

// BenchmarkCreate creates ConfigMaps over HTTP, with many concurrent requests.
func BenchmarkCreate(b *testing.B) {
	e := apiservertest.New(b)
	hc := httpClient(b, e)
	var n atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m-%d"},"data":{"a":"b"}}`, n.Add(1))
			resp, err := hc.Post(e.URL+"/api/v1/namespaces/default/configmaps", "application/json", strings.NewReader(body))
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body) // so that the connection is reused
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusCreated {
				b.Error(resp.Status)
			}
		}
	})
}
