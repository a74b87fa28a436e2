package client_test

import (
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/client/clienttest"
	"github.com/minikctl/minikctl/pkg/objects"
)

// TestMutationDetector changes an object of a cache. The cache detects the change when the object is replaced or
// deleted, and when the caches end.
func TestMutationDetector(t *testing.T) {
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u", Labels: map[string]string{"app": "web"}}}
	}
	var found []string
	clienttest.WithCaches(t, func(s *clienttest.ListWatcher, caches *client.Caches) {
		pods := caches.Pods()
		pods.DetectMutations(func(message string) { found = append(found, message) })
		synctest.Wait()
		expect := func(when string, n int) {
			t.Helper()
			if len(found) != n {
				t.Errorf("%s: found %q, want %d changes", when, found, n)
			}
			found = nil
		}
		plant := func(name string) {
			p, _ := pods.Get(objects.Key{Namespace: "ns", Name: name})
			p.Labels["app"] = "db"
		}
		for _, name := range []string{"replaced", "deleted", "left"} {
			s.Put(client.Pods, watch.Added, pod(name))
			s.Put(client.Pods, watch.Modified, pod(name))
		}
		expect("before a change", 0)
		plant("replaced")
		s.Put(client.Pods, watch.Modified, pod("replaced"))
		expect("replaced", 1)
		plant("deleted")
		s.Put(client.Pods, watch.Deleted, pod("deleted"))
		expect("deleted", 1)
		plant("left")
	})
	if all := strings.Join(found, "; "); !strings.Contains(all, `shared object ns/left`) || !strings.Contains(all, `metadata.labels.app was "web" and is "db"`) {
		t.Errorf("at the end: found %q", found)
	}
}
