package clienttest

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
)

type resourceName = schema.GroupVersionResource

func testCreateGet(s suite) {
	made := create(s, client.ConfigMaps, s.configMap("a", nil))
	if made.UID == "" || made.ResourceVersion == "" || made.CreationTimestamp.IsZero() || made.Namespace != s.namespace {
		s.Errorf("created with metadata %+v", made.ObjectMeta)
	}
	got := get[*corev1.ConfigMap](s, s.maps("a"))
	if got.UID != made.UID || got.ResourceVersion != made.ResourceVersion || got.Data["k"] != "v" {
		s.Errorf("got %+v, want %+v", got, made)
	}
	generated := s.configMap("", nil)
	generated.GenerateName = "gen-"
	if g := create(s, client.ConfigMaps, generated); len(g.Name) != len("gen-")+5 {
		s.Errorf("generated the name %q", g.Name)
	}
}

func testErrors(s suite) {
	create(s, client.ConfigMaps, s.configMap("a", nil))
	_, err := s.Get(s.ctx, s.maps("absent"), metav1.GetOptions{})
	s.wantError("get an absent object", err, apierrors.IsNotFound)
	if got, want := err.Error(), `configmaps "absent" not found`; got != want {
		s.Errorf("got message %q, want %q", got, want)
	}
	for _, name := range []string{"../configmaps/a", "..", "a/b"} {
		_, err = s.Get(s.ctx, s.maps(name), metav1.GetOptions{})
		s.wantError("get by the name "+name, err, apierrors.IsNotFound)
		_, err = s.Delete(s.ctx, s.maps(name), metav1.DeleteOptions{})
		s.wantError("delete by the name "+name, err, apierrors.IsNotFound)
	}
	_, err = s.Create(s.ctx, s.maps(""), s.configMap("a", nil), metav1.CreateOptions{})
	s.wantError("create twice", err, apierrors.IsAlreadyExists)
	if got, want := err.Error(), `configmaps "a" already exists`; got != want {
		s.Errorf("got message %q, want %q", got, want)
	}
	_, err = s.Create(s.ctx, s.maps(""), s.configMap("Not_A_Name", nil), metav1.CreateOptions{})
	s.wantError("create with a bad name", err, apierrors.IsInvalid)
	_, err = s.Update(s.ctx, s.maps("absent"), s.configMap("absent", nil), metav1.UpdateOptions{})
	s.wantError("update an absent object", err, apierrors.IsNotFound)
	_, err = s.Delete(s.ctx, s.maps("absent"), metav1.DeleteOptions{})
	s.wantError("delete an absent object", err, apierrors.IsNotFound)
	elsewhere := client.Target{Resource: resourceName{Group: "nowhere.example.org", Version: "v1", Resource: "things"}, Namespace: s.namespace}
	_, err = s.List(s.ctx, elsewhere, metav1.ListOptions{})
	s.wantError("list a resource that is not served", err, apierrors.IsNotFound)
	inNowhere := client.Target{Resource: client.ConfigMaps, Namespace: "no-such-namespace"}
	orphan := s.configMap("a", nil)
	orphan.Namespace = inNowhere.Namespace
	_, err = s.Create(s.ctx, inNowhere, orphan, metav1.CreateOptions{})
	s.wantError("create in a namespace that is not there", err, apierrors.IsNotFound)
}

func testList(s suite) {
	empty, err := s.List(s.ctx, s.maps(""), metav1.ListOptions{})
	if err != nil || len(empty.Items) != 0 || empty.ResourceVersion == "" {
		s.Fatalf("empty list: got %+v, %v", empty, err)
	}
	create(s, client.ConfigMaps, s.configMap("b", map[string]string{"color": "red"}))
	create(s, client.ConfigMaps, s.configMap("a", map[string]string{"color": "blue"}))
	for _, c := range []struct {
		opts metav1.ListOptions
		want string
	}{
		{metav1.ListOptions{}, "a b "},
		{metav1.ListOptions{LabelSelector: "color=red"}, "b "},
		{metav1.ListOptions{LabelSelector: "color!=red"}, "a "},
		{metav1.ListOptions{FieldSelector: "metadata.name=a"}, "a "},
		{metav1.ListOptions{LabelSelector: "color=green"}, ""},
	} {
		list, err := s.List(s.ctx, s.maps(""), c.opts)
		if err != nil {
			s.Fatal(err)
		}
		if got := names(list.Items); got != c.want {
			s.Errorf("list with %+v: got %q, want %q", c.opts, got, c.want)
		}
		for _, obj := range list.Items {
			if _, ok := obj.(*corev1.ConfigMap); !ok {
				s.Errorf("listed a %T", obj)
			}
		}
	}
	_, err = s.List(s.ctx, s.maps(""), metav1.ListOptions{LabelSelector: "a=b=c"})
	s.wantError("list with a bad selector", err, apierrors.IsBadRequest)
}

func testListPages(s suite) {
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		create(s, client.ConfigMaps, s.configMap(name, nil))
	}
	first, err := s.List(s.ctx, s.maps(""), metav1.ListOptions{Limit: 2})
	if err != nil {
		s.Fatal(err)
	}
	if names(first.Items) != "a b " || first.Continue == "" || first.Remaining == nil || *first.Remaining != 3 {
		s.Fatalf("first page: %q, continue %q, remaining %v", names(first.Items), first.Continue, first.Remaining)
	}
	create(s, client.ConfigMaps, s.configMap("ca", nil)) // not in the snapshot of the pages
	got := names(first.Items)
	for page := first; page.Continue != ""; {
		if page, err = s.List(s.ctx, s.maps(""), metav1.ListOptions{Limit: 2, Continue: page.Continue}); err != nil {
			s.Fatal(err)
		}
		if page.ResourceVersion != first.ResourceVersion {
			s.Errorf("a page is of revision %s, the first of %s", page.ResourceVersion, first.ResourceVersion)
		}
		got += names(page.Items)
	}
	if got != "a b c d e " {
		s.Errorf("pages hold %q", got)
	}
}

func testUpdate(s suite) {
	made := create(s, client.ConfigMaps, s.configMap("a", nil))
	next := made.DeepCopy()
	next.Data["k"] = "2"
	out, err := s.Update(s.ctx, s.maps("a"), next, metav1.UpdateOptions{})
	updated := must[*corev1.ConfigMap](s, out, err)
	if updated.Data["k"] != "2" || updated.ResourceVersion == made.ResourceVersion || updated.UID != made.UID {
		s.Errorf("updated to %+v", updated)
	}
	stale := made.DeepCopy()
	stale.Data["k"] = "3"
	_, err = s.Update(s.ctx, s.maps("a"), stale, metav1.UpdateOptions{})
	s.wantError("update of an old version", err, apierrors.IsConflict)
	same := updated.DeepCopy()
	out, err = s.Update(s.ctx, s.maps("a"), same, metav1.UpdateOptions{})
	if again := must[*corev1.ConfigMap](s, out, err); again.ResourceVersion != updated.ResourceVersion {
		s.Errorf("an update that changes nothing made version %s of %s", again.ResourceVersion, updated.ResourceVersion)
	}
	blind := s.configMap("a", nil) // without a resourceVersion: updates unconditionally
	blind.Data["k"] = "4"
	out, err = s.Update(s.ctx, s.maps("a"), blind, metav1.UpdateOptions{})
	if got := must[*corev1.ConfigMap](s, out, err); got.Data["k"] != "4" {
		s.Errorf("got %v", got.Data)
	}
}

func testPatch(s suite) {
	for _, c := range []struct {
		kind types.PatchType
		data string
	}{
		{types.MergePatchType, `{"data":{"k":null,"n":"1"}}`},
		{types.StrategicMergePatchType, `{"data":{"k":null,"n":"1"}}`},
		{types.JSONPatchType, `[{"op":"remove","path":"/data/k"},{"op":"add","path":"/data/n","value":"1"}]`},
	} {
		name := "p" + string(rune('0'+len(c.data)%10)) + string(c.kind[len("application/")])
		create(s, client.ConfigMaps, s.configMap(name, nil))
		out, err := s.Patch(s.ctx, s.maps(name), client.Patch{Type: c.kind, Data: []byte(c.data)}, metav1.PatchOptions{})
		got := must[*corev1.ConfigMap](s, out, err)
		if len(got.Data) != 1 || got.Data["n"] != "1" {
			s.Errorf("%s: got %v", c.kind, got.Data)
		}
		if _, err := s.Delete(s.ctx, s.maps(name), metav1.DeleteOptions{}); err != nil {
			s.Fatal(err)
		}
	}
	create(s, client.ConfigMaps, s.configMap("a", nil))
	uid := client.Patch{Type: types.MergePatchType, Data: []byte(`{"metadata":{"uid":"11111111-2222-3333-4444-555555555555"}}`)}
	_, err := s.Patch(s.ctx, s.maps("a"), uid, metav1.PatchOptions{})
	s.wantError("patch of another object", err, apierrors.IsInvalid)
	bad := client.Patch{Type: types.JSONPatchType, Data: []byte(`[{"op":"remove","path":"/data/nothing"}]`)}
	if _, err := s.Patch(s.ctx, s.maps("a"), bad, metav1.PatchOptions{}); err == nil {
		s.Error("a patch that cannot be made worked")
	}
	_, err = s.Patch(s.ctx, s.maps("absent"), client.Patch{Type: types.MergePatchType, Data: []byte(`{}`)}, metav1.PatchOptions{})
	s.wantError("patch an absent object", err, apierrors.IsNotFound)
}

func testApply(s suite) {
	apply := func(manager, data string, force bool) (*corev1.ConfigMap, error) {
		p := client.Patch{Type: types.ApplyPatchType, Data: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":` + data + `}`)}
		out, err := s.Patch(s.ctx, s.maps("a"), p, metav1.PatchOptions{FieldManager: manager, Force: &force})
		if err != nil {
			return nil, err
		}
		return must[*corev1.ConfigMap](s, out, nil), nil
	}
	if _, err := apply("one", `{"x":"1","y":"1"}`, false); err != nil {
		s.Fatal(err)
	}
	_, err := apply("two", `{"x":"2"}`, false)
	s.wantError("apply of another's field", err, apierrors.IsConflict)
	if _, err := apply("two", `{"x":"2"}`, true); err != nil {
		s.Fatal(err)
	}
	got, err := apply("one", `{}`, false) // stops applying y, and no longer owns x
	if err != nil {
		s.Fatal(err)
	}
	if len(got.Data) != 1 || got.Data["x"] != "2" {
		s.Errorf("got %v, want x=2 alone", got.Data)
	}
}

func testStatus(s suite) {
	made := create(s, client.Pods, s.pod("p", ""))
	if made.Status.Phase != corev1.PodPending {
		s.Errorf("a new pod is %q", made.Status.Phase)
	}
	next := made.DeepCopy()
	next.Status.Phase = corev1.PodRunning
	next.Spec.Containers[0].Image = "example.org/other:1"
	out, err := s.Update(s.ctx, s.in(client.Pods, "p").Sub("status"), next, metav1.UpdateOptions{})
	got := must[*corev1.Pod](s, out, err)
	if got.Status.Phase != corev1.PodRunning || got.Spec.Containers[0].Image != made.Spec.Containers[0].Image {
		s.Errorf("a status update made %q with image %q", got.Status.Phase, got.Spec.Containers[0].Image)
	}
	patch := client.Patch{Type: types.StrategicMergePatchType, Data: []byte(`{"status":{"message":"hello"}}`)}
	out, err = s.Patch(s.ctx, s.in(client.Pods, "p").Sub("status"), patch, metav1.PatchOptions{})
	if got = must[*corev1.Pod](s, out, err); got.Status.Message != "hello" || got.Status.Phase != corev1.PodRunning {
		s.Errorf("a status patch made %+v", got.Status)
	}
	out, err = s.Patch(s.ctx, s.in(client.Pods, "p"), patch, metav1.PatchOptions{})
	if again := must[*corev1.Pod](s, out, err); again.ResourceVersion != got.ResourceVersion {
		s.Error("a patch of the pod itself changed its status")
	}
}

func deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.org/c:1"}}},
			},
		},
	}
}

func testScale(s suite) {
	made := create(s, client.Deployments, deployment("web"))
	if made.Spec.Replicas == nil || *made.Spec.Replicas != 1 || made.Generation != 1 {
		s.Errorf("created with replicas %v, generation %d", made.Spec.Replicas, made.Generation)
	}
	t := s.in(client.Deployments, "web").Sub("scale")
	obj, err := s.Get(s.ctx, t, metav1.GetOptions{})
	scale := must[*autoscalingv1.Scale](s, obj, err).DeepCopy()
	if scale.Spec.Replicas != 1 || scale.Status.Selector != "app=web" {
		s.Errorf("got scale %+v", scale)
	}
	scale.Spec.Replicas = 3
	out, err := s.Update(s.ctx, t, scale, metav1.UpdateOptions{})
	if got := must[*autoscalingv1.Scale](s, out, err); got.Spec.Replicas != 3 {
		s.Errorf("scaled to %d", got.Spec.Replicas)
	}
	if got := get[*appsv1.Deployment](s, s.in(client.Deployments, "web")); *got.Spec.Replicas != 3 || got.Generation != 2 {
		s.Errorf("scaled: replicas %d, generation %d", *got.Spec.Replicas, got.Generation)
	}
}

func testBinding(s suite) {
	create(s, client.Pods, s.pod("p", ""))
	bind := func() error {
		b := &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: s.namespace}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-1"},
		}
		_, err := s.Create(s.ctx, s.in(client.Pods, "p").Sub("binding"), b, metav1.CreateOptions{})
		return err
	}
	if err := bind(); err != nil {
		s.Fatal(err)
	}
	p := get[*corev1.Pod](s, s.in(client.Pods, "p"))
	if p.Spec.NodeName != "node-1" {
		s.Errorf("bound to %q", p.Spec.NodeName)
	}
	if len(p.Status.Conditions) == 0 || p.Status.Conditions[0].Type != corev1.PodScheduled {
		s.Errorf("bound with conditions %+v", p.Status.Conditions)
	}
	s.wantError("bind twice", bind(), apierrors.IsConflict)
}

func testDryRun(s suite) {
	opts := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	out, err := s.Create(s.ctx, s.maps(""), s.configMap("a", nil), opts)
	if got := must[*corev1.ConfigMap](s, out, err); got.UID == "" {
		s.Error("a dry run returns no UID")
	}
	_, err = s.Get(s.ctx, s.maps("a"), metav1.GetOptions{})
	s.wantError("get after a dry run", err, apierrors.IsNotFound)
}

func testDelete(s suite) {
	create(s, client.ConfigMaps, s.configMap("a", nil))
	if _, err := s.Delete(s.ctx, s.maps("a"), metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
	_, err := s.Get(s.ctx, s.maps("a"), metav1.GetOptions{})
	s.wantError("get a deleted object", err, apierrors.IsNotFound)
}

func testDeletePreconditions(s suite) {
	made := create(s, client.ConfigMaps, s.configMap("a", nil))
	other := types.UID("11111111-2222-3333-4444-555555555555")
	_, err := s.Delete(s.ctx, s.maps("a"), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	s.wantError("delete of another UID", err, apierrors.IsConflict)
	old := "1"
	_, err = s.Delete(s.ctx, s.maps("a"), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &old}})
	s.wantError("delete of another version", err, apierrors.IsConflict)
	right := metav1.Preconditions{UID: &made.UID, ResourceVersion: &made.ResourceVersion}
	if _, err := s.Delete(s.ctx, s.maps("a"), metav1.DeleteOptions{Preconditions: &right}); err != nil {
		s.Error(err)
	}
}

func testDeleteGrace(s suite) {
	create(s, client.Pods, s.pod("unbound", ""))
	if _, err := s.Delete(s.ctx, s.in(client.Pods, "unbound"), metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
	_, err := s.Get(s.ctx, s.in(client.Pods, "unbound"), metav1.GetOptions{})
	s.wantError("get an unbound pod that was deleted", err, apierrors.IsNotFound)

	create(s, client.Pods, s.pod("bound", "node-1"))
	out, err := s.Delete(s.ctx, s.in(client.Pods, "bound"), metav1.DeleteOptions{})
	dying := must[*corev1.Pod](s, out, err)
	if dying.DeletionTimestamp == nil || dying.DeletionGracePeriodSeconds == nil || *dying.DeletionGracePeriodSeconds != 30 {
		s.Errorf("a bound pod is deleted with %v, %v", dying.DeletionTimestamp, dying.DeletionGracePeriodSeconds)
	}
	get[*corev1.Pod](s, s.in(client.Pods, "bound"))
	if _, err := s.Delete(s.ctx, s.in(client.Pods, "bound"), metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		s.Fatal(err)
	}
	_, err = s.Get(s.ctx, s.in(client.Pods, "bound"), metav1.GetOptions{})
	s.wantError("get a pod that was deleted at once", err, apierrors.IsNotFound)
}

func testDeleteFinalizers(s suite) {
	cm := s.configMap("a", nil)
	cm.Finalizers = []string{"example.org/wait"}
	create(s, client.ConfigMaps, cm)
	if _, err := s.Delete(s.ctx, s.maps("a"), metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
	dying := get[*corev1.ConfigMap](s, s.maps("a"))
	if dying.DeletionTimestamp == nil {
		s.Fatal("an object with a finalizer is not marked as deleted")
	}
	next := dying.DeepCopy()
	next.Finalizers = nil
	if _, err := s.Update(s.ctx, s.maps("a"), next, metav1.UpdateOptions{}); err != nil {
		s.Fatal(err)
	}
	_, err := s.Get(s.ctx, s.maps("a"), metav1.GetOptions{})
	s.wantError("get after the last finalizer", err, apierrors.IsNotFound)
}

func testDeleteAll(s suite) {
	create(s, client.ConfigMaps, s.configMap("a", nil))
	create(s, client.ConfigMaps, s.configMap("b", nil))
	if _, err := s.Delete(s.ctx, s.maps(""), metav1.DeleteOptions{}); !apierrors.IsBadRequest(err) {
		s.Errorf("without a name: %v", err)
	}
	if list, err := s.List(s.ctx, s.maps(""), metav1.ListOptions{}); err != nil || len(list.Items) != 2 {
		s.Errorf("after a delete without a name: %q, %v", names(list.Items), err)
	}
	all := s.maps("")
	all.All = true
	if _, err := s.Delete(s.ctx, all, metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
	list, err := s.List(s.ctx, s.maps(""), metav1.ListOptions{})
	if err != nil || len(list.Items) != 0 {
		s.Errorf("left: %q, %v", names(list.Items), err)
	}
}
