package storage_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controllertest"
	"github.com/minikctl/minikctl/pkg/objects/storage"
)

var (
	volumes = corev1.SchemeGroupVersion.WithResource("persistentvolumes")
	classes = storagev1.SchemeGroupVersion.WithResource("storageclasses")
)

func newClaim(name, size string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse(size)}}}}
}

func newVolume(name, size string, policy corev1.PersistentVolumeReclaimPolicy) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Capacity: corev1.ResourceList{"storage": resource.MustParse(size)},
		PersistentVolumeReclaimPolicy: policy,
		PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp/minikctl-no-such-directory/" + name}}}}
}

func claimPhase(c *controllertest.Cluster, name string) corev1.PersistentVolumeClaimPhase {
	claim, _ := controllertest.Get[*corev1.PersistentVolumeClaim](c, claims, name)
	if claim == nil {
		return ""
	}
	return claim.Status.Phase
}

func volumePhase(c *controllertest.Cluster, name string) corev1.PersistentVolumePhase {
	v, _ := controllertest.Get[*corev1.PersistentVolume](c, volumes, "/"+name)
	if v == nil {
		return ""
	}
	return v.Status.Phase
}

// TestBinding: a claim is bound to the smallest volume that is large enough, and the volume is kept for its data when the claim is deleted.
func TestBinding(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		controllertest.Create(c, claims, newClaim("data", "5Gi"))
		c.Until("event", func() bool {
			return slices.Contains(c.EventsOf("data"), "FailedBinding: no persistent volumes available for this claim and no storage class is set")
		})
		controllertest.Create(c, volumes, newVolume("small", "1Gi", corev1.PersistentVolumeReclaimRetain))
		controllertest.Create(c, volumes, newVolume("fits", "6Gi", corev1.PersistentVolumeReclaimRetain))
		c.Until("bound", func() bool {
			return claimPhase(c, "data") == corev1.ClaimBound && volumePhase(c, "fits") == corev1.VolumeBound
		})
		claim, _ := controllertest.Get[*corev1.PersistentVolumeClaim](c, claims, "data")
		v, _ := controllertest.Get[*corev1.PersistentVolume](c, volumes, "/fits")
		controllertest.Want(c, "claim", claim.Annotations, map[string]string{"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"})
		controllertest.Want(c, "capacity", claim.Status.Capacity.Storage().String(), "6Gi")
		controllertest.Want(c, "access modes", claim.Status.AccessModes, v.Spec.AccessModes)
		controllertest.Want(c, "volume", v.Annotations, map[string]string{"pv.kubernetes.io/bound-by-controller": "yes"})
		controllertest.Want(c, "claimRef", v.Spec.ClaimRef.UID, claim.UID)
		c.Until("small available", func() bool { return volumePhase(c, "small") == corev1.VolumeAvailable })
		c.Remove(claims, "data", metav1.DeletePropagationBackground)
		c.Until("released", func() bool { return volumePhase(c, "fits") == corev1.VolumeReleased })
		controllertest.Create(c, claims, newClaim("data", "5Gi"))
		c.Until("pending: a released volume is not bound again", func() bool {
			return claimPhase(c, "data") == corev1.ClaimPending && len(c.EventsOf("data")) > 0
		})
		controllertest.Want(c, "phase", volumePhase(c, "fits"), corev1.VolumeReleased)
	})
}

// TestPrebound: a claim and a volume that name each other, in either direction, are bound.
func TestPrebound(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		reserved := newVolume("reserved", "50Gi", corev1.PersistentVolumeReclaimRetain)
		reserved.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "first"}
		controllertest.Create(c, volumes, reserved)
		controllertest.Create(c, volumes, newVolume("chosen", "50Gi", corev1.PersistentVolumeReclaimRetain))
		second := newClaim("second", "5Gi")
		second.Spec.VolumeName = "chosen"
		controllertest.Create(c, claims, second)
		c.Until("second bound", func() bool { return claimPhase(c, "second") == corev1.ClaimBound })
		controllertest.Create(c, claims, newClaim("first", "5Gi"))
		c.Until("first bound", func() bool {
			return claimPhase(c, "first") == corev1.ClaimBound && volumePhase(c, "reserved") == corev1.VolumeBound
		})
		third := newClaim("third", "5Gi")
		third.Spec.VolumeName = "chosen"
		controllertest.Create(c, claims, third)
		c.Until("third refused", func() bool {
			return slices.Contains(c.EventsOf("third"), `FailedBinding: volume "chosen" already bound to a different claim.`)
		})
		big := newClaim("big", "90Gi")
		big.Spec.VolumeName = "free"
		controllertest.Create(c, claims, big)
		controllertest.Create(c, volumes, newVolume("free", "50Gi", corev1.PersistentVolumeReclaimRetain))
		c.Until("big refused", func() bool {
			return slices.Contains(c.EventsOf("big"), `VolumeMismatch: Cannot bind to requested volume "free": requested PV is too small`)
		})
		controllertest.Want(c, "phase", claimPhase(c, "big"), corev1.ClaimPending)
	})
}

// TestReclaimPolicies: Delete deletes a host path below /tmp and fails for others; Recycle empties the volume with a pod and makes it available again.
func TestReclaimPolicies(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		controllertest.Create(c, volumes, newVolume("delete", "1Gi", corev1.PersistentVolumeReclaimDelete))
		other := newVolume("failed", "2Gi", corev1.PersistentVolumeReclaimDelete)
		other.Spec.HostPath.Path = "/srv/minikctl-no-such-directory"
		controllertest.Create(c, volumes, other)
		controllertest.Create(c, volumes, newVolume("recycle", "3Gi", corev1.PersistentVolumeReclaimRecycle))
		for name, size := range map[string]string{"a": "1Gi", "b": "2Gi", "c": "3Gi"} {
			claim := newClaim(name, size)
			claim.Spec.VolumeName = map[string]string{"a": "delete", "b": "failed", "c": "recycle"}[name]
			controllertest.Create(c, claims, claim)
			c.Until("bound", func() bool { return claimPhase(c, name) == corev1.ClaimBound })
			c.Remove(claims, name, metav1.DeletePropagationBackground)
		}
		c.Until("deleted", func() bool { return volumePhase(c, "delete") == "" })
		c.Until("failed", func() bool { return volumePhase(c, "failed") == corev1.VolumeFailed })
		v, _ := controllertest.Get[*corev1.PersistentVolume](c, volumes, "/failed")
		controllertest.Want(c, "message", v.Status.Message, "host_path deleter only supports /tmp/.+ but received provided /srv/minikctl-no-such-directory")
		c.Until("recycler", func() bool { return c.Exists(client.Pods, "recycler-for-recycle") })
		c.Merge(controllertest.At(client.Pods, "recycler-for-recycle").Sub("status"), `{"status":{"phase":"Succeeded"}}`)
		c.Until("available", func() bool { return volumePhase(c, "recycle") == corev1.VolumeAvailable })
		c.Until("no recycler", func() bool { return !c.Exists(client.Pods, "recycler-for-recycle") })
		v, _ = controllertest.Get[*corev1.PersistentVolume](c, volumes, "/recycle")
		if v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID != "" {
			c.Errorf("recycled, and still bound to %v", v.Spec.ClaimRef)
		}
	})
}

// TestLostClaim: a bound claim whose volume is deleted is lost.
func TestLostClaim(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		controllertest.Create(c, volumes, newVolume("v", "1Gi", corev1.PersistentVolumeReclaimRetain))
		controllertest.Create(c, claims, newClaim("data", "1Gi"))
		c.Until("bound", func() bool { return claimPhase(c, "data") == corev1.ClaimBound })
		c.Remove(volumes, "/v", metav1.DeletePropagationBackground)
		c.Merge(controllertest.At(volumes, "/v"), `{"metadata":{"finalizers":null}}`)
		c.Until("lost", func() bool { return claimPhase(c, "data") == corev1.ClaimLost })
		c.Until("event", func() bool {
			return slices.Contains(c.EventsOf("data"), "ClaimLost: Bound claim has lost its PersistentVolume. Data on the volume is lost!")
		})
	})
}

// TestClasses: a claim without a class gets the default class once there is one, and its provisioner is asked for a volume.
func TestClasses(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		controllertest.Create(c, claims, newClaim("early", "1Gi"))
		c.Until("pending", func() bool { return len(c.EventsOf("early")) > 0 })
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "disk", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}}, Provisioner: "example.com/disk"}
		controllertest.Create(c, classes, class)
		c.Until("provisioner", func() bool {
			claim, _ := controllertest.Get[*corev1.PersistentVolumeClaim](c, claims, "early")
			return claim.Annotations["volume.kubernetes.io/storage-provisioner"] == "example.com/disk"
		})
		c.Until("event", func() bool {
			return slices.Contains(c.EventsOf("early"), "ExternalProvisioning: Waiting for a volume to be created either by the external provisioner 'example.com/disk' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.")
		})
		missing := newClaim("missing", "1Gi")
		missing.Spec.StorageClassName = new("none")
		controllertest.Create(c, claims, missing)
		c.Until("event", func() bool {
			return slices.Contains(c.EventsOf("missing"), `ProvisioningFailed: storageclass.storage.k8s.io "none" not found`)
		})
	})
}

// TestDirProvisioner: a claim of the cluster's own class gets a volume on the selected node, which is deleted with the claim.
func TestDirProvisioner(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		controllertest.Create(c, client.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelHostname: "n"}}})
		controllertest.Create(c, classes, storage.DirClass())
		controllertest.Create(c, claims, newClaim("data", "1Gi"))
		c.Until("event", func() bool {
			return slices.Contains(c.EventsOf("data"), "WaitForFirstConsumer: waiting for first consumer to be created before binding")
		})
		c.Merge(controllertest.At(claims, "data"), `{"metadata":{"annotations":{"volume.kubernetes.io/selected-node":"gone"}}}`)
		c.Until("another node requested", func() bool {
			claim, _ := controllertest.Get[*corev1.PersistentVolumeClaim](c, claims, "data")
			return claim.Annotations["volume.kubernetes.io/storage-provisioner"] == storage.DirProvisioner && claim.Annotations["volume.kubernetes.io/selected-node"] == ""
		})
		c.Merge(controllertest.At(claims, "data"), `{"metadata":{"annotations":{"volume.kubernetes.io/selected-node":"n"}}}`)
		c.Until("bound", func() bool { return claimPhase(c, "data") == corev1.ClaimBound })
		claim, _ := controllertest.Get[*corev1.PersistentVolumeClaim](c, claims, "data")
		name := "pvc-" + string(claim.UID)
		controllertest.Want(c, "volume", claim.Spec.VolumeName, name)
		c.Until("events", func() bool {
			events := c.EventsOf("data")
			return slices.Contains(events, "ProvisioningSucceeded: Successfully provisioned volume "+name) &&
				slices.Contains(events, `Provisioning: External provisioner is provisioning volume for claim "default/data"`)
		})
		c.Remove(claims, "data", metav1.DeletePropagationBackground)
		c.Until("deleted", func() bool { return volumePhase(c, name) == "" })
	})
}

// TestEphemeralVolume: a pod's ephemeral volume gets a claim that the pod owns; the claim of another one is an event.
func TestEphemeralVolume(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		pod := func(name string) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}},
				Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
					VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: newClaim("", "1Gi").Spec}}}}}}}
		}
		owner := controllertest.Create(c, client.Pods, pod("web"))
		c.Until("claim", func() bool { return c.Exists(claims, "web-v") })
		claim, _ := controllertest.Get[*corev1.PersistentVolumeClaim](c, claims, "web-v")
		controllertest.Want(c, "labels", claim.Labels, map[string]string{"a": "b"})
		controllertest.Want(c, "owned", metav1.IsControlledBy(claim, owner), true)
		controllertest.Create(c, claims, newClaim("db-v", "1Gi"))
		controllertest.Create(c, client.Pods, pod("db"))
		c.Until("event", func() bool {
			return slices.Contains(c.EventsOf("db"), "FailedBinding: ephemeral volume v: PVC default/db-v was not created for pod default/db (pod is not owner)")
		})
	})
}

// TestExpansion: a bound claim of the cluster's own class grows with its volume; one of another class waits for its driver's resizer.
func TestExpansion(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		own := storage.DirClass()
		own.VolumeBindingMode = new(storagev1.VolumeBindingImmediate)
		controllertest.Create(c, classes, own)
		controllertest.Create(c, classes, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Provisioner: "example.com/disk", AllowVolumeExpansion: new(true)})
		controllertest.Create(c, claims, newClaim("data", "1Gi"))
		v := newVolume("disk", "1Gi", corev1.PersistentVolumeReclaimRetain)
		v.Spec.StorageClassName = "other"
		controllertest.Create(c, volumes, v)
		other := newClaim("other", "1Gi")
		other.Spec.StorageClassName = new("other")
		controllertest.Create(c, claims, other)
		for _, name := range []string{"data", "other"} {
			c.Until("bound", func() bool { return claimPhase(c, name) == corev1.ClaimBound })
			c.Merge(controllertest.At(claims, name), `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`)
		}
		c.Until("expanded", func() bool {
			claim, _ := controllertest.Get[*corev1.PersistentVolumeClaim](c, claims, "data")
			return claim.Status.Capacity.Storage().String() == "2Gi"
		})
		claim, _ := controllertest.Get[*corev1.PersistentVolumeClaim](c, claims, "data")
		grown, _ := controllertest.Get[*corev1.PersistentVolume](c, volumes, "/"+claim.Spec.VolumeName)
		controllertest.Want(c, "volume", grown.Spec.Capacity.Storage().String(), "2Gi")
		controllertest.Want(c, "conditions", len(claim.Status.Conditions), 0)
		c.Until("events", func() bool {
			return slices.Contains(c.EventsOf("data"), "VolumeResizeSuccessful: Resize volume succeeded") &&
				slices.Contains(c.EventsOf("other"), "ExternalExpanding: waiting for an external controller to expand this PVC")
		})
		waiting, _ := controllertest.Get[*corev1.PersistentVolumeClaim](c, claims, "other")
		controllertest.Want(c, "capacity of the other", waiting.Status.Capacity.Storage().String(), "1Gi")
	})
}

// TestVACProtection: a VolumeAttributesClass is kept until no claim uses it.
func TestVACProtection(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		attributes := storagev1.SchemeGroupVersion.WithResource("volumeattributesclasses")
		controllertest.Create(c, attributes, &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: "gold"}, DriverName: "example.com", Parameters: map[string]string{"iops": "9"}})
		c.Until("finalizer", func() bool {
			class, _ := controllertest.Get[*storagev1.VolumeAttributesClass](c, attributes, "/gold")
			return slices.Contains(class.Finalizers, "kubernetes.io/vac-protection")
		})
		user := newClaim("user", "1Gi")
		user.Spec.VolumeAttributesClassName = new("gold")
		controllertest.Create(c, claims, user)
		c.Until("known", func() bool { return len(c.EventsOf("user")) > 0 })
		c.Remove(attributes, "/gold", metav1.DeletePropagationBackground)
		controllertest.Want(c, "exists", c.Exists(attributes, "/gold"), true)
		c.Remove(claims, "user", metav1.DeletePropagationBackground)
		c.Until("gone", func() bool { return !c.Exists(attributes, "/gold") })
	})
}
