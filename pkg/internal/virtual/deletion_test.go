package virtual_test

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/internal/virtual"
	"github.com/minikctl/minikctl/pkg/objects"
)

var things = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}

// inNamespace returns the objects of a namespace, of all resources that discovery lists, as RESOURCE/NAME with their UIDs.
func inNamespace(f *fleet, namespace string) map[string]types.UID {
	f.Helper()
	config := rest.CopyConfig(f.Env.AdminConfig)
	config.WarningHandlerWithContext = rest.NoWarnings{}
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		f.Fatal(err)
	}
	m, err := metadata.NewForConfig(config)
	if err != nil {
		f.Fatal(err)
	}
	lists, err := discovery.ServerPreferredNamespacedResources(d)
	if err != nil {
		f.Fatal(err)
	}
	out := map[string]types.UID{}
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			f.Fatal(err)
		}
		for _, r := range l.APIResources {
			if !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "create") || gv.Group == "minikctl.dev" || r.Name == "events" {
				continue
			}
			got, err := m.Resource(gv.WithResource(r.Name)).Namespace(namespace).List(f.Context(), metav1.ListOptions{})
			if err != nil {
				f.Fatalf("list %s: %v", r.Name, err)
			}
			for _, obj := range got.Items {
				out[r.Name+"/"+obj.Name] = obj.UID
			}
		}
	}
	return out
}

// fill creates ten objects of each of twenty kinds in a namespace, custom resources with a finalizer among them.
func fill(f *fleet, namespace string) {
	f.Helper()
	rbac, net := rbacv1.SchemeGroupVersion.WithResource, networkingv1.SchemeGroupVersion.WithResource
	core, apps := corev1.SchemeGroupVersion.WithResource, appsv1.SchemeGroupVersion.WithResource
	for i := range 10 {
		name := fmt.Sprintf("o-%d", i)
		m := func() metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: namespace} }
		template := func() corev1.PodTemplateSpec { return podTemplate(name) } // creates fill in defaults
		once := func() corev1.PodTemplateSpec {
			t := template()
			t.Spec.RestartPolicy = corev1.RestartPolicyNever
			return t
		}
		storage := corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}}
		claim := corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Resources: storage}
		held := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing"}}
		held.SetName(name)
		held.SetNamespace(namespace)
		held.SetFinalizers([]string{"example.com/hold"})
		for _, o := range []struct {
			resource schema.GroupVersionResource
			obj      objects.Object
		}{
			{things, held},
			{core("configmaps"), &corev1.ConfigMap{ObjectMeta: m()}},
			{core("secrets"), &corev1.Secret{ObjectMeta: m()}},
			{core("serviceaccounts"), &corev1.ServiceAccount{ObjectMeta: m()}},
			{core("services"), &corev1.Service{ObjectMeta: m(), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 80}}}}},
			{core("pods"), &corev1.Pod{ObjectMeta: m(), Spec: template().Spec}},
			{core("persistentvolumeclaims"), &corev1.PersistentVolumeClaim{ObjectMeta: m(), Spec: claim}},
			{core("limitranges"), &corev1.LimitRange{ObjectMeta: m()}},
			{core("resourcequotas"), &corev1.ResourceQuota{ObjectMeta: m()}},
			{core("replicationcontrollers"), &corev1.ReplicationController{ObjectMeta: m(), Spec: corev1.ReplicationControllerSpec{Template: new(template())}}},
			{apps("deployments"), &appsv1.Deployment{ObjectMeta: m(), Spec: appsv1.DeploymentSpec{Selector: selector(name), Template: template()}}},
			{apps("statefulsets"), &appsv1.StatefulSet{ObjectMeta: m(), Spec: appsv1.StatefulSetSpec{Selector: selector(name), Template: template()}}},
			{apps("daemonsets"), &appsv1.DaemonSet{ObjectMeta: m(), Spec: appsv1.DaemonSetSpec{Selector: selector(name), Template: template()}}},
			{jobs, &batchv1.Job{ObjectMeta: m(), Spec: batchv1.JobSpec{Template: once()}}},
			{cronJobs, &batchv1.CronJob{ObjectMeta: m(), Spec: batchv1.CronJobSpec{Schedule: "* * * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: once()}}}}},
			{rbac("roles"), &rbacv1.Role{ObjectMeta: m()}},
			{rbac("rolebindings"), &rbacv1.RoleBinding{ObjectMeta: m(), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}}},
			{net("networkpolicies"), &networkingv1.NetworkPolicy{ObjectMeta: m()}},
			{policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"), &policyv1.PodDisruptionBudget{ObjectMeta: m()}},
			{client.Leases, &coordinationv1.Lease{ObjectMeta: m()}},
		} {
			f.create(client.Target{Resource: o.resource, Namespace: namespace}, o.obj)
		}
	}
}

// define makes the custom kind Thing.
func define(f *fleet) {
	f.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "things.example.com"}}
	crd.Spec.Group, crd.Spec.Scope = "example.com", apiextensionsv1.NamespaceScoped
	crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Kind: "Thing", Plural: "things"}
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}}}}
	f.create(client.Target{Resource: apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")}, crd)
	f.Advance(0)
}

// TestNamespaceOfManyObjects: a namespace with 200 objects of twenty kinds, and those that controllers have made of them, is deleted once the
// finalizers of its custom resources are gone; another one keeps all it has.
func TestNamespaceOfManyObjects(t *testing.T) {
	takesTurns(t)
	f := &fleet{Cluster: virtual.Start(t, virtual.Config{Nodes: []string{"a", "b"}})}
	define(f)
	for _, name := range []string{"gone", "kept"} {
		f.create(client.Target{Resource: client.Namespaces}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		f.Advance(0)
		fill(f, name)
	}
	f.Advance(10 * time.Second)
	kept := inNamespace(f, "kept")
	if n := len(inNamespace(f, "gone")); n < 250 || n != len(kept) {
		t.Fatalf("the namespaces have %d and %d objects", n, len(kept))
	}
	gone := client.Target{Resource: client.Namespaces, Name: "gone"}
	if _, err := f.Delete(t.Context(), gone, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.Advance(40 * time.Second) // pods have 30 s to end
	left := inNamespace(f, "gone")
	for name := range left {
		if !strings.HasPrefix(name, "things/") {
			t.Errorf("%s is left", name)
		}
	}
	if len(left) != 10 {
		t.Errorf("%d objects are left, want the ten with finalizers", len(left))
	}
	ns, err := f.Get(t.Context(), gone, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range ns.(*corev1.Namespace).Status.Conditions {
		if c.Type == corev1.NamespaceFinalizersRemaining && c.Message != "Some content in the namespace has finalizers remaining: example.com/hold in 10 resource instances" {
			t.Errorf("the condition: %+v", c)
		}
	}
	for i := range 10 {
		p := client.Patch{Type: types.MergePatchType, Data: []byte(`{"metadata":{"finalizers":null}}`)}
		if _, err := f.Patch(t.Context(), client.Target{Resource: things, Namespace: "gone", Name: fmt.Sprintf("o-%d", i)}, p, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	f.Advance(30 * time.Second)
	if _, err := f.Get(t.Context(), gone, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace is still there: %v", err)
	}
	if left := inNamespace(f, "gone"); len(left) > 0 {
		t.Errorf("left in the namespace: %v", left)
	}
	now := inNamespace(f, "kept")
	for name, uid := range kept {
		if now[name] != uid && !strings.HasPrefix(name, "leases/") {
			t.Errorf("%s of the other namespace is gone", name)
		}
	}
}

// TestPropagation: background and foreground deletion leave nothing of a workload, and orphan deletion leaves all but the workload. Claims are no
// dependents of a StatefulSet, and other workloads keep all they have.
func TestPropagation(t *testing.T) {
	takesTurns(t)
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan} {
		t.Run(string(policy), func(t *testing.T) {
			f := &fleet{Cluster: virtual.Start(t, virtual.Config{Nodes: []string{"a", "b"}})}
			propagate(f, policy)
		})
	}
}

// workloadsOf returns a workload of each kind with its resource.
func workloadsOf(name string) map[schema.GroupVersionResource]objects.Object {
	m, template := meta(name), func() corev1.PodTemplateSpec { return podTemplate(name) }
	job := func() corev1.PodTemplateSpec {
		t := template()
		t.Spec.RestartPolicy, t.Annotations = corev1.RestartPolicyNever, map[string]string{"minikctl.dev/sim-exit-after": "10h"}
		return t
	}
	claim := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}}}}
	apps := appsv1.SchemeGroupVersion.WithResource
	return map[schema.GroupVersionResource]objects.Object{
		apps("deployments"): &appsv1.Deployment{ObjectMeta: m, Spec: appsv1.DeploymentSpec{Replicas: new(int32(2)), Selector: selector(name), Template: template()}},
		apps("statefulsets"): &appsv1.StatefulSet{ObjectMeta: m, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(2)), Selector: selector(name), Template: template(),
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{claim}}},
		apps("daemonsets"): &appsv1.DaemonSet{ObjectMeta: m, Spec: appsv1.DaemonSetSpec{Selector: selector(name), Template: template()}},
		jobs:               &batchv1.Job{ObjectMeta: m, Spec: batchv1.JobSpec{Completions: new(int32(2)), Parallelism: new(int32(2)), Template: job()}},
		cronJobs: &batchv1.CronJob{ObjectMeta: m, Spec: batchv1.CronJobSpec{Schedule: "* * * * *", ConcurrencyPolicy: batchv1.ForbidConcurrent,
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: job()}}}},
		corev1.SchemeGroupVersion.WithResource("replicationcontrollers"): &corev1.ReplicationController{ObjectMeta: m,
			Spec: corev1.ReplicationControllerSpec{Replicas: new(int32(2)), Template: new(template())}},
	}
}

// propagate creates two workloads of each kind, deletes one of them, and checks what is left.
func propagate(f *fleet, policy metav1.DeletionPropagation) {
	kinds := workloadsOf("")
	for gvr := range kinds {
		for _, name := range []string{"doomed-", "other-"} {
			name += gvr.Resource
			f.create(client.Target{Resource: gvr, Namespace: "default"}, workloadsOf(name)[gvr])
		}
	}
	f.Advance(90 * time.Second)
	before := inNamespace(f, "default")
	for gvr := range kinds {
		at := client.Target{Resource: gvr, Namespace: "default", Name: "doomed-" + gvr.Resource}
		if _, err := f.Delete(f.Context(), at, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
			f.Fatal(err)
		}
	}
	f.Advance(time.Minute)
	after := inNamespace(f, "default")
	for name, uid := range before {
		_, part, _ := strings.Cut(name, "/")
		kind, _, _ := strings.Cut(name, "/")
		owner := kinds[groupVersion(kinds, kind)] != nil && part == "doomed-"+kind
		dependent := strings.HasPrefix(part, "doomed-") && !owner
		want := !owner && !(dependent && policy != metav1.DeletePropagationOrphan)
		if strings.HasPrefix(name, "persistentvolumeclaims/") {
			want = true
		}
		if is := after[name] == uid; is != want {
			f.Errorf("%s is left: %t, want %t", name, is, want)
		}
	}
	for name := range after {
		if _, ok := before[name]; !ok {
			f.Errorf("%s is new", name)
		}
	}
}

func groupVersion(kinds map[schema.GroupVersionResource]objects.Object, resource string) schema.GroupVersionResource {
	for gvr := range kinds {
		if gvr.Resource == resource {
			return gvr
		}
	}
	return schema.GroupVersionResource{}
}

// TestManyOwnedObjectsAreCollected: the dependents of an object are collected, 500 of them, and 10,000 in a measurement.
func TestManyOwnedObjectsAreCollected(t *testing.T) {
	count := 500
	measure := os.Getenv("MINIKCTL_MEASURE") != ""
	if measure {
		count = 10_000
	}
	f := &fleet{Cluster: virtual.Start(t, virtual.Config{})}
	at := client.Target{Resource: client.ConfigMaps, Namespace: "default"}
	owner, err := f.Create(t.Context(), at, &corev1.ConfigMap{ObjectMeta: meta("owner")}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ref := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.(objects.Object).GetUID()}
	for i := range count {
		cm := &corev1.ConfigMap{ObjectMeta: meta(fmt.Sprintf("owned-%d", i))}
		cm.OwnerReferences = []metav1.OwnerReference{ref}
		f.create(at, cm)
	}
	f.create(at, &corev1.ConfigMap{ObjectMeta: meta("other")})
	f.Advance(0)
	heap, cpu, began := liveHeap(), cpuTime(), time.Now()
	at.Name = "owner"
	if _, err := f.Delete(t.Context(), at, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.Advance(0)
	took, used := time.Since(began), cpuTime()-cpu
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	names := []string{}
	for _, cm := range list[*corev1.ConfigMap](f, client.Target{Resource: client.ConfigMaps}) {
		names = append(names, cm.Name)
	}
	if want := []string{"kube-root-ca.crt", "other"}; !slices.Equal(names, want) {
		t.Errorf("%d ConfigMaps are left, want %v", len(names), want)
	}
	if measure {
		t.Logf("%d owned objects were collected in %.2f s with %.2f CPU-s; live heap %.1f MB before, heap %.1f MB at the end, %.1f MB after a collection",
			count, took.Seconds(), used.Seconds(), heap, float64(m.HeapAlloc)/1e6, liveHeap())
	}
}

// cpuTime returns the processor time of the test's process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
