package verbs_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/allocate"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/direct"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/builtin"
	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/memory"
)

// server is an engine that runs until its test ends.
type server struct {
	client.Client
	engine *verbs.Engine
	store  store.Store
	clock  *clocktesting.FakeClock
}

func serve(t testing.TB, s store.Store) *server {
	t.Helper()
	return serveWith(t, s, func(*verbs.Config) {})
}

// serveWith runs an engine as serve does, after edit has changed its configuration.
func serveWith(t testing.TB, s store.Store, edit func(*verbs.Config)) *server {
	t.Helper()
	srv := &server{store: s, clock: clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))}
	source := clock.NewSource(1)
	hook, err := allocate.Services(allocate.Config{}, source)
	if err != nil {
		t.Fatal(err)
	}
	cfg := verbs.Config{
		Store: s, Resources: builtin.Resources(), Clock: srv.clock, Source: source, Hooks: []stage.Hook{hook},
	}
	edit(&cfg)
	if srv.engine, err = verbs.New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.engine.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	srv.Client = srv.as("tester")
	return srv
}

func (s *server) as(agent string) client.Client {
	return direct.New(s.engine, s.engine.Lookup, &user.DefaultInfo{Name: agent}, agent+"/1")
}

func in(r client.Target, name string) client.Target {
	r.Name = name
	return r
}

var (
	pods        = client.Target{Resource: client.Pods, Namespace: "default"}
	configMaps  = client.Target{Resource: client.ConfigMaps, Namespace: "default"}
	deployments = client.Target{Resource: client.Deployments, Namespace: "default"}
	services    = client.Target{Resource: client.Services, Namespace: "default"}
)

func create[T objects.Object](t testing.TB, c client.Client, in client.Target, obj T) T {
	t.Helper()
	out, err := c.Create(t.Context(), in, obj, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create %s: %v", obj.GetName(), err)
	}
	return out.(T)
}

func get[T objects.Object](t testing.TB, c client.Client, in client.Target) T {
	t.Helper()
	out, err := c.Get(t.Context(), in, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("get %s: %v", in.Name, err)
	}
	return out.(T)
}

func newPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
	}
}

func newConfigMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": "v"}}
}

func newDeployment(name string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
			},
		},
	}
}

// wantError checks the code of an error, and that its message contains words.
func wantError(t *testing.T, err error, code int32, words string) {
	t.Helper()
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		t.Fatalf("got %v, want a status %d", err, code)
	}
	if s := status.Status(); s.Code != code || !strings.Contains(s.Message, words) {
		t.Fatalf("got %d %q, want %d %q", s.Code, s.Message, code, words)
	}
}

func TestErrors(t *testing.T) {
	s := serve(t, memory.New())
	ctx := t.Context()
	cm := create(t, s, configMaps, newConfigMap("a"))

	_, err := s.Create(ctx, configMaps, newConfigMap("a"), metav1.CreateOptions{})
	wantError(t, err, 409, `configmaps "a" already exists`)
	_, err = s.Get(ctx, in(configMaps, "b"), metav1.GetOptions{})
	wantError(t, err, 404, `configmaps "b" not found`)
	_, err = s.Create(ctx, configMaps, newConfigMap("A_"), metav1.CreateOptions{})
	wantError(t, err, 422, `ConfigMap "A_" is invalid: metadata.name: Invalid value: "A_"`)
	_, err = s.Create(ctx, configMaps, newConfigMap(""), metav1.CreateOptions{})
	wantError(t, err, 422, "metadata.name: Required value: name or generateName is required")
	other := newConfigMap("c")
	other.Namespace = "elsewhere"
	_, err = s.Create(ctx, configMaps, other, metav1.CreateOptions{})
	wantError(t, err, 400, "the namespace of the provided object does not match the namespace sent on the request")
	versioned := newConfigMap("c")
	versioned.ResourceVersion = "5"
	_, err = s.Create(ctx, configMaps, versioned, metav1.CreateOptions{})
	wantError(t, err, 500, "resourceVersion should not be set on objects to be created")

	next := cm.DeepCopy()
	next.Data["k"] = "2"
	if _, err = s.Update(ctx, in(configMaps, "a"), next.DeepCopy(), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = s.Update(ctx, in(configMaps, "a"), next.DeepCopy(), metav1.UpdateOptions{})
	wantError(t, err, 409, `Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes to the latest version and try again`)
	next.ResourceVersion, next.UID = "", "someone-else"
	_, err = s.Update(ctx, in(configMaps, "a"), next.DeepCopy(), metav1.UpdateOptions{})
	wantError(t, err, 409, "Precondition failed: UID in precondition: someone-else, UID in object meta: "+string(cm.UID))
	_, err = s.Update(ctx, in(configMaps, "b"), next, metav1.UpdateOptions{})
	wantError(t, err, 400, "the name of the object (a) does not match the name on the URL (b)")
	_, err = s.Delete(ctx, in(configMaps, "a"), metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("x")})
	wantError(t, err, 409, "the UID in the precondition (x) does not match the UID in record")
	_, err = s.List(ctx, configMaps, metav1.ListOptions{FieldSelector: "spec.x=1"})
	wantError(t, err, 400, "field")
	_, err = s.List(ctx, configMaps, metav1.ListOptions{ResourceVersionMatch: "Exact"})
	wantError(t, err, 422, "ListOptions.meta.k8s.io")
}

func TestGenerateName(t *testing.T) {
	s := serve(t, memory.New())
	seen := map[string]bool{}
	for range 50 {
		obj := newConfigMap("")
		obj.GenerateName = "web-"
		made := create(t, s, configMaps, obj)
		if len(made.Name) != len("web-")+5 || seen[made.Name] {
			t.Fatalf("generated name %q", made.Name)
		}
		seen[made.Name] = true
	}
}

func TestUpdateWithoutResourceVersionOverwrites(t *testing.T) {
	s := serve(t, memory.New())
	create(t, s, configMaps, newConfigMap("a"))
	for i := range 3 {
		next := newConfigMap("a")
		next.Data["k"] = fmt.Sprint(i)
		if _, err := s.Update(t.Context(), in(configMaps, "a"), next, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := get[*corev1.ConfigMap](t, s, in(configMaps, "a")).Data["k"]; got != "2" {
		t.Errorf("data is %q", got)
	}
}

func TestUnchangedUpdateIsNotWritten(t *testing.T) {
	s := serve(t, memory.New())
	d := create(t, s, deployments, newDeployment("web"))
	s.clock.Step(time.Hour)
	for range 2 {
		out, err := s.as("other").Update(t.Context(), in(deployments, "web"), d.DeepCopy(), metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if rv := out.(*appsv1.Deployment).ResourceVersion; rv != d.ResourceVersion {
			t.Errorf("version %s became %s", d.ResourceVersion, rv)
		}
	}
}

func TestGeneration(t *testing.T) {
	s := serve(t, memory.New())
	d := create(t, s, deployments, newDeployment("web"))
	if d.Generation != 1 {
		t.Fatalf("new generation %d", d.Generation)
	}
	next := d.DeepCopy()
	next.Generation = 77
	next.Spec.Paused = true
	next.Status.Replicas = 9
	out, err := s.Update(t.Context(), in(deployments, "web"), next, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d = out.(*appsv1.Deployment)
	if d.Generation != 2 || d.Status.Replicas != 0 {
		t.Errorf("generation %d, replicas in status %d", d.Generation, d.Status.Replicas)
	}
	next = d.DeepCopy()
	next.Spec.Paused = false
	next.Status.Replicas = 9
	out, err = s.Update(t.Context(), in(deployments, "web").Sub("status"), next, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d = out.(*appsv1.Deployment)
	if d.Generation != 2 || d.Status.Replicas != 9 || !d.Spec.Paused {
		t.Errorf("after status write: generation %d, replicas %d, paused %v", d.Generation, d.Status.Replicas, d.Spec.Paused)
	}
	last := d.ManagedFields[len(d.ManagedFields)-1]
	if last.Subresource != "status" || string(last.FieldsV1.Raw) != `{"f:status":{"f:replicas":{}}}` {
		t.Errorf("status writer's entry: %+v", last)
	}
}

func TestScale(t *testing.T) {
	s := serve(t, memory.New())
	create(t, s, deployments, newDeployment("web"))
	target := in(deployments, "web").Sub("scale")
	scale := get[*autoscalingv1.Scale](t, s, target)
	if scale.Spec.Replicas != 1 || scale.Status.Selector != "app=web" {
		t.Fatalf("scale %+v", scale)
	}
	next := scale.DeepCopy()
	next.Spec.Replicas = 4
	out, err := s.Update(t.Context(), target, next, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n := out.(*autoscalingv1.Scale).Spec.Replicas; n != 4 {
		t.Errorf("the response has %d replicas", n)
	}
	if _, err := s.Update(t.Context(), target, next, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("stale scale: %v", err)
	}
	out, err = s.Patch(t.Context(), target, client.Patch{Type: types.MergePatchType, Data: []byte(`{"spec":{"replicas":7}}`)}, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d := get[*appsv1.Deployment](t, s, in(deployments, "web"))
	if out.(*autoscalingv1.Scale).Spec.Replicas != 7 || *d.Spec.Replicas != 7 || d.Generation != 3 {
		t.Errorf("replicas %d, generation %d", *d.Spec.Replicas, d.Generation)
	}
	next = scale.DeepCopy()
	next.ResourceVersion, next.Spec.Replicas = "", -1
	_, err = s.Update(t.Context(), target, next, metav1.UpdateOptions{})
	wantError(t, err, 422, `Scale.autoscaling "web" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0`)
}

func TestPatches(t *testing.T) {
	s := serve(t, memory.New())
	create(t, s, deployments, newDeployment("web"))
	cases := []struct {
		name  string
		patch client.Patch
		code  int32
		words string
		check func(*appsv1.Deployment) bool
	}{
		{"json", client.Patch{Type: types.JSONPatchType, Data: []byte(`[{"op":"replace","path":"/spec/replicas","value":3}]`)}, 0, "",
			func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 3 }},
		{"json that does not fit", client.Patch{Type: types.JSONPatchType, Data: []byte(`[{"op":"remove","path":"/spec/nope"}]`)}, 422, "", nil},
		{"merge", client.Patch{Type: types.MergePatchType, Data: []byte(`{"metadata":{"labels":{"a":"b"}}}`)}, 0, "",
			func(d *appsv1.Deployment) bool { return d.Labels["a"] == "b" }},
		{"merge with unknown type", client.Patch{Type: types.MergePatchType, Data: []byte(`{"spec":{"replicas":"many"}}`)}, 422, ` is invalid: patch: Invalid value: "`, nil},
		{"strategic adds a container", client.Patch{Type: types.StrategicMergePatchType,
			Data: []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"busybox"}]}}}}`)}, 0, "",
			func(d *appsv1.Deployment) bool { return len(d.Spec.Template.Spec.Containers) == 2 }},
		{"strategic deletes it", client.Patch{Type: types.StrategicMergePatchType,
			Data: []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"side","$patch":"delete"}]}}}}`)}, 0, "",
			func(d *appsv1.Deployment) bool { return len(d.Spec.Template.Spec.Containers) == 1 }},
		{"not JSON", client.Patch{Type: types.MergePatchType, Data: []byte(`{`)}, 400, "error decoding patch", nil},
		{"stale version", client.Patch{Type: types.MergePatchType, Data: []byte(`{"metadata":{"resourceVersion":"1"}}`)}, 409, "the object has been modified", nil},
		{"another name", client.Patch{Type: types.MergePatchType, Data: []byte(`{"metadata":{"name":"x"}}`)}, 400, "the name of the object (x) does not match the name on the URL (web)", nil},
		{"unknown kind of patch", client.Patch{Type: "text/plain", Data: []byte(`{}`)}, 415, "", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			out, err := s.Patch(t.Context(), in(deployments, "web"), c.patch, metav1.PatchOptions{})
			if c.code != 0 {
				wantError(t, err, c.code, c.words)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !c.check(out.(*appsv1.Deployment)) {
				t.Errorf("patched: %+v", out)
			}
		})
	}
	_, err := s.Patch(t.Context(), in(deployments, "web"), client.Patch{Type: types.MergePatchType, Data: []byte(`{"spec":{"foo":1}}`)},
		metav1.PatchOptions{FieldValidation: "Strict"})
	wantError(t, err, 422, `strict decoding error: unknown field "spec.foo"`)
	_, err = s.Patch(t.Context(), in(deployments, "none"), cases[0].patch, metav1.PatchOptions{})
	wantError(t, err, 404, `deployments.apps "none" not found`)
}

func TestPatchCopyLimit(t *testing.T) {
	s := serve(t, memory.New())
	cm := newConfigMap("x")
	cm.Data["k"] = strings.Repeat("x", 64<<10)
	create(t, s, configMaps, cm)
	steps := []string{`{"op":"add","path":"/data/a","value":{}}`}
	for i := range 7 {
		steps = append(steps, fmt.Sprintf(`{"op":"copy","from":"/data","path":"/data/a/%d"}`, i))
	}
	patch := client.Patch{Type: types.JSONPatchType, Data: []byte("[" + strings.Join(steps, ",") + "]")}
	_, err := s.Patch(t.Context(), in(configMaps, "x"), patch, metav1.PatchOptions{})
	wantError(t, err, 422, "the server rejected our request due to an error in our request")
}

func TestApply(t *testing.T) {
	s := serve(t, memory.New())
	apply := func(manager, config string, force bool) (*corev1.ConfigMap, error) {
		out, err := s.Patch(t.Context(), in(configMaps, "a"), client.Patch{Type: types.ApplyYAMLPatchType, Data: []byte(config)},
			metav1.PatchOptions{FieldManager: manager, Force: &force})
		if err != nil {
			return nil, err
		}
		return out.(*corev1.ConfigMap), nil
	}
	const head = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n"
	made, err := apply("alice", head+"  x: \"1\"\n  w: \"1\"\n", false)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(made.ManagedFields[0].FieldsV1.Raw); got != `{"f:data":{"f:w":{},"f:x":{}}}` || !made.ManagedFields[0].Time.Time.Equal(s.clock.Now()) {
		t.Errorf("managed fields %s at %s", got, made.ManagedFields[0].Time)
	}
	same, err := apply("alice", head+"  x: \"1\"\n  w: \"1\"\n", false)
	if err != nil || same.ResourceVersion != made.ResourceVersion {
		t.Errorf("the same again: %v, version %s after %s", err, same.ResourceVersion, made.ResourceVersion)
	}
	_, err = apply("bob", head+"  x: \"2\"\n", false)
	wantError(t, err, 409, `Apply failed with 1 conflict: conflict with "alice": .data.x`)
	forced, err := apply("bob", head+"  x: \"2\"\n", true)
	if err != nil || forced.Data["x"] != "2" || len(forced.ManagedFields) != 2 {
		t.Fatalf("forced: %v, %+v", err, forced)
	}
	less, err := apply("alice", head+"  z: \"3\"\n", false)
	if err != nil {
		t.Fatal(err)
	}
	if len(less.Data) != 2 || less.Data["x"] != "2" || less.Data["z"] != "3" {
		t.Errorf("alice gave up w: %v", less.Data)
	}
	_, err = apply("alice", head+"  z: \"3\"\nnope: 1\n", false)
	wantError(t, err, 500, "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .nope: field not declared in schema")
	_, err = apply("", head, false)
	wantError(t, err, 422, `PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch`)
}

func TestBinding(t *testing.T) {
	s := serve(t, memory.New())
	create(t, s, pods, newPod("p"))
	bind := func(node string) error {
		_, err := s.Create(t.Context(), in(pods, "p").Sub("binding"),
			&corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}, metav1.CreateOptions{})
		return err
	}
	if err := bind("node-a"); err != nil {
		t.Fatal(err)
	}
	p := get[*corev1.Pod](t, s, in(pods, "p"))
	if p.Spec.NodeName != "node-a" || len(p.Status.Conditions) != 1 || p.Status.Conditions[0].Status != corev1.ConditionTrue {
		t.Errorf("bound pod: node %q, conditions %v", p.Spec.NodeName, p.Status.Conditions)
	}
	wantError(t, bind("node-b"), 409, `Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "node-a"`)
	list, err := s.List(t.Context(), client.Target{Resource: client.Pods}, metav1.ListOptions{FieldSelector: "spec.nodeName=node-a"})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("pods of the node: %v, %v", list.Items, err)
	}
}

func TestPodDeletion(t *testing.T) {
	s := serve(t, memory.New())
	create(t, s, pods, newPod("p"))
	_, err := s.Create(t.Context(), in(pods, "p").Sub("binding"),
		&corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: corev1.ObjectReference{Name: "n"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	remove := func(seconds ...int64) *corev1.Pod {
		t.Helper()
		opts := metav1.DeleteOptions{}
		if len(seconds) > 0 {
			opts.GracePeriodSeconds = &seconds[0]
		}
		out, err := s.Delete(t.Context(), in(pods, "p"), opts)
		if err != nil {
			t.Fatal(err)
		}
		p, _ := out.(*corev1.Pod)
		return p
	}
	p := remove()
	begun := s.clock.Now()
	if p == nil || *p.DeletionGracePeriodSeconds != 30 || !p.DeletionTimestamp.Time.Equal(begun.Add(30*time.Second)) {
		t.Fatalf("first delete: %+v", p)
	}
	rv := p.ResourceVersion
	if p = remove(60); p.ResourceVersion != rv {
		t.Errorf("a longer grace period has changed the pod")
	}
	if p = remove(10); *p.DeletionGracePeriodSeconds != 10 || !p.DeletionTimestamp.Time.Equal(begun.Add(10*time.Second)) {
		t.Errorf("shorter grace period: %v", p.DeletionTimestamp)
	}
	if p = get[*corev1.Pod](t, s, in(pods, "p")); p.Generation != 2 {
		t.Errorf("generation %d", p.Generation)
	}
	remove(0)
	_, err = s.Get(t.Context(), in(pods, "p"), metav1.GetOptions{})
	wantError(t, err, 404, `pods "p" not found`)
}

func TestFinalizers(t *testing.T) {
	s := serve(t, memory.New())
	ctx := t.Context()
	cm := newConfigMap("a")
	cm.Finalizers = []string{"example.com/hold"}
	create(t, s, configMaps, cm)
	foreground := metav1.DeletePropagationForeground
	out, err := s.Delete(ctx, in(configMaps, "a"), metav1.DeleteOptions{PropagationPolicy: &foreground})
	if err != nil {
		t.Fatal(err)
	}
	held := out.(*corev1.ConfigMap)
	if held.DeletionTimestamp == nil || fmt.Sprint(held.Finalizers) != "[example.com/hold foregroundDeletion]" {
		t.Fatalf("held object: %+v", held.ObjectMeta)
	}
	next := held.DeepCopy()
	next.Finalizers, next.DeletionTimestamp = []string{"foregroundDeletion"}, nil
	out, err = s.Update(ctx, in(configMaps, "a"), next, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if out.(*corev1.ConfigMap).DeletionTimestamp == nil {
		t.Error("an update has taken the deletion back")
	}
	if _, err = s.Patch(ctx, in(configMaps, "a"), client.Patch{Type: types.MergePatchType, Data: []byte(`{"metadata":{"finalizers":null}}`)}, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = s.Get(ctx, in(configMaps, "a"), metav1.GetOptions{})
	wantError(t, err, 404, "not found")

	create(t, s, configMaps, newConfigMap("b"))
	orphan := metav1.DeletePropagationOrphan
	if out, err = s.Delete(ctx, in(configMaps, "b"), metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
		t.Fatal(err)
	}
	if f := out.(*corev1.ConfigMap).Finalizers; fmt.Sprint(f) != "[orphan]" {
		t.Errorf("finalizers %v", f)
	}
}

func TestNamespaceDeletion(t *testing.T) {
	s := serve(t, memory.New())
	ctx := t.Context()
	all := client.Target{Resource: client.Namespaces}
	create(t, s, all, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
	out, err := s.Delete(ctx, in(all, "x"), metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ns := out.(*corev1.Namespace)
	if ns.Status.Phase != corev1.NamespaceTerminating || ns.DeletionTimestamp == nil || len(ns.Spec.Finalizers) != 1 {
		t.Fatalf("deleted namespace: %+v", ns)
	}
	next := ns.DeepCopy()
	next.Spec.Finalizers = nil
	if _, err = s.Update(ctx, in(all, "x"), next.DeepCopy(), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if ns = get[*corev1.Namespace](t, s, in(all, "x")); len(ns.Spec.Finalizers) != 1 {
		t.Error("an update has emptied spec.finalizers")
	}
	next = ns.DeepCopy()
	next.Spec.Finalizers = nil
	if _, err = s.Update(ctx, in(all, "x").Sub("finalize"), next, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = s.Get(ctx, in(all, "x"), metav1.GetOptions{})
	wantError(t, err, 404, `namespaces "x" not found`)
}

func TestDryRun(t *testing.T) {
	s := serve(t, memory.New())
	ctx := t.Context()
	dry := []string{metav1.DryRunAll}
	before, err := s.store.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.Create(ctx, configMaps, newConfigMap("a"), metav1.CreateOptions{DryRun: dry})
	if err != nil || out.(*corev1.ConfigMap).UID == "" {
		t.Fatalf("dry create: %v", err)
	}
	if after, err := s.store.Head(ctx); err != nil || after != before {
		t.Errorf("a dry run has written: %v", err)
	}
	create(t, s, configMaps, newConfigMap("a"))
	_, err = s.Create(ctx, configMaps, newConfigMap("a"), metav1.CreateOptions{DryRun: dry})
	wantError(t, err, 409, "already exists")
	if _, err = s.Delete(ctx, in(configMaps, "a"), metav1.DeleteOptions{DryRun: dry}); err != nil {
		t.Fatal(err)
	}
	get[*corev1.ConfigMap](t, s, in(configMaps, "a"))
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.9", Ports: []corev1.ServicePort{{Port: 80}}}}
	if _, err = s.Create(ctx, services, svc.DeepCopy(), metav1.CreateOptions{DryRun: dry}); err != nil {
		t.Fatal(err)
	}
	create(t, s, services, svc) // the address is free again
}

func TestServices(t *testing.T) {
	st := memory.New()
	s := serve(t, st)
	ctx := t.Context()
	service := func(name string, change func(*corev1.ServiceSpec)) *corev1.Service {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
			Selector: map[string]string{"a": "b"}, Ports: []corev1.ServicePort{{Port: 80}},
		}}
		if change != nil {
			change(&svc.Spec)
		}
		return svc
	}
	first := create(t, s, services, service("kubernetes", nil))
	if first.Spec.ClusterIP != "10.96.0.1" || *first.Spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack || fmt.Sprint(first.Spec.IPFamilies) != "[IPv4]" {
		t.Errorf("kubernetes: %+v", first.Spec)
	}
	_, err := s.Create(ctx, services, service("x", func(s *corev1.ServiceSpec) { s.ClusterIP = "10.96.0.1" }), metav1.CreateOptions{})
	wantError(t, err, 422, `Service "x" is invalid: spec.clusterIPs: Invalid value: ["10.96.0.1"]: failed to allocate IP 10.96.0.1: provided IP is already allocated`)
	_, err = s.Create(ctx, services, service("x", func(s *corev1.ServiceSpec) { s.ClusterIP = "10.1.0.1" }), metav1.CreateOptions{})
	wantError(t, err, 422, "failed to allocate IP 10.1.0.1: the provided network does not match the current range")
	np := create(t, s, services, service("np", func(s *corev1.ServiceSpec) {
		s.Type, s.Ports[0].NodePort = corev1.ServiceTypeNodePort, 30080
	}))
	_, err = s.Create(ctx, services, service("x", func(s *corev1.ServiceSpec) {
		s.Type, s.Ports[0].NodePort = corev1.ServiceTypeNodePort, 30080
	}), metav1.CreateOptions{})
	wantError(t, err, 422, `spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated`)
	_, err = s.Create(ctx, services, service("x", func(s *corev1.ServiceSpec) {
		s.Type, s.Ports[0].NodePort = corev1.ServiceTypeNodePort, 99
	}), metav1.CreateOptions{})
	wantError(t, err, 422, "provided port is not in the valid range. The range of valid ports is 30000-32767")

	plain := service("np", func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort })
	plain.ResourceVersion = np.ResourceVersion
	kept, err := s.Update(ctx, in(services, "np"), plain, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if spec := kept.(*corev1.Service).Spec; spec.ClusterIP != np.Spec.ClusterIP || spec.Ports[0].NodePort != 30080 {
		t.Errorf("an update without allocations has changed them: %+v", spec)
	}
	if _, err = s.Delete(ctx, in(services, "np"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	again := create(t, s, services, service("again", func(spec *corev1.ServiceSpec) {
		spec.Type, spec.Ports[0].NodePort, spec.ClusterIP = corev1.ServiceTypeNodePort, 30080, np.Spec.ClusterIP
	}))

	restarted := serve(t, st)
	_, err = restarted.Create(ctx, services, service("x", func(s *corev1.ServiceSpec) { s.ClusterIP = again.Spec.ClusterIP }), metav1.CreateOptions{})
	wantError(t, err, 422, "provided IP is already allocated")
}

// TestResourceIsRemoved: a request that was routed before its resource was removed gets 404, as one that comes after it.
func TestResourceIsRemoved(t *testing.T) {
	s := serve(t, memory.New())
	routed := *s.engine.Lookup(client.ConfigMaps)
	removed := *routed.Resource
	removed.Names.Plural = "removed"
	routed.Resource = &removed
	c := direct.New(s.engine, func(schema.GroupVersionResource) *verbs.VersionedResource { return &routed }, &user.DefaultInfo{Name: "tester"}, "tester/1")
	_, err := c.List(t.Context(), configMaps, metav1.ListOptions{})
	if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "the server could not find the requested resource") {
		t.Errorf("list: %v", err)
	}
	for _, err := range c.Watch(t.Context(), configMaps, metav1.ListOptions{}) {
		if !apierrors.IsNotFound(err) {
			t.Errorf("watch: %v", err)
		}
		break
	}
}
