package history_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/apps/internal/history"
	"github.com/minikctl/minikctl/pkg/controllers/controllertest"
)

var kind = appsv1.SchemeGroupVersion.WithKind("StatefulSet")

// recorded is the template of the StatefulSet db of a real cluster, whose revision is db-846dc8fb5d.
const recorded = `{"metadata":{"labels":{"app":"db"}},"spec":{"containers":[{"name":"c","image":"redis:7","resources":{},
"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],
"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","securityContext":{},
"schedulerName":"default-scheduler"}}`

func statefulSet(t *testing.T) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{
		Name: "db", Namespace: "default", UID: "1", Annotations: map[string]string{"why": "first"},
	}}
	if err := json.Unmarshal([]byte(recorded), &set.Spec.Template); err != nil {
		t.Fatal(err)
	}
	return set
}

func newRevision(t *testing.T, set *appsv1.StatefulSet, number int64, collisions int32) *appsv1.ControllerRevision {
	r, err := history.New(set, kind, &set.Spec.Template, number, &collisions)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestNew(t *testing.T) {
	set := statefulSet(t)
	r := newRevision(t, set, 3, 0)
	want := metav1.ObjectMeta{
		Name: "db-846dc8fb5d", Namespace: "default",
		Labels:          map[string]string{"app": "db", "controller.kubernetes.io/hash": "846dc8fb5d"},
		Annotations:     map[string]string{"why": "first"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, kind)},
	}
	if !reflect.DeepEqual(r.ObjectMeta, want) {
		t.Errorf("got %+v, want %+v", r.ObjectMeta, want)
	}
	const prefix = `{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"db"}},"spec":{"containers":[{"image":"redis:7",`
	if !strings.HasPrefix(string(r.Data.Raw), prefix) {
		t.Errorf("got data %s", r.Data.Raw)
	}
	if r.Revision != 3 {
		t.Errorf("got revision %d", r.Revision)
	}
	if other := newRevision(t, set, 3, 1); other.Name == r.Name || !history.Equal(other, r) {
		t.Errorf("a collision gives %s with equal data %v, want another name and the same data", other.Name, history.Equal(other, r))
	}
	if len(set.Spec.Template.Labels) != 1 {
		t.Errorf("New changed the template's labels to %v", set.Spec.Template.Labels)
	}
	set.Name = strings.Repeat("a", 250)
	if n := len(newRevision(t, set, 1, 0).Name); n != 223+1+10 {
		t.Errorf("got a name of %d bytes for a long owner", n)
	}
}

func TestRestore(t *testing.T) {
	set := statefulSet(t)
	old := newRevision(t, set, 1, 0)
	replicas := int32(4)
	set.Spec.Replicas = &replicas
	set.Spec.Template = corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "db", "new": "label"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "redis:8"}, {Name: "d"}}},
	}
	got, err := history.Restore(set, old)
	if err != nil {
		t.Fatal(err)
	}
	if want := statefulSet(t).Spec.Template; !reflect.DeepEqual(got.Spec.Template, want) {
		t.Errorf("got template %+v, want %+v", got.Spec.Template, want)
	}
	if *got.Spec.Replicas != 4 || set.Spec.Template.Spec.Containers[0].Image != "redis:8" {
		t.Errorf("Restore changed more than the template of its result")
	}
	if again := newRevision(t, got, 2, 0); !history.Equal(again, old) {
		t.Errorf("the revision of the restored set has other data: %s", again.Data.Raw)
	}
}

func TestSortAndExcess(t *testing.T) {
	at := func(name string, number int64, seconds int64) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
			Name: name, CreationTimestamp: metav1.Unix(seconds, 0),
		}, Revision: number}
	}
	all := []*appsv1.ControllerRevision{at("e", 3, 1), at("d", 2, 9), at("c", 1, 5), at("b", 1, 4), at("a", 1, 5)}
	history.Sort(all)
	if got := names(all); got != "b a c d e" {
		t.Errorf("got order %s", got)
	}
	if n := history.Next(all); n != 4 {
		t.Errorf("got next %d, want 4", n)
	}
	if n := history.Next(nil); n != 1 {
		t.Errorf("got first %d, want 1", n)
	}
	live := func(r *appsv1.ControllerRevision) bool { return r.Name == "b" || r.Name == "e" }
	for limit, want := range map[int32]string{0: "a c d", 1: "a c", 3: "", 9: "", -1: ""} {
		if got := names(history.Excess(all, live, limit)); got != want {
			t.Errorf("limit %d: got %q, want %q", limit, got, want)
		}
	}
}

func names(revisions []*appsv1.ControllerRevision) string {
	var out []string
	for _, r := range revisions {
		out = append(out, r.Name)
	}
	return strings.Join(out, " ")
}

func TestRevisions(t *testing.T) {
	c := controllertest.Start(t, clock.Real())
	set := controllertest.Create(c, client.ConfigMaps, controllertest.ConfigMap("db")) // any owner
	template := statefulSet(t).Spec.Template
	owner := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	r := history.NewRevisions(c.Client, c.Caches)
	if err := c.Caches.WaitSynced(t.Context()); err != nil {
		t.Fatal(err)
	}
	var collisions int32
	create := func() *appsv1.ControllerRevision {
		rev, err := history.New(set, owner, &template, 1, &collisions)
		if err != nil {
			t.Fatal(err)
		}
		rev, err = r.Create(t.Context(), set, rev, &collisions)
		if err != nil {
			t.Fatal(err)
		}
		return rev
	}

	t.Log("another revision with the name, without an owner")
	controllertest.Create(c, client.ControllerRevisions, &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: "db-846dc8fb5d", Namespace: "default"},
		Data:       runtime.RawExtension{Raw: []byte(`{"other":"data"}`)}, Revision: 1,
	})
	first := create()
	if collisions != 1 || first.Name == "db-846dc8fb5d" {
		t.Errorf("got %s after %d collisions", first.Name, collisions)
	}
	if again := create(); again.UID != first.UID || collisions != 1 {
		t.Errorf("a second create of the same data gives %s after %d collisions", again.Name, collisions)
	}
	c.Until("an own revision and an orphan", func() bool { return len(r.Candidates(set)) == 2 })

	second, err := r.Renumber(t.Context(), first, 7)
	if err != nil || second.Revision != 7 || first.Revision != 1 {
		t.Fatalf("got %v, %v, the old one with number %d", second, err, first.Revision)
	}
	if err := r.Delete(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if err := r.Delete(t.Context(), second); err != nil {
		t.Errorf("delete again: %v", err)
	}
	c.Until("the orphan only", func() bool { return len(r.Candidates(set)) == 1 })
}
