package controller

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/client/clienttest"
	"github.com/minikctl/minikctl/pkg/clock"
)

// definition returns an established definition of shirts with versions. The first is the storage version; one that begins
// with "-" is not served.
func definition(versions ...string) *apiextensionsv1.CustomResourceDefinition {
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "shirts.example.com", UID: "definition"}}
	crd.Spec.Group, crd.Spec.Names.Plural, crd.Spec.Scope = "example.com", "shirts", apiextensionsv1.NamespaceScoped
	crd.Status.AcceptedNames.Kind = "Shirt"
	for i, v := range versions {
		name, hidden := strings.CutPrefix(v, "-")
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: name, Served: !hidden, Storage: i == 0})
	}
	crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	return crd
}

func TestCustomKinds(t *testing.T) {
	clienttest.WithCaches(t, func(s *clienttest.ListWatcher, caches *client.Caches) {
		k := NewCustomKinds(caches, clock.Real())
		synctest.Wait()
		var calls []string
		follower := KindFollower{
			Begin: func(k CustomKind) { calls = append(calls, "+"+k.Version) },
			End: func(k CustomKind, deletedAt uint64) {
				calls = append(calls, "-"+k.Version)
				if deletedAt > 0 {
					calls = append(calls, "gone")
				}
			},
		}
		expect := func(what, want, watched string) {
			t.Helper()
			if got := strings.Join(calls, " "); got != want || s.Watches("example.com") != watched {
				t.Errorf("%s: calls %q, want %q; watched %q, want %q", what, got, want, s.Watches("example.com"), watched)
			}
			calls = nil
		}
		young := definition("v1")
		young.Status.Conditions = nil
		s.Put(CustomResourceDefinitions, watch.Added, young)
		k.Follow(follower)
		expect("not established", "", "")
		s.Put(CustomResourceDefinitions, watch.Modified, definition("v1"))
		expect("established", "+v1", "v1/shirts=1")
		if n, ok := k.Find(schema.GroupKind{Group: "example.com", Kind: "Shirt"}); !ok || n.Plural != "shirts" || n.Cluster {
			t.Errorf("found %+v", n)
		}
		labeled := definition("v1", "v2")
		labeled.Labels = map[string]string{"a": "b"}
		s.Put(CustomResourceDefinitions, watch.Modified, labeled)
		expect("another version is served besides", "", "v1/shirts=1")
		s.Put(CustomResourceDefinitions, watch.Modified, definition("v2", "-v1"))
		expect("the version changes", "-v1 +v2", "v2/shirts=1")
		s.Put(CustomResourceDefinitions, watch.Modified, definition("-v2", "-v1"))
		expect("no version is served", "-v2", "")
		s.Put(CustomResourceDefinitions, watch.Modified, definition("-v2", "v1"))
		expect("one that is not stored", "+v1", "v1/shirts=1")
		var late []string
		k.Follow(KindFollower{Begin: func(k CustomKind) { late = append(late, k.Plural) }, End: func(CustomKind, uint64) {}})
		if len(late) != 1 {
			t.Errorf("a follower that comes late is called for %q", late)
		}
		again := definition("v1")
		again.UID = "another"
		s.Put(CustomResourceDefinitions, watch.Modified, again)
		expect("recreated between two watch events", "-v1 gone +v1", "v1/shirts=1")
		s.Put(CustomResourceDefinitions, watch.Deleted, again.DeepCopy())
		expect("just deleted", "", "v1/shirts=1")
		if _, ok := k.Find(schema.GroupKind{Group: "example.com", Kind: "Shirt"}); ok {
			t.Error("found a deleted kind")
		}
		s.Put(CustomResourceDefinitions, watch.Added, definition("v1"))
		expect("recreated within linger", "-v1 gone +v1", "v1/shirts=1")
		time.Sleep(2 * followAfterDelete)
		expect("still there", "", "v1/shirts=1")
		s.Put(CustomResourceDefinitions, watch.Deleted, definition("v1"))
		time.Sleep(2 * followAfterDelete)
		synctest.Wait()
		expect("deleted", "-v1 gone", "")
	})
}
