package track

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/core"
)

// The fields of kinds outside of client-go: conditions are merged by their type, the list of versions is one
// field.
func TestKindsOutsideClientGo(t *testing.T) {
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1"}}
	crd.Spec.Names.ShortNames = []string{"x"}
	crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: "Established", Status: "True"}}
	service := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	service.Spec.Service = &apiregistrationv1.ServiceReference{Name: "s"}
	service.Status.Conditions = []apiregistrationv1.APIServiceCondition{{Type: "Available", Status: "True"}}
	for kind, tt := range map[string]struct {
		obj  objects.Object
		want string
	}{
		"CustomResourceDefinition": {crd, `{"f:spec":{"f:names":{"f:shortNames":{}},"f:versions":{}},` +
			`"f:status":{"f:conditions":{"k:{\"type\":\"Established\"}":{".":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}}}}}`},
		"APIService": {service, `{"f:spec":{"f:service":{".":{},"f:name":{}}},` +
			`"f:status":{"f:conditions":{".":{},"k:{\"type\":\"Available\"}":{".":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}}}}}`},
	} {
		t.Run(kind, func(t *testing.T) {
			w := Write{Resource: rowOf(t, kind), Manager: "m"}
			newBoth().update(t, w, nil, tt.obj)
			if got := string(tt.obj.GetManagedFields()[0].FieldsV1.Raw); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// Two managers apply a definition with different versions: they conflict over the list of versions as a whole.
func TestApplyOfADefinition(t *testing.T) {
	b := newBoth()
	w := Write{Resource: rowOf(t, "CustomResourceDefinition"), Manager: "first"}
	config := func(version string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		text := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a"},"spec":{"group":"g","versions":[{"name":"` + version +
			`","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"x":{"type":"string","default":{"any":["thing"]}}}}}}]}}`
		if err := json.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		return u
	}
	none := w.Resource.New()
	none.SetName("a")
	made, err := b.library.Apply(w, none, config("v1"), false)
	if err != nil {
		t.Fatal(err)
	}
	w.Manager = "second"
	if _, err := b.library.Apply(w, made, config("v1"), false); err != nil {
		t.Errorf("the same again: %v", err)
	}
	_, err = b.library.Apply(w, made, config("v2"), false)
	if err == nil {
		t.Fatal("no conflict")
	}
	if got, want := err.Error(), `Apply failed with 1 conflict: conflict with "first": .spec.versions`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func rowOf(t *testing.T, kind string) *objects.Resource {
	for i := range rows {
		if rows[i].Names.Kind == kind {
			return &rows[i]
		}
	}
	t.Fatalf("no row of %s", kind)
	return nil
}

// A write through a subresource for a part of a pod owns all fields that it sends, because no fields are reset for it.
func TestSubresourceWriteOwnsAllFields(t *testing.T) {
	const want = `{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{"f:image":{},"f:resources":{"f:requests":{".":{},"f:cpu":{}}}}},` +
		`"f:ephemeralContainers":{".":{},"k:{\"name\":\"e\"}":{".":{},"f:image":{},"f:name":{},"f:resources":{}}}}}`
	for _, part := range []string{"resize", "ephemeralcontainers"} {
		t.Run(part, func(t *testing.T) {
			old := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}}
			old.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
			b, pods := newBoth(), objects.Row(core.Pods)
			b.update(t, Write{Resource: &pods, Manager: "first"}, nil, old)
			obj := old.DeepCopy()
			obj.Labels = map[string]string{"a": "b"}
			obj.Spec.Containers[0].Image = "other"
			obj.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1")}
			obj.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Image: "i"}}}
			b.update(t, Write{Resource: &pods, Subresource: part, Manager: "m"}, old, obj)
			if got := obj.GetManagedFields(); len(got) != 2 || string(got[1].FieldsV1.Raw) != want {
				t.Errorf("got\n%v\nwant\n%s", got, want)
			}
		})
	}
}

// Events of events.k8s.io, which are stored in another version, have fields of the version of the request. A second Event of the
// same shape is known.
func TestEventsOfAnotherVersionAreKnown(t *testing.T) {
	row := objects.Row(core.Events)
	w := Write{Resource: &row, Manager: "scheduler", Version: &row.Versions[1]}
	b := newBoth()
	event := func(i int) *corev1.Event {
		return &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprint("e", i), Namespace: "default"},
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: fmt.Sprint("p", i), UID: types.UID(fmt.Sprint(i))},
			Reason:         "Scheduled", Action: "Binding", Message: fmt.Sprint("to node ", i), Type: corev1.EventTypeNormal,
			EventTime: metav1.NowMicro(), ReportingController: "scheduler", ReportingInstance: "a",
		}
	}
	for i := range 3 {
		ev := event(i)
		b.update(t, w, nil, ev)
		if entry := ev.ManagedFields[0]; entry.APIVersion != "events.k8s.io/v1" || !strings.Contains(string(entry.FieldsV1.Raw), `"f:note"`) {
			t.Fatalf("managed fields %s %s", entry.APIVersion, entry.FieldsV1.Raw)
		}
		next := ev.DeepCopy()
		next.Series = &corev1.EventSeries{Count: 2}
		b.update(t, w, ev, next) // the old managedFields may be of another version
	}
	if b.hits != 2 || b.lost != 3 {
		t.Errorf("%d hits, %d lost, want 2 and 3", b.hits, b.lost)
	}
	with := event(4)
	with.Series = &corev1.EventSeries{Count: 2}
	b.update(t, w, nil, with)
	if b.hits != 2 {
		t.Error("an Event with a series is known")
	}
}

// Pods of one owner share the memory of their managedFields.
func TestManagedFieldsAreShared(t *testing.T) {
	b := newBoth()
	var first *metav1.FieldsV1
	for i, uid := range []types.UID{"a", "a", "b", "b"} {
		pod := basePod()
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", UID: uid}}
		b.update(t, Write{Resource: &podRow, Manager: "maker"}, nil, pod)
		fields := pod.ManagedFields[0].FieldsV1
		if !strings.Contains(string(fields.Raw), fmt.Sprintf(`\"uid\":\"%s\"`, uid)) {
			t.Errorf("pod %d of owner %s: %s", i, uid, fields.Raw)
		}
		if i == 3 && fields != first {
			t.Error("two pods of an owner have fields of their own")
		}
		first = fields
	}
}
