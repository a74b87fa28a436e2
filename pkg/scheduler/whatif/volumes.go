package whatif

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/podref"
	"github.com/minikctl/minikctl/pkg/objects/storage"
	volumes "github.com/minikctl/minikctl/pkg/objects/volume"
)

// Storage is the claims and volumes of a cluster.
type Storage struct {
	Claims  []*corev1.PersistentVolumeClaim
	Volumes []*corev1.PersistentVolume
	Classes []*storagev1.StorageClass

	Drivers     []*storagev1.CSINode // how many volumes the CSI drivers attach to the nodes
	Attachments []*storagev1.VolumeAttachment
}

// addClaims adds claims that the cluster does not have yet.
func (s *Storage) addClaims(claims []*corev1.PersistentVolumeClaim) {
	for _, claim := range claims {
		if !slices.ContainsFunc(s.Claims, func(c *corev1.PersistentVolumeClaim) bool {
			return c.Namespace == claim.Namespace && c.Name == claim.Name
		}) {
			s.Claims = append(s.Claims, claim)
		}
	}
}

// complete returns the claim with the default class, if it names none.
func (s *Storage) complete(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	class := storage.Default(s.Classes)
	if claim.Spec.VolumeName != "" || claim.Spec.StorageClassName != nil || class == "" || metav1.HasAnnotation(claim.ObjectMeta, corev1.BetaStorageClassAnnotation) {
		return claim
	}
	claim = claim.DeepCopy()
	claim.Spec.StorageClassName = &class
	return claim
}

// objects returns the claims, volumes and classes as plugins find them. Claims that do not wait for their first pod are bound, as they are once
// the controllers have done their work.
func (s *Storage) objects() map[framework.EventResource][]objects.Object {
	all := make([]*corev1.PersistentVolume, len(s.Volumes))
	for i, v := range s.Volumes {
		all[i] = available(v)
	}
	claims := make([]*corev1.PersistentVolumeClaim, len(s.Claims))
	for i, claim := range s.Claims {
		claims[i] = s.complete(claim)
	}
	smallest := slices.Clone(claims)
	slices.SortStableFunc(smallest, func(a, b *corev1.PersistentVolumeClaim) int {
		return cmp.Or(a.Spec.Resources.Requests.Storage().Cmp(*b.Spec.Resources.Requests.Storage()), cmp.Compare(claimName(a), claimName(b)))
	})
	for _, claim := range smallest {
		if v, bound := s.immediate(claim, all); v != nil {
			all = append(slices.DeleteFunc(all, func(old *corev1.PersistentVolume) bool { return old.Name == v.Name }), v)
			claims[slices.Index(claims, claim)] = bound
		}
	}
	out := map[framework.EventResource][]objects.Object{}
	for _, claim := range claims {
		out[framework.PersistentVolumeClaim] = append(out[framework.PersistentVolumeClaim], claim)
	}
	for _, v := range all {
		out[framework.PersistentVolume] = append(out[framework.PersistentVolume], v)
	}
	for _, class := range s.Classes {
		out[framework.StorageClass] = append(out[framework.StorageClass], class)
	}
	for _, d := range s.Drivers {
		out[framework.CSINode] = append(out[framework.CSINode], d)
	}
	for _, a := range s.Attachments {
		out[framework.VolumeAttachment] = append(out[framework.VolumeAttachment], a)
	}
	return out
}

// available returns the volume as the controllers leave a new one.
func available(v *corev1.PersistentVolume) *corev1.PersistentVolume {
	if v.Status.Phase != "" && v.Status.Phase != corev1.VolumePending {
		return v
	}
	v = v.DeepCopy()
	v.Status.Phase = corev1.VolumeAvailable
	return v
}

// immediate returns the volume that a claim gets without a pod, and the claim with it; nil: none.
func (s *Storage) immediate(claim *corev1.PersistentVolumeClaim, from []*corev1.PersistentVolume) (*corev1.PersistentVolume, *corev1.PersistentVolumeClaim) {
	name := volume.GetPersistentVolumeClaimClass(claim)
	i := slices.IndexFunc(s.Classes, func(c *storagev1.StorageClass) bool { return c.Name == name })
	if metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted) || i >= 0 && waits(s.Classes[i]) {
		return nil, nil
	}
	if named := claim.Spec.VolumeName; named != "" {
		from = slices.DeleteFunc(slices.Clone(from), func(v *corev1.PersistentVolume) bool { return v.Name != named })
	}
	v, err := volume.FindMatchingVolume(claim, from, nil, map[string]*corev1.PersistentVolume{}, false, true)
	switch {
	case err != nil:
		return nil, nil
	case v == nil && i >= 0 && claim.Spec.VolumeName == "":
		v = provisioned(claim, s.Classes[i])
	}
	if v == nil {
		return nil, nil
	}
	return volumes.Bind(v, claim)
}

// provisioned returns the volume that the provisioner of a class makes for a claim before it has a pod, nil if it makes none. Where the volume is, only the
// cluster's own provisioner is known to say: on all nodes. Of the volume of another one, only the topologies that the class allows are known.
func provisioned(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) *corev1.PersistentVolume {
	driver, err := storage.DriverOf(class.Provisioner)
	if err != nil || driver == "" || driver == storage.DirProvisioner && storage.DirRefuses(claim, class) != nil {
		return nil
	}
	name := fmt.Sprintf("pvc-%s-%s", claim.Namespace, claim.Name)
	if driver == storage.DirProvisioner {
		v := storage.DirVolume(claim, class, nil, "")
		v.Name = name
		return v
	}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{volume.AnnDynamicallyProvisioned: driver}},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class.Name, AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests, NodeAffinity: affinityOf(class.AllowedTopologies),
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name}},
		},
	}
}

// affinityOf returns the affinity to the nodes of topologies, nil if there are none.
func affinityOf(topologies []corev1.TopologySelectorTerm) *corev1.VolumeNodeAffinity {
	if len(topologies) == 0 {
		return nil
	}
	required := &corev1.NodeSelector{}
	for _, t := range topologies {
		var term corev1.NodeSelectorTerm
		for _, e := range t.MatchLabelExpressions {
			term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: e.Key, Operator: corev1.NodeSelectorOpIn, Values: e.Values})
		}
		required.NodeSelectorTerms = append(required.NodeSelectorTerms, term)
	}
	return &corev1.VolumeNodeAffinity{Required: required}
}

// Guessed returns the claims of the workloads' pods whose volumes a provisioner makes before the pods are scheduled, in a place that is not known.
func (c *Cluster) Guessed(workloads []Workload) (out []string) {
	made := map[objects.Key]string{}
	all := c.Storage.objects()
	given := map[string]bool{}
	for _, v := range c.Volumes {
		given[v.Name] = true
	}
	for _, obj := range all[framework.PersistentVolume] {
		v := obj.(*corev1.PersistentVolume)
		if driver := v.Annotations[volume.AnnDynamicallyProvisioned]; !given[v.Name] && driver != storage.DirProvisioner {
			made[objects.Key{Namespace: v.Spec.ClaimRef.Namespace, Name: v.Spec.ClaimRef.Name}] = driver
		}
	}
	for _, w := range workloads {
		for _, pod := range w.Pods {
			for name := range podref.Claims(pod) {
				key := objects.Key{Namespace: pod.Namespace, Name: name}
				if driver, ok := made[key]; ok {
					out = append(out, fmt.Sprintf("PersistentVolumeClaim %s: where the provisioner %s makes its volume is not known; it is taken to be on all nodes that its class allows", key, driver))
					delete(made, key)
				}
			}
		}
	}
	return out
}

func waits(class *storagev1.StorageClass) bool {
	return class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

func claimName(c *corev1.PersistentVolumeClaim) string { return c.Namespace + "/" + c.Name }

// templateClaims returns the claims of a pod of a StatefulSet, which the pod then uses.
func templateClaims(pod *corev1.Pod, templates []corev1.PersistentVolumeClaim) []*corev1.PersistentVolumeClaim {
	var out []*corev1.PersistentVolumeClaim
	for i := range templates {
		claim := templates[i].DeepCopy()
		name := claim.Name
		claim.Name, claim.Namespace = name+"-"+pod.Name, pod.Namespace
		out = append(out, claim)
		pod.Spec.Volumes = append(slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name }), corev1.Volume{
			Name: name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}},
		})
	}
	return out
}

// ephemeralClaims returns the claims of the ephemeral volumes of a pod, which gets a UID if it has none.
func ephemeralClaims(pod *corev1.Pod) []*corev1.PersistentVolumeClaim {
	var out []*corev1.PersistentVolumeClaim
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Ephemeral == nil || v.Ephemeral.VolumeClaimTemplate == nil {
			continue
		}
		if pod.UID == "" {
			pod.UID = types.UID("of " + pod.Namespace + "/" + pod.Name)
		}
		out = append(out, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Name: ephemeral.VolumeClaimName(pod, v), Namespace: pod.Namespace,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))},
			},
			Spec: *v.Ephemeral.VolumeClaimTemplate.Spec.DeepCopy(),
		})
	}
	return out
}
