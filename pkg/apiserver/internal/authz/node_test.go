package authz

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage/stagetest"

	"github.com/minikctl/minikctl/pkg/objects/feature"
)

func pod(name, node string, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"},
		Spec:       corev1.PodSpec{NodeName: node, ServiceAccountName: "sa-" + name},
	}
	change(p)
	return p
}

func local(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }

// allReferences makes the pod refer to an object in every possible way.
func allReferences(p *corev1.Pod) {
	claim := "claim"
	p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{local("pull")}
	p.Spec.InitContainers = []corev1.Container{{EnvFrom: []corev1.EnvFromSource{
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: local("envfrom")}},
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: local("cm-envfrom")}},
	}}}
	p.Spec.Containers = []corev1.Container{{Env: []corev1.EnvVar{
		{Name: "A", Value: "x"},
		{Name: "B", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: local("env")}}},
		{Name: "C", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: local("cm-env")}}},
	}}}
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: local("ephemeral")}}},
	}}}
	p.Spec.Volumes = []corev1.Volume{
		{Name: "a", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "volume"}}},
		{Name: "b", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local("cm-volume")}}},
		{Name: "c", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{Secret: &corev1.SecretProjection{LocalObjectReference: local("projected")}},
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: local("cm-projected")}},
		}}}},
		{Name: "d", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "pvc"}}},
		{Name: "e", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
		{Name: "f", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: &corev1.LocalObjectReference{Name: "csi"}}}},
		{Name: "g", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "x", ResourceClaimName: &claim}}
	p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "extended"}
}

func nodeReader() *stagetest.Reader {
	r := stagetest.NewReader()
	nothing := func(*corev1.Pod) {}
	r.Put("pods",
		pod("mine", "n1", allReferences),
		pod("theirs", "n2", func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{local("foreign")} }),
		pod("pending", "", func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{local("waiting")} }),
		pod("mirror", "n1", func(p *corev1.Pod) {
			p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
			p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{local("wished")}
		}),
		pod("plain", "n1", nothing))
	r.Put("persistentvolumes",
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "ns", Name: "pvc"}}},
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "free"}},
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "driven"}, Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{Namespace: "ns", Name: "pvc"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				NodeStageSecretRef: &corev1.SecretReference{Namespace: "drivers", Name: "stage"}, ControllerExpandSecretRef: &corev1.SecretReference{Namespace: "drivers", Name: "expand"},
			}},
		}},
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Spec: corev1.PersistentVolumeSpec{
			ClaimRef:               &corev1.ObjectReference{Namespace: "ns", Name: "pvc"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{RBD: &corev1.RBDPersistentVolumeSource{SecretRef: &corev1.SecretReference{Name: "rbd"}}},
		}})
	r.Put("volumeattachments.storage.k8s.io",
		&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "here"}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "n1"}},
		&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "there"}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "n2"}})
	r.Put("resourceslices.resource.k8s.io",
		&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "here"}, Spec: resourcev1.ResourceSliceSpec{NodeName: new("n1")}},
		&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "all"}})
	return r
}

func TestNode(t *testing.T) {
	const none = "no relationship found between node 'n1' and this object"
	n1 := known("system:node:n1", user.NodesGroup)
	for _, c := range []struct {
		line   string
		fields string
		reason string // "+": allowed
	}{
		{"get :secrets ns/pull", "", "+"},
		{"list :secrets ns/pull", "", "+"},
		{"watch :secrets ns/", "metadata.name=pull", "+"},
		{"get :secrets ns/envfrom", "", "+"},
		{"get :secrets ns/env", "", "+"},
		{"get :secrets ns/ephemeral", "", "+"},
		{"get :secrets ns/volume", "", "+"},
		{"get :secrets ns/projected", "", "+"},
		{"get :secrets ns/csi", "", "+"},
		{"get :secrets ns/foreign", "", none},
		{"get :secrets ns/waiting", "", none},
		{"get :secrets ns/wished", "", none},
		{"get :secrets other/pull", "", none},
		{"list :secrets ns/", "", "No Object name found"},
		{"list :secrets", "", "can only read namespaced object of this type"},
		{"update :secrets ns/pull", "", "can only read resources of this type"},
		{"get :secrets/x ns/pull", "", "cannot read subresource"},
		{"get :configmaps ns/cm-envfrom", "", "+"},
		{"get :configmaps ns/cm-env", "", "+"},
		{"get :configmaps ns/cm-volume", "", "+"},
		{"get :configmaps ns/cm-projected", "", "+"},
		{"get :configmaps ns/volume", "", none},
		{"get :persistentvolumeclaims ns/pvc", "", "+"},
		{"get :persistentvolumeclaims ns/mine-e", "", "+"},
		{"get :persistentvolumeclaims ns/x", "", none},
		{"list :persistentvolumeclaims ns/", "", "can only get individual resources of this type"},
		{"patch :persistentvolumeclaims/status ns/pvc", "", "+"},
		{"get :persistentvolumeclaims/status ns/pvc", "", "can only get/update/patch this type"},
		{"get :persistentvolumes /pv", "", "+"},
		{"get :persistentvolumes /free", "", none},
		{"get :persistentvolumes /x", "", none},
		{"get :secrets drivers/stage", "", "+"},
		{"get :secrets drivers/expand", "", none},
		{"get :secrets ns/rbd", "", "+"},
		{"get storage.k8s.io:volumeattachments /here", "", "+"},
		{"get storage.k8s.io:volumeattachments /there", "", none},
		{"get storage.k8s.io:volumeattachments /x", "", none},
		{"list storage.k8s.io:volumeattachments", "", "can only get individual resources of this type"},
		{"create resource.k8s.io:resourceslices", "", "+"},
		{"update resource.k8s.io:resourceslices /here", "", "+"},
		{"delete resource.k8s.io:resourceslices /all", "", none},
		{"get resource.k8s.io:resourceslices/x /here", "", "cannot authorize ResourceSlice subresources"},
		{"deletecollection resource.k8s.io:resourceslices", "spec.nodeName=n1", "+"},
		{"list resource.k8s.io:resourceslices", "", "can only list/watch/deletecollection resourceslices with nodeName field selector"},
		{"list certificates.k8s.io:clustertrustbundles", "", ""},
		{"get resource.k8s.io:resourceclaims ns/extended", "", "+"},
		{"get resource.k8s.io:resourceclaims ns/claim", "", "+"},
		{"get resource.k8s.io:resourceclaims ns/x", "", none},
		{"create :serviceaccounts/token ns/sa-mine", "", "+"},
		{"get :serviceaccounts ns/sa-mine", "", "+"},
		{"create :serviceaccounts/token ns/sa-theirs", "", none},
		{"create :serviceaccounts ns/x", "", "can only create token subresource of serviceaccount"},
		{"list :serviceaccounts ns/", "", "can only create tokens for individual service accounts"},
		{"get coordination.k8s.io:leases kube-node-lease/n1", "", "+"},
		{"create coordination.k8s.io:leases kube-node-lease/", "", "+"},
		{"update coordination.k8s.io:leases kube-node-lease/n2", "", "can only access node lease with the same name as the requesting node"},
		{"list coordination.k8s.io:leases kube-node-lease/", "", "can only get, create, update, patch, or delete a node lease"},
		{"get coordination.k8s.io:leases kube-system/n1", "", `can only access leases in the "kube-node-lease" system namespace`},
		{"get storage.k8s.io:csinodes /n1", "", "+"},
		{"get storage.k8s.io:csinodes /n2", "", "can only access CSINode with the same name as the requesting node"},
		{"list storage.k8s.io:csinodes", "", "can only get, create, update, patch, or delete a CSINode"},
		{"get :nodes /n1", "", "+"},
		{"watch :nodes", "metadata.name=n1", "+"},
		{"create :nodes", "", "+"},
		{"patch :nodes/status /n1", "", "+"},
		{"list :nodes", "", "node 'n1' cannot read all nodes, only its own Node object"},
		{"get :nodes /n2", "", "node 'n1' cannot read 'n2', only its own Node object"},
		{"delete :nodes /n1", "", ""},
		{"get :nodes/status /n1", "", ""},
		{"get :pods ns/mine", "", "+"},
		{"get :pods ns/theirs", "", none},
		{"get :pods ns/pending", "", none},
		{"list :pods", "spec.nodeName=n1", "+"},
		{"watch :pods", "spec.nodeName=n1,status.phase!=Failed", "+"},
		{"watch :pods", "spec.nodeName=n2", "can only list/watch pods with spec.nodeName field selector"},
		{"watch :pods", "spec.nodeName!=n1", "can only list/watch pods with spec.nodeName field selector"},
		{"watch :pods", "", "can only list/watch pods with spec.nodeName field selector"},
		{"watch :pods ns/", "metadata.name=mine", "+"},
		{"watch :pods ns/", "metadata.name=theirs", none},
		{"create :pods ns/", "", "+"},
		{"delete :pods ns/x", "", "+"},
		{"update :pods ns/x", "", ""},
		{"patch :pods/status ns/x", "", "+"},
		{"create :pods/eviction ns/x", "", "+"},
		{"create :pods/binding ns/x", "", ""},
		{"list :services", "", "+"},
		{"create events.k8s.io:events ns/", "", "+"},
		{"patch :events ns/e", "", "+"},
		{"delete :events ns/e", "", ""},
		{"create authentication.k8s.io:tokenreviews", "", "+"},
		{"create minikctl.dev:traces", "", "+"},
		{"get apps:deployments ns/d", "", ""},
		{"get /metrics", "", ""},
	} {
		a := attributes(n1, c.line)
		if c.fields != "" {
			a.Fields = fields.ParseSelectorOrDie(c.fields)
		}
		z := newNode(nodeReader())
		for range 2 { // the second time the path is cached
			d, reason, err := z.Authorize(t.Context(), a)
			allowed := d == stage.Allow
			if err != nil || allowed != (c.reason == "+") || !allowed && reason != c.reason {
				t.Errorf("%s %s: %v %q %v, want %q", c.line, c.fields, d, reason, err, c.reason)
				break
			}
		}
	}
}

func TestNodeIdentity(t *testing.T) {
	for _, c := range []struct {
		info user.Info
		name string
		is   bool
	}{
		{known("system:node:n1", user.NodesGroup), "n1", true},
		{known("system:node:", user.NodesGroup), "", true},
		{known("system:node:n1"), "", false},
		{known("n1", user.NodesGroup), "", false},
		{nil, "", false},
	} {
		if name, is := NodeName(c.info); name != c.name || is != c.is {
			t.Errorf("%v: %q %v", c.info, name, is)
		}
	}
	d, reason, _ := newNode(nodeReader()).Authorize(t.Context(), attributes(known("system:node:", user.NodesGroup), "get :pods ns/mine"))
	if d != stage.NoOpinion || reason != `unknown node for user "system:node:"` {
		t.Errorf("%v %q", d, reason)
	}
	if err := Check(t.Context(), New(nodeReader(), feature.Gates{}, unchanged), attributes(known("system:node:n1", user.NodesGroup), "get :secrets ns/foreign")); err == nil ||
		!strings.HasSuffix(err.Error(), `in the namespace "ns": no relationship found between node 'n1' and this object`) {
		t.Errorf("error is %v", err)
	}
}

func TestGraphDropsStaleEdges(t *testing.T) {
	r := nodeReader()
	z := newNode(r)
	a := attributes(known("system:node:n1", user.NodesGroup), "get :secrets ns/pull")
	allowed := func() bool {
		d, _, _ := z.Authorize(t.Context(), a)
		return d == stage.Allow
	}
	if first, second := allowed(), allowed(); !first || !second {
		t.Fatal("the node may not read its pod's secret")
	}
	if r.Lists() != 1 {
		t.Errorf("the pods were listed %d times", r.Lists())
	}
	r.Put("pods", pod("mine", "n2", allReferences))
	if allowed() {
		t.Error("the pod is on another node, and the node may still read its secret")
	}
	r.Put("pods", pod("another", "n1", allReferences))
	if !allowed() {
		t.Error("another pod needs the secret, and the node may not read it")
	}
	r.Delete("pods", "ns", "another")
	if allowed() {
		t.Error("the pod was deleted, and the node may still read its secret")
	}
}

func TestGraphIsBounded(t *testing.T) {
	g := newGraph(nodeReader())
	for i := range maxPaths {
		g.paths[path{node: fmt.Sprint(i)}] = ""
	}
	if ok, err := g.reaches(t.Context(), "n1", vertex{secrets, "ns", "pull"}); !ok || err != nil || len(g.paths) != 1 {
		t.Errorf("%v %v, %d ways", ok, err, len(g.paths))
	}
}
