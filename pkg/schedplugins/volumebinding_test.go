package schedplugins

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
)

// TestFindVolumes: a node fits if the bound volumes can be used there, and the waiting claims get free volumes or new ones.
func TestFindVolumes(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelHostname: "n", "zone": "a"}}}
	vol := func(name, host string) *corev1.PersistentVolume {
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
		v.Spec.StorageClassName, v.Status.Phase = "late", corev1.VolumeAvailable
		v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{host}}}}}}}
		return v
	}
	claim := func(name, selected string) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
		c.Spec.StorageClassName, c.Spec.AccessModes = new("late"), []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		if selected != "" {
			c.Annotations = map[string]string{volume.AnnSelectedNode: selected}
		}
		return c
	}
	zone := func(name string) []corev1.TopologySelectorTerm {
		return []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "zone", Values: []string{name}}}}}
	}
	for _, c := range []struct {
		name     string
		pod      *podVolumes
		class    storagev1.StorageClass
		taken    []string
		selected string // of the claim a, by another pod
		reason   string
		bind     []string
		make     int
	}{
		{name: "bound here", pod: &podVolumes{bound: []*corev1.PersistentVolume{vol("v", "n")}}},
		{name: "bound elsewhere", pod: &podVolumes{bound: []*corev1.PersistentVolume{vol("v", "m")}}, reason: nodeConflict},
		{name: "bound to nothing", pod: &podVolumes{missing: true}, reason: volumeMissing},
		{name: "free volumes", pod: &podVolumes{claims: []*corev1.PersistentVolumeClaim{claim("a", ""), claim("b", "")},
			free: []*corev1.PersistentVolume{vol("v", "n"), vol("w", "n")}}, bind: []string{"a=v", "b=w"}},
		{name: "free volumes of another node", pod: &podVolumes{claims: []*corev1.PersistentVolumeClaim{claim("a", "")}, free: []*corev1.PersistentVolume{vol("v", "m")}},
			class: storagev1.StorageClass{Provisioner: volume.NotSupportedProvisioner}, reason: volumeConflict},
		{name: "reserved by another pod", pod: &podVolumes{claims: []*corev1.PersistentVolumeClaim{claim("a", "")}, free: []*corev1.PersistentVolume{vol("v", "n")}},
			taken: []string{"v"}, class: storagev1.StorageClass{Provisioner: volume.NotSupportedProvisioner}, reason: volumeConflict},
		{name: "provisioned", pod: &podVolumes{claims: []*corev1.PersistentVolumeClaim{claim("a", "")}}, class: storagev1.StorageClass{Provisioner: "p"}, make: 1},
		{name: "provisioned on this node already", pod: &podVolumes{claims: []*corev1.PersistentVolumeClaim{claim("a", "n")}, free: []*corev1.PersistentVolume{vol("v", "n")}},
			class: storagev1.StorageClass{Provisioner: "p"}, make: 1},
		{name: "provisioned on another node already", pod: &podVolumes{claims: []*corev1.PersistentVolumeClaim{claim("a", "m")}}, class: storagev1.StorageClass{Provisioner: "p"}, reason: volumeConflict},
		{name: "another pod has it provisioned elsewhere", pod: &podVolumes{claims: []*corev1.PersistentVolumeClaim{claim("a", "")}}, selected: "m",
			class: storagev1.StorageClass{Provisioner: "p"}, reason: volumeConflict},
		{name: "in the topology", pod: &podVolumes{claims: []*corev1.PersistentVolumeClaim{claim("a", "")}}, class: storagev1.StorageClass{Provisioner: "p", AllowedTopologies: zone("a")}, make: 1},
		{name: "not in the topology", pod: &podVolumes{claims: []*corev1.PersistentVolumeClaim{claim("a", "")}}, class: storagev1.StorageClass{Provisioner: "p", AllowedTopologies: zone("b")}, reason: volumeConflict},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.pod.classes = map[string]*storagev1.StorageClass{"late": &c.class}
			taken, selected := map[string]*corev1.PersistentVolume{}, map[string]string{}
			for _, name := range c.taken {
				taken[name] = nil
			}
			if c.selected != "" {
				selected["default/a"] = c.selected
			}
			got, reasons, err := findVolumes(c.pod, node, taken, selected)
			if err != nil {
				t.Fatal(err)
			}
			if (c.reason != "") != (len(reasons) == 1) || c.reason != "" && reasons[0] != c.reason {
				t.Errorf("got reasons %q, want %q", reasons, c.reason)
			}
			var bind []string
			for _, m := range got.bind {
				bind = append(bind, m.claim.Name+"="+m.volume.Name)
			}
			if c.reason == "" && (!slices.Equal(bind, c.bind) || len(got.provision) != c.make) {
				t.Errorf("got %v and %d to provision, want %v and %d", bind, len(got.provision), c.bind, c.make)
			}
		})
	}
}
