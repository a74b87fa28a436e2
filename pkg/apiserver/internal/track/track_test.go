package track

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/randfill"

	"github.com/minikctl/minikctl/pkg/objects"
)

var podRow = objects.Row(objects.Def[*corev1.Pod]{
	Names:   objects.Names{Version: "v1", Kind: "Pod", Plural: "pods"},
	New:     func() *corev1.Pod { return &corev1.Pod{} },
	NewList: func() runtime.Object { return &corev1.PodList{} },
	Reset:   []string{"status"},
	Status:  &objects.Status[*corev1.Pod]{Reset: []string{"spec"}},
})

var rows = []objects.Resource{
	podRow,
	objects.Row(objects.Def[*appsv1.Deployment]{
		Names:   objects.Names{Group: "apps", Version: "v1", Kind: "Deployment", Plural: "deployments"},
		New:     func() *appsv1.Deployment { return &appsv1.Deployment{} },
		NewList: func() runtime.Object { return &appsv1.DeploymentList{} },
	}),
	objects.Row(objects.Def[*corev1.Service]{
		Names:   objects.Names{Version: "v1", Kind: "Service", Plural: "services"},
		New:     func() *corev1.Service { return &corev1.Service{} },
		NewList: func() runtime.Object { return &corev1.ServiceList{} },
	}),
	objects.Row(objects.Def[*corev1.Node]{
		Names:   objects.Names{Version: "v1", Kind: "Node", Plural: "nodes"},
		New:     func() *corev1.Node { return &corev1.Node{} },
		NewList: func() runtime.Object { return &corev1.NodeList{} },
	}),
	objects.Row(objects.Def[*apiextensionsv1.CustomResourceDefinition]{
		Names:   objects.Names{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Plural: "customresourcedefinitions"},
		New:     func() *apiextensionsv1.CustomResourceDefinition { return &apiextensionsv1.CustomResourceDefinition{} },
		NewList: func() runtime.Object { return &apiextensionsv1.CustomResourceDefinitionList{} },
	}),
	objects.Row(objects.Def[*apiregistrationv1.APIService]{
		Names:   objects.Names{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService", Plural: "apiservices"},
		New:     func() *apiregistrationv1.APIService { return &apiregistrationv1.APIService{} },
		NewList: func() runtime.Object { return &apiregistrationv1.APIServiceList{} },
	}),
}

// both runs the same writes through a tracker with a memo and one that always calls the library.
type both struct {
	memo, library *Tracker
	hits, lost    int
}

func newBoth() *both {
	now := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	return &both{memo: New(now), library: New(now)}
}

func (b *both) step(t *testing.T) {
	b.memo.clock.(*clocktesting.FakeClock).Step(time.Second)
	t.Helper()
}

func (b *both) update(t *testing.T, w Write, old, obj objects.Object) {
	t.Helper()
	m, err := b.library.manager(w)
	if err != nil {
		t.Fatal(err)
	}
	m.plan = nil
	plain := obj.DeepCopyObject().(objects.Object)
	if err := b.library.Update(w, old, plain); err != nil {
		t.Fatal(err)
	}
	if m, err = b.memo.manager(w); err != nil {
		t.Fatal(err)
	}
	before := old
	if before == nil {
		before = m.none
	}
	if q, _, ok := m.keyOfWrite(w.Manager, before, obj); ok {
		if _, known := m.memo.get(q); known {
			b.hits++
		}
	} else {
		b.lost++
	}
	if err := b.memo.Update(w, old, obj); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(shown(plain), shown(obj)); diff != "" {
		was := "nothing"
		if old != nil {
			j, _ := json.Marshal(old)
			was = string(j)
		}
		now, _ := json.Marshal(plain)
		t.Fatalf("library (-) and memo (+) differ: %s\nold %s\nnew %s", diff, was, now)
	}
}

// apply applies a part of next to old by force, with the library, so that later writes find managers of applies.
func (b *both) apply(t *testing.T, w Write, old, next *corev1.Pod) *corev1.Pod {
	t.Helper()
	config := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": old.Name}}
	if w.Subresource == "status" {
		config["status"] = map[string]any{"phase": string(next.Status.Phase)}
	} else {
		labels := map[string]any{}
		for key, value := range next.Labels {
			labels[key] = value
		}
		config["metadata"].(map[string]any)["labels"] = labels
		config["spec"] = map[string]any{"containers": []any{map[string]any{"name": "c", "image": next.Spec.Containers[0].Image}}}
	}
	out, err := b.memo.Apply(w, old, &unstructured.Unstructured{Object: config}, true)
	if err != nil {
		t.Fatal(err)
	}
	return out.(*corev1.Pod)
}

func shown(obj objects.Object) []string {
	var out []string
	for _, e := range obj.GetManagedFields() {
		at := "no time"
		if e.Time != nil {
			at = e.Time.UTC().String()
		}
		out = append(out, fmt.Sprintf("%s %s %s %q %s %s", e.Manager, e.Operation, e.APIVersion, e.Subresource, at, e.FieldsV1.Raw))
	}
	return out
}

// Random updates and applies of one pod and its status by several managers.
func TestMemoOfChanges(t *testing.T) {
	b := newBoth()
	for run := range 15 {
		// Five runs in a row make the same changes with different values: the shapes of the first are new, those of the
		// others are cached.
		rng := rand.New(rand.NewPCG(1, uint64(run/5)))
		uniquePrefix = fmt.Sprint("v", run)
		pod := basePod()
		w := Write{Resource: &podRow, Manager: "maker"}
		b.update(t, w, nil, pod)
		pod.UID = types.UID(fmt.Sprint("uid", run))
		for range 60 {
			next := pod.DeepCopy()
			for range 1 + rng.IntN(3) {
				changes[rng.IntN(len(changes))](next, rng)
			}
			w := Write{Resource: &podRow, Manager: fmt.Sprint("m", rng.IntN(3))}
			if rng.IntN(3) == 0 {
				w.Subresource = "status"
			}
			if rng.IntN(4) == 0 {
				next.ManagedFields = nil
			}
			if rng.IntN(5) == 0 {
				pod = b.apply(t, w, pod, next)
			} else {
				b.update(t, w, pod, next)
				pod = next
			}
			b.step(t)
		}
	}
	if b.hits < 400 {
		t.Errorf("of some 700 updates %d were cached and %d left to the library", b.hits, b.lost)
	}
	t.Logf("%d cached, %d left to the library", b.hits, b.lost)
}

// These writes differ in one property each: the test detects if the memo takes different writes for equal ones.
func TestMemoDistinguishesWrites(t *testing.T) {
	b := newBoth()
	uniquePrefix = "v"
	base := basePod()
	b.update(t, Write{Resource: &podRow, Manager: "maker"}, nil, base)
	base.UID = "uid"
	for i, change := range changes {
		for n := range 40 {
			rng := rand.New(rand.NewPCG(uint64(i), uint64(n)))
			made := basePod()
			change(made, rng)
			b.update(t, Write{Resource: &podRow, Manager: "m"}, nil, made)
			next := base.DeepCopy()
			change(next, rng)
			b.update(t, Write{Resource: &podRow, Manager: "m", Subresource: []string{"", "status"}[n%2]}, base, next)
			back := base.DeepCopy()
			back.ManagedFields = nil
			b.update(t, Write{Resource: &podRow, Manager: "m"}, next, back)
		}
	}
}

func basePod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", Labels: map[string]string{"app": "a"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "c", Image: "i", Ports: []corev1.ContainerPort{{ContainerPort: 80, Protocol: "TCP"}},
			Env: []corev1.EnvVar{{Name: "A", Value: "1"}},
		}}},
	}
}

// uniquePrefix makes the values of each run different.
var uniquePrefix string

func val(n int) string { return uniquePrefix + fmt.Sprint(n) }

var changes = []func(*corev1.Pod, *rand.Rand){
	func(p *corev1.Pod, r *rand.Rand) { p.Labels = toggle(p.Labels, r) },
	func(p *corev1.Pod, r *rand.Rand) { p.Annotations = toggle(p.Annotations, r) },
	func(p *corev1.Pod, r *rand.Rand) { p.Annotations = map[string]string{} },
	func(p *corev1.Pod, r *rand.Rand) {
		p.Finalizers = []string{fmt.Sprint("x/", r.IntN(3)), "y/z"}[:r.IntN(3)]
	},
	func(p *corev1.Pod, r *rand.Rand) { p.Spec.Containers[0].Image = val(r.IntN(3)) },
	func(p *corev1.Pod, r *rand.Rand) {
		p.Spec.Containers = p.Spec.Containers[:1]
		for _, n := range []string{"d", "e", "f"} {
			if r.IntN(2) == 0 {
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: n, Image: val(r.IntN(2))})
			}
		}
	},
	func(p *corev1.Pod, r *rand.Rand) {
		c := &p.Spec.Containers[0]
		c.Ports = nil
		for i := range r.IntN(3) {
			c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: int32(80 + i), Protocol: []corev1.Protocol{"TCP", "UDP", ""}[r.IntN(3)], HostPort: int32(r.IntN(2))})
		}
	},
	func(p *corev1.Pod, r *rand.Rand) {
		c := &p.Spec.Containers[0]
		c.Resources = corev1.ResourceRequirements{}
		if r.IntN(3) > 0 {
			c.Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse([]string{"1", "1000m", "2"}[r.IntN(3)])}
		}
	},
	func(p *corev1.Pod, r *rand.Rand) {
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: val(r.IntN(2))}, {Name: []string{"A", "B", "C"}[r.IntN(3)]}}[:1+r.IntN(2)]
	},
	func(p *corev1.Pod, r *rand.Rand) {
		p.Spec.SecurityContext = []*corev1.PodSecurityContext{nil, {}, {RunAsUser: new(int64)}}[r.IntN(3)]
	},
	func(p *corev1.Pod, r *rand.Rand) { p.Spec.NodeSelector = toggle(p.Spec.NodeSelector, r) },
	func(p *corev1.Pod, r *rand.Rand) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: val(r.IntN(2))}, {Key: "b"}}[:r.IntN(3)]
	},
	func(p *corev1.Pod, r *rand.Rand) {
		p.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(fmt.Sprint(r.IntN(2))), Name: "o", Kind: "K", APIVersion: "v1"}}[:r.IntN(2)]
	},
	func(p *corev1.Pod, r *rand.Rand) {
		h := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt(80 + r.IntN(2))}}
		p.Spec.Containers[0].LivenessProbe = []*corev1.Probe{nil, {}, {ProbeHandler: h}}[r.IntN(3)]
	},
	func(p *corev1.Pod, r *rand.Rand) {
		p.Status.Phase = []corev1.PodPhase{"", "Pending", "Running"}[r.IntN(3)]
	},
	func(p *corev1.Pod, r *rand.Rand) {
		at := metav1.NewTime(time.Unix(int64(r.IntN(3)), 0))
		p.Status.StartTime = []*metav1.Time{nil, &at}[r.IntN(2)]
		p.Status.Conditions = []corev1.PodCondition{
			{Type: "Ready", Status: []corev1.ConditionStatus{"True", "False"}[r.IntN(2)], LastTransitionTime: at}, {Type: "Other"},
		}[:r.IntN(3)]
	},
}

func toggle(m map[string]string, r *rand.Rand) map[string]string {
	k := fmt.Sprint("k", r.IntN(3))
	switch r.IntN(3) {
	case 0:
		delete(m, k)
	default:
		if m == nil {
			m = map[string]string{}
		}
		m[k] = val(r.IntN(2))
	}
	return m
}

// Objects filled at random, with everything that their types have.
func TestMemoOfRandomObjects(t *testing.T) {
	for i := range rows {
		t.Run(rows[i].Names.Kind, func(t *testing.T) {
			b := newBoth()
			fill := randfill.NewWithSeed(7).NilChance(0.6).NumElements(0, 2).MaxDepth(12).Funcs(
				func(q *resource.Quantity, c randfill.Continue) {
					*q = *resource.NewQuantity(c.Int63()%5, resource.DecimalSI)
				},
				func(v *intstr.IntOrString, c randfill.Continue) { *v = intstr.FromInt(c.Intn(3)) },
				func(v *metav1.Time, c randfill.Continue) { *v = metav1.NewTime(time.Unix(int64(c.Intn(9)), 0)) },
				func(v *metav1.MicroTime, c randfill.Continue) {
					*v = metav1.NewMicroTime(time.Unix(int64(c.Intn(9)), 0))
				},
				func(v *metav1.ManagedFieldsEntry, c randfill.Continue) {},
				func(v *apiextensionsv1.JSON, c randfill.Continue) {
					v.Raw = []byte([]string{`{"a":[1]}`, `"b"`, `true`}[c.Intn(3)])
				},
				func(v *string, c randfill.Continue) { *v = []string{"", "a", "b", "c"}[c.Intn(4)] },
			)
			next := func() objects.Object {
				obj := rows[i].New()
				fill.Fill(obj)
				obj.SetManagedFields(nil)
				return obj
			}
			w := Write{Resource: &rows[i], Manager: "m"}
			for range 12 {
				old := next()
				b.update(t, w, nil, old)
				old.SetUID("u")
				obj := next()
				obj.SetUID("u")
				b.update(t, w, old, obj)
				small := obj.DeepCopyObject().(objects.Object)
				small.SetLabels(map[string]string{"a": "b"})
				small.SetManagedFields(nil)
				b.update(t, w, obj, small)
			}
		})
	}
}

// Every type of the schema round-trips.
func TestSchemaReads(t *testing.T) {
	if len(lines()) < 800 {
		t.Fatalf("%d types", len(lines()))
	}
	for name, text := range lines() {
		var a, b typeText
		if err := json.Unmarshal(text, &a); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		again, err := textOf(a.atom())
		if err != nil {
			t.Fatal(err)
		}
		j, err := json.Marshal(again)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(j, &b); err != nil || !reflect.DeepEqual(a, b) {
			t.Errorf("%s: %s became %s", name, text, j)
		}
		a.eachName(func(n string) {
			if lines()[n] == nil {
				t.Errorf("%s names %s, which is not there", name, n)
			}
		})
	}
}

func BenchmarkCreateKnownShape(b *testing.B) {
	tr := New(clocktesting.NewFakeClock(time.Now()))
	w := Write{Resource: &podRow, Manager: "m"}
	pod := basePod()
	b.ReportAllocs()
	for b.Loop() {
		pod.ManagedFields = nil
		if err := tr.Update(w, nil, pod); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStatusKnownShape(b *testing.B) {
	tr := New(clocktesting.NewFakeClock(time.Now()))
	old := basePod()
	if err := tr.Update(Write{Resource: &podRow, Manager: "m"}, nil, old); err != nil {
		b.Fatal(err)
	}
	old.UID = "u"
	next := old.DeepCopy()
	next.Status.Phase = "Running"
	sent := next.ManagedFields
	w := Write{Resource: &podRow, Manager: "kubelet", Subresource: "status"}
	b.ReportAllocs()
	for b.Loop() {
		next.ManagedFields = sent
		if err := tr.Update(w, old, next); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLibrary(b *testing.B) {
	tr := New(clocktesting.NewFakeClock(time.Now()))
	w := Write{Resource: &podRow, Manager: "m"}
	m, err := tr.manager(w)
	if err != nil {
		b.Fatal(err)
	}
	m.plan = nil
	pod := basePod()
	b.ReportAllocs()
	for b.Loop() {
		pod.ManagedFields = nil
		if err := tr.Update(w, nil, pod); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFirstUse(b *testing.B) {
	for b.Loop() {
		if _, err := newManager(&podRow, target{version: corev1.SchemeGroupVersion}); err != nil {
			b.Fatal(err)
		}
	}
}
