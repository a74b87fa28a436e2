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
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/internal/virtual"
	"github.com/minikctl/minikctl/pkg/objects"
)

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

// TestPropagation: background and foreground deletion leave nothing of a workload, and orphan deletion leaves all but the workload. Claims are no
// dependents of a StatefulSet, and other workloads keep all they have.
func TestPropagation(t *testing.T) {
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
