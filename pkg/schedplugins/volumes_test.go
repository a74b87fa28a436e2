package schedplugins

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// TestDisks checks which disks, that pods name themselves, two pods may use on one node.
func TestDisks(t *testing.T) {
	volumes := func(sources ...corev1.VolumeSource) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			for _, s := range sources {
				p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: s})
			}
		}
	}
	gce := func(name string, readOnly bool) corev1.VolumeSource {
		return corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: name, ReadOnly: readOnly}}
	}
	aws := func(id string) corev1.VolumeSource {
		return corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: id, ReadOnly: true}}
	}
	iscsi := func(iqn string, readOnly bool) corev1.VolumeSource {
		return corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{IQN: iqn, ReadOnly: readOnly}}
	}
	rbd := func(image string, readOnly bool, monitors ...string) corev1.VolumeSource {
		return corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{CephMonitors: monitors, RBDPool: "p", RBDImage: image, ReadOnly: readOnly}}
	}
	for _, c := range []struct {
		name      string
		pod, used corev1.VolumeSource
		conflict  bool
	}{
		{"the same disk", gce("a", false), gce("a", true), true},
		{"the same disk, both read-only", gce("a", true), gce("a", true), false},
		{"other disks", gce("a", false), gce("b", false), false},
		{"AWS disks are never shared", aws("a"), aws("a"), true},
		{"the same iSCSI target", iscsi("a", false), iscsi("a", false), true},
		{"the same iSCSI target, both read-only", iscsi("a", true), iscsi("a", true), false},
		{"one common monitor", rbd("a", false, "x", "y"), rbd("a", false, "y"), true},
		{"no common monitor", rbd("a", false, "x"), rbd("a", false, "y"), false},
		{"another image", rbd("a", false, "x"), rbd("b", false, "x"), false},
		{"kinds differ", gce("a", false), aws("a"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := scheduler.Simulate(context.Background(), scheduler.Simulation{Registry: Registry, Nodes: []*corev1.Node{someNode("n")},
				Pods: []*corev1.Pod{somePod("other", "n", volumes(c.used))}, Pod: somePod("p", "", volumes(c.pod))})
			if err != nil {
				t.Fatal(err)
			}
			want := ""
			if c.conflict {
				want = "0/1 nodes are available: 1 node(s) had no available disk. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
			}
			if got.Message != want {
				t.Errorf("got  %q\nwant %q", got.Message, want)
			}
		})
	}
}

// boundClaim creates a claim that is bound to a volume with the labels.
func (c *cluster) boundClaim(name string, mode corev1.PersistentVolumeAccessMode, labels map[string]string, edits ...func(*corev1.PersistentVolume)) {
	c.t.Helper()
	modes := []corev1.PersistentVolumeAccessMode{mode}
	amount := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	v.Spec = corev1.PersistentVolumeSpec{AccessModes: modes, Capacity: amount, StorageClassName: "x",
		ClaimRef:               &corev1.ObjectReference{Namespace: "default", Name: name},
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}}}
	for _, edit := range edits {
		edit(v)
	}
	c.create(client.Target{Resource: corev1.SchemeGroupVersion.WithResource("persistentvolumes")}, v)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
		Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}}}
	claim.Spec = corev1.PersistentVolumeClaimSpec{AccessModes: modes, VolumeName: name, StorageClassName: new("x"), Resources: corev1.VolumeResourceRequirements{Requests: amount}}
	c.create(client.Target{Resource: client.PersistentVolumeClaims, Namespace: "default"}, claim)
}

// csiClaim creates a claim that is bound to a volume of a CSI driver.
func (c *cluster) csiClaim(name, driver, handle string) {
	c.t.Helper()
	c.boundClaim(name, corev1.ReadWriteMany, nil, func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}}
	})
}

func usesClaim(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	}
}

// TestVolumeZone checks that a pod is scheduled in the zone of its volume, also if the volume has the beta label.
func TestVolumeZone(t *testing.T) {
	c := newCluster(t)
	c.node("a", "4", zone("a"))
	c.boundClaim("in-b", corev1.ReadWriteOnce, map[string]string{corev1.LabelTopologyZone: "b"})
	c.boundClaim("beta", corev1.ReadWriteOnce, map[string]string{corev1.LabelFailureDomainBetaZone: "b__c"})
	c.start(nil)
	c.pod("in-b", "1", usesClaim("in-b"))
	c.pod("beta", "1", usesClaim("beta"))
	const message = "0/1 nodes are available: 1 node(s) had no available volume zone. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
	c.unschedulable("in-b", message)
	c.unschedulable("beta", message)
	c.node("b", "4", zone("b"))
	for _, pod := range []string{"in-b", "beta"} {
		if got := c.bound(pod); got != "b" {
			t.Errorf("%s is on node %s", pod, got)
		}
	}
}

// TestReadWriteOncePod checks that one pod at a time uses a claim of this access mode, and that a pod of higher priority evicts the other.
func TestReadWriteOncePod(t *testing.T) {
	c := newCluster(t)
	c.node("n", "4")
	c.node("m", "4")
	c.boundClaim("one", corev1.ReadWriteOncePod, nil)
	high := c.priority("high", 1000)
	c.start(nil)
	c.pod("first", "1", usesClaim("one"))
	c.bound("first")
	c.pod("second", "1", usesClaim("one"))
	c.unschedulable("second", "0/2 nodes are available: 2 node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode. "+
		"no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.")
	c.remove("second") // so that it does not take the claim while third backs off
	c.pod("third", "1", usesClaim("one"), high)
	c.until("first", "being deleted", func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
	c.remove("first")
	c.bound("third")
}

// TestNodeVolumeLimits checks that a node gets no more volumes of a CSI driver than it can have attached. A volume that several pods use, or that
// is attached already, counts once, and volumes of other drivers don't count.
func TestNodeVolumeLimits(t *testing.T) {
	limited := func(count int32) *storagev1.CSINode {
		return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
			{Name: "d", NodeID: "n", Allocatable: &storagev1.VolumeNodeResources{Count: &count}}, {Name: "other", NodeID: "n"}}}}
	}
	nodes := client.Target{Resource: storagev1.SchemeGroupVersion.WithResource("csinodes")}
	attachments := client.Target{Resource: storagev1.SchemeGroupVersion.WithResource("volumeattachments")}
	attached := func(volume string) *storagev1.VolumeAttachment {
		return &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: volume}, Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "d", NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}}}
	}
	c := newCluster(t)
	c.node("n", "4")
	c.create(nodes, limited(2))
	for _, name := range []string{"a", "b", "c", "left"} {
		c.csiClaim(name, "d", name)
	}
	c.csiClaim("same", "d", "a") // another volume object of the same disk
	c.csiClaim("other", "other", "x")
	c.create(attachments, attached("a"))
	c.create(attachments, attached("left")) // of a pod that has ended
	c.start(nil)
	const message = "0/1 nodes are available: 1 node(s) exceed max volume count. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
	c.pod("b", "1m", usesClaim("b"))
	c.unschedulable("b", message)
	attachments.Name = "left"
	if _, err := c.client.Delete(c.ctx, attachments, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.bound("b")
	c.pod("other", "1m", usesClaim("other"))
	c.bound("other")
	c.pod("also-b", "1m", usesClaim("b"))
	c.bound("also-b")
	c.pod("c", "1m", usesClaim("c"))
	c.unschedulable("c", message)
	nodes.Name = "n"
	live, err := c.client.Get(c.ctx, nodes, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	more := limited(3)
	more.ResourceVersion = live.GetResourceVersion()
	if _, err := c.client.Update(c.ctx, nodes, more, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.bound("c")
	c.pod("same", "1m", usesClaim("same"))
	c.unschedulable("same", message)
	c.remove("b")
	c.remove("also-b")
	c.bound("same")
}
