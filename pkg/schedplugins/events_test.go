package schedplugins

import (
	"context"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/plug"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// waiter rejects each pod until an object with the pod's name is added, of a resource that the plugin registered for.
type waiter struct {
	resources []framework.EventResource
	seen      func(pod string) bool
	see       func(name string)
	nominates string // the node to which it nominates the pods that it rejects
}

func (w *waiter) Name() string { return "Waiter" }
func (w *waiter) Filter(_ context.Context, _ framework.CycleState, p *corev1.Pod, _ framework.NodeInfo) *framework.Status {
	if w.seen(p.Name) {
		return nil
	}
	return framework.NewStatus(framework.UnschedulableAndUnresolvable, "nothing was seen")
}
func (w *waiter) PostFilter(context.Context, framework.CycleState, *corev1.Pod, framework.NodeToStatusReader) (*framework.PostFilterResult, *framework.Status) {
	if w.nominates == "" {
		return nil, framework.NewStatus(framework.Unschedulable)
	}
	info := &framework.NominatingInfo{NominatingMode: framework.ModeOverride, NominatedNodeName: w.nominates}
	return &framework.PostFilterResult{NominatingInfo: info}, nil
}
func (w *waiter) EventsToRegister(context.Context) (out []framework.ClusterEventWithHint, err error) {
	hint := func(_ klog.Logger, p *corev1.Pod, old, now any) (framework.QueueingHint, error) {
		obj, ok := now.(objects.Object)
		if !ok || old != nil || obj.GetName() != p.Name {
			return framework.QueueSkip, nil
		}
		w.see(p.Name)
		return framework.Queue, nil
	}
	for _, r := range w.resources {
		out = append(out, on(r, framework.Add, hint))
	}
	return out, nil
}

// startWaiter starts a scheduler with the plugin.
func (c *cluster) startWaiter(w *waiter) {
	c.t.Helper()
	names := make(chan []string, 1)
	names <- nil
	w.see = func(name string) { names <- append(<-names, name) }
	w.seen = func(name string) bool {
		all := <-names
		names <- all
		return slices.Contains(all, name)
	}
	registry := maps.Clone(Registry)
	registry["Waiter"] = func(context.Context, runtime.Object, framework.Handle) (framework.Plugin, error) { return w, nil }
	conf := &configv1.KubeSchedulerConfiguration{}
	if err := plug.Decode([]byte(header+`profiles: [{plugins: {multiPoint: {enabled: [{name: Waiter}]}, postFilter: {disabled: [{name: "*"}], enabled: [{name: Waiter}]}}}]`), conf); err != nil {
		c.t.Fatal(err)
	}
	c.start(func(cfg *scheduler.Config) { cfg.Registry, cfg.Config = registry, conf })
}

// TestEventsOfAnyResource checks that QueueingHints are called for the events of each resource that a plugin registered
// for, whether the framework names the resource or not.
func TestEventsOfAnyResource(t *testing.T) {
	c := newCluster(t)
	c.node("n", "8")
	w := &waiter{}
	class := "c"
	at := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	cases := []struct {
		resource framework.EventResource
		target   client.Target
		obj      objectOf
	}{
		{framework.PersistentVolume, client.Target{Resource: core("persistentvolumes")}, &corev1.PersistentVolume{ObjectMeta: at("persistentvolume"), Spec: corev1.PersistentVolumeSpec{
			Capacity: quantities("storage", "1Gi"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp"}}}}},
		{framework.PersistentVolumeClaim, client.Target{Resource: core("persistentvolumeclaims"), Namespace: "default"}, &corev1.PersistentVolumeClaim{ObjectMeta: at("persistentvolumeclaim"), Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}}}}},
		{framework.StorageClass, client.Target{Resource: storage("storageclasses")}, &storagev1.StorageClass{ObjectMeta: at("storageclass"), Provisioner: "example.com/p"}},
		{framework.CSINode, client.Target{Resource: storage("csinodes")}, &storagev1.CSINode{ObjectMeta: at("csinode")}},
		{"configmaps.v1.", client.Target{Resource: core("configmaps"), Namespace: "default"}, &corev1.ConfigMap{ObjectMeta: at("configmaps")}},
	}
	for _, e := range cases {
		w.resources = append(w.resources, e.resource)
	}
	c.startWaiter(w)
	const message = "0/1 nodes are available: 1 nothing was seen."
	for _, e := range cases {
		name := e.obj.GetName()
		c.pod(name, "1m")
		c.unschedulable(name, message)
		c.create(e.target, e.obj)
		c.bound(name)
	}
}

func core(name string) schema.GroupVersionResource {
	return corev1.SchemeGroupVersion.WithResource(name)
}
func storage(name string) schema.GroupVersionResource {
	return storagev1.SchemeGroupVersion.WithResource(name)
}

// TestNominations checks that a PostFilter plugin's nomination is written to the pod's status, and ends with the binding.
func TestNominations(t *testing.T) {
	c := newCluster(t)
	c.node("n", "8")
	c.startWaiter(&waiter{resources: []framework.EventResource{framework.StorageClass}, nominates: "n"})
	c.pod("p", "1m")
	c.until("p", "nominated", func(p *corev1.Pod) bool { return p.Status.NominatedNodeName == "n" })
	c.create(client.Target{Resource: storage("storageclasses")}, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Provisioner: "example.com/p"})
	c.until("p", "bound without a nomination", func(p *corev1.Pod) bool { return p.Spec.NodeName == "n" && p.Status.NominatedNodeName == "" })
}

// TestWokenBy checks that a decision names the event because of which the pod was tried again, and the plugin that had rejected it.
func TestWokenBy(t *testing.T) {
	c := newCluster(t)
	c.node("small", "1")
	c.start(nil)
	c.pod("p", "2")
	c.until("p", "unschedulable", func(p *corev1.Pod) bool { return len(p.Status.Conditions) > 0 })
	if d := c.decision("p", "Unschedulable"); d.WokenBy != nil {
		t.Errorf("the first attempt was woken by %+v", d.WokenBy)
	}
	c.node("large", "2")
	c.bound("p")
	woken := c.decision("p", "Scheduled").WokenBy // if the new node's taint was there at the second attempt, by its removal
	byTaint := woken != nil && woken.Event == "NodeUpdateNodeTaint" && woken.Plugin == "TaintToleration"
	if woken == nil || woken.Object != "large" || !byTaint && (woken.Event != "NodeAdd" || woken.Plugin != "NodeResourcesFit") {
		t.Errorf("woken by %+v", woken)
	}
}
