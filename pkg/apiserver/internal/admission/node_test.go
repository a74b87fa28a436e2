package admission

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

func TestNewNodesAreTainted(t *testing.T) {
	has := func(n *corev1.Node) int {
		count := 0
		for _, taint := range n.Spec.Taints {
			if taint.Key == "node.kubernetes.io/not-ready" && taint.Effect == corev1.TaintEffectNoSchedule {
				count++
			}
		}
		return count
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "own", Effect: "NoExecute"}}}}
	for range 2 { // the second time it is there
		if err := admit(t.Context(), newReader(), create(nodes, node)); err != nil || has(node) != 1 || len(node.Spec.Taints) != 2 {
			t.Errorf("%v: %v", err, node.Spec.Taints)
		}
	}
	a := create(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}})
	a.Operation, a.Old = stage.Update, node
	if err := admit(t.Context(), newReader(), a); err != nil || has(a.Object.(*corev1.Node)) != 0 {
		t.Errorf("an update: %v", err)
	}
}

// of returns a write by the node n1.
func of(op stage.Operation, gr schema.GroupResource, sub, namespace, name string, obj, old objects.Object, other runtime.Object) *stage.Admission {
	return &stage.Admission{Operation: op, Object: obj, Old: old, Sub: other, Attributes: &stage.Attributes{
		User: &user.DefaultInfo{Name: "system:node:n1", Groups: []string{user.NodesGroup, user.AllAuthenticated}},
		GVR:  gr.WithVersion("v1"), Subresource: sub, Namespace: namespace, Name: name,
	}}
}

func named(name string, change func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	change(n)
	return n
}

func labeled(labels map[string]string) *corev1.Node {
	return named("n1", func(n *corev1.Node) { n.Labels = labels })
}

func mirrorPod1(change func(*corev1.Pod)) *corev1.Pod {
	yes := true
	return newPod(func(p *corev1.Pod) {
		p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		p.Spec.NodeName = "n1"
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "n1-uid", Controller: &yes}}
		change(p)
	})
}

func TestNodeRestriction(t *testing.T) {
	nothing := func(*corev1.Node) {}
	node := named("n1", nothing)
	bound := newPod(func(p *corev1.Pod) { p.UID, p.Spec.NodeName = "uid-1", "n1" })
	foreign := newPod(func(p *corev1.Pod) { p.Name, p.UID, p.Spec.NodeName = "f", "uid-f", "n2" })
	changed := func(from *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
		p := from.DeepCopy()
		change(p)
		return p
	}
	pod := func(change func(*corev1.Pod)) *stage.Admission {
		return of(stage.Create, pods, "", "ns", "p", mirrorPod1(change), nil, nil)
	}
	update := func(now, old *corev1.Node) *stage.Admission {
		return of(stage.Update, nodes, "", "", "n1", now, old, nil)
	}
	token := func(name, uid string) *stage.Admission {
		return of(stage.Create, serviceAccounts, "token", "ns", "default", nil, nil, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: name, UID: types.UID(uid)},
		}})
	}
	const mounted = "mounted"
	bound.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t"}}, {ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "u", Audience: mounted}},
	}}}}, {VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d"}}}, {VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
	tokenFor := func(audiences ...string) *stage.Admission {
		a := token("p", "uid-1")
		a.Sub.(*authenticationv1.TokenRequest).Spec.Audiences = audiences
		return a
	}
	claim := func(change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "v"}}
		change(c)
		return c
	}
	same := func(*corev1.PersistentVolumeClaim) {}
	slice := func(node string) *resourcev1.ResourceSlice {
		return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourcev1.ResourceSliceSpec{NodeName: &node}}
	}
	lease := func(namespace, name string) objects.Object {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	for name, c := range map[string]struct {
		a    *stage.Admission
		want string // part of the error; "": none
	}{
		"itself made":                {of(stage.Create, nodes, "", "", "", named("n1", nothing), nil, nil), ""},
		"another made":               {of(stage.Create, nodes, "", "", "", named("n2", nothing), nil, nil), `node "n1" is not allowed to modify node "n2"`},
		"another changed":            {of(stage.Update, nodes, "", "", "n2", named("n2", nothing), named("n2", nothing), nil), `node "n1" is not allowed to modify node "n2"`},
		"itself deleted":             {of(stage.Delete, nodes, "", "", "n1", nil, nil, nil), ""},
		"another deleted":            {of(stage.Delete, nodes, "", "", "n2", nil, nil, nil), `node "n1" is not allowed to modify node "n2"`},
		"its status":                 {of(stage.Update, nodes, "status", "", "n1", node, node, nil), ""},
		"another's status":           {of(stage.Update, nodes, "status", "", "n2", named("n2", nothing), named("n2", nothing), nil), `node "n1" is not allowed to modify node "n2"`},
		"taints when made":           {of(stage.Create, nodes, "", "", "", named("n1", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "a", Effect: "NoSchedule"}} }), nil, nil), ""},
		"taints changed":             {update(named("n1", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "a"}} }), node), `node "n1" is not allowed to modify taints`},
		"labels of its own":          {of(stage.Create, nodes, "", "", "", labeled(map[string]string{"a": "b", "kubernetes.io/hostname": "h", "example.com/x": "y", "kubelet.kubernetes.io/x": "y", "a.node.kubernetes.io/x": "y"}), nil, nil), ""},
		"restricted labels":          {of(stage.Create, nodes, "", "", "", labeled(map[string]string{"node-restriction.kubernetes.io/b": "", "x.node-restriction.kubernetes.io/a": ""}), nil, nil), `node "n1" is not allowed to set the following labels: node-restriction.kubernetes.io/b, x.node-restriction.kubernetes.io/a`},
		"a label of Kubernetes":      {of(stage.Create, nodes, "", "", "", labeled(map[string]string{"node-role.kubernetes.io/worker": ""}), nil, nil), `is not allowed to set the following labels: node-role.kubernetes.io/worker`},
		"labels changed":             {update(labeled(map[string]string{"a": "b"}), node), ""},
		"a restricted one added":     {update(labeled(map[string]string{"node-restriction.kubernetes.io/a": ""}), node), `is not allowed to modify labels: node-restriction.kubernetes.io/a`},
		"a restricted one removed":   {update(node, labeled(map[string]string{"node-restriction.kubernetes.io/a": ""})), `is not allowed to modify labels: node-restriction.kubernetes.io/a`},
		"a restricted one kept":      {update(labeled(map[string]string{"node-restriction.kubernetes.io/a": ""}), labeled(map[string]string{"node-restriction.kubernetes.io/a": ""})), ""},
		"a config source":            {of(stage.Create, nodes, "", "", "", named("n1", func(n *corev1.Node) { n.Spec.ConfigSource = &corev1.NodeConfigSource{} }), nil, nil), `node "n1" is not allowed to create pods with a non-nil configSource`},
		"a config source added":      {update(named("n1", func(n *corev1.Node) { n.Spec.ConfigSource = &corev1.NodeConfigSource{} }), node), `node "n1" is not allowed to update configSource to a new non-nil configSource`},
		"its lease":                  {of(stage.Create, leases, "", "kube-node-lease", "", lease("kube-node-lease", "n1"), nil, nil), ""},
		"another's lease":            {of(stage.Create, leases, "", "kube-node-lease", "", lease("kube-node-lease", "n2"), nil, nil), `can only access node lease with the same name as the requesting node`},
		"another's lease renewed":    {of(stage.Update, leases, "", "kube-node-lease", "n2", lease("kube-node-lease", "n2"), nil, nil), `can only access node lease with the same name as the requesting node`},
		"a lease elsewhere":          {of(stage.Update, leases, "", "ns", "n1", lease("ns", "n1"), nil, nil), `can only access leases in the "kube-node-lease" system namespace`},
		"a mirror pod":               {pod(func(*corev1.Pod) {}), ""},
		"a plain pod":                {pod(func(p *corev1.Pod) { p.Annotations = nil }), `pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create mirror pods`},
		"a pod elsewhere":            {pod(func(p *corev1.Pod) { p.Spec.NodeName = "n2" }), `node "n1" can only create pods with spec.nodeName set to itself`},
		"a pod without an owner":     {pod(func(p *corev1.Pod) { p.OwnerReferences = nil }), `node "n1" can only create pods with an owner reference set to itself`},
		"a pod of two owners":        {pod(func(p *corev1.Pod) { p.OwnerReferences = append(p.OwnerReferences, p.OwnerReferences[0]) }), `node "n1" can only create pods with a single owner reference set to itself`},
		"a pod of another owner":     {pod(func(p *corev1.Pod) { p.OwnerReferences[0].Name = "n2" }), `node "n1" can only create pods with an owner reference set to itself`},
		"a pod without a controller": {pod(func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }), `node "n1" can only create pods with a controller owner reference set to itself`},
		"a pod that blocks":          {pod(func(p *corev1.Pod) { p.OwnerReferences[0].BlockOwnerDeletion = p.OwnerReferences[0].Controller }), `node "n1" must not set blockOwnerDeletion on an owner reference`},
		"a pod of an older self":     {pod(func(p *corev1.Pod) { p.OwnerReferences[0].UID = "old" }), `node n1 UID mismatch: expected old got n1-uid`},
		"a pod with an account":      {pod(func(p *corev1.Pod) { p.Spec.ServiceAccountName = "default" }), `a mirror pod may not reference service accounts`},
		"a pod with secrets":         {pod(func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "x"}} }), `a mirror pod may not reference secrets`},
		"a pod with config maps": {pod(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}}}
		}), `node "n1" can not create pods that reference configmaps`},
		"a pod with claims": {pod(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}}}
		}), `node "n1" can not create pods that reference persistentvolumeclaims`},
		"a pod with bundles": {pod(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{}}}}}}}
		}), `node "n1" can not create pods that reference clustertrustbundles`},
		"a pod with resource claims": {pod(func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "x"}} }), `node "n1" can not create pods that reference resourceclaims`},
		"its pod changed":            {of(stage.Update, pods, "", "ns", "p", bound, bound, nil), `unexpected operation "UPDATE", node "n1" can only create and delete mirror pods`},
		"its pod deleted":            {of(stage.Delete, pods, "", "ns", "p", nil, nil, nil), ""},
		"another's pod deleted":      {of(stage.Delete, pods, "", "ns", "f", nil, nil, nil), `node "n1" can only delete pods with spec.nodeName set to itself`},
		"no pod deleted":             {of(stage.Delete, pods, "", "ns", "x", nil, nil, nil), `pods "x" not found`},
		"its pod's status":           {of(stage.Update, pods, "status", "ns", "p", changed(bound, func(p *corev1.Pod) { p.Status.Phase = "Running" }), bound, nil), ""},
		"another's pod's status":     {of(stage.Update, pods, "status", "ns", "f", foreign, foreign, nil), `node "n1" can only update pod status for pods with spec.nodeName set to itself`},
		"labels by the status":       {of(stage.Update, pods, "status", "ns", "p", changed(bound, func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }), bound, nil), `node "n1" cannot update labels through pod status`},
		"claims by the status": {of(stage.Update, pods, "status", "ns", "p", changed(bound, func(p *corev1.Pod) {
			p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "x"}}
		}), bound, nil), `node "n1" cannot update resource claim statues`},
		"its pod evicted":           {of(stage.Create, pods, "eviction", "ns", "p", nil, nil, &policyv1.Eviction{}), ""},
		"another's pod evicted":     {of(stage.Create, pods, "eviction", "ns", "f", nil, nil, &policyv1.Eviction{}), `node n1 can only evict pods with spec.nodeName set to itself`},
		"a pod bound":               {of(stage.Create, pods, "binding", "ns", "p", nil, nil, &corev1.Binding{}), `unexpected pod subresource "binding", only 'status' and 'eviction' are allowed`},
		"its pod's token":           {token("p", "uid-1"), ""},
		"another's pod's token":     {token("f", "uid-f"), `node requested token bound to a pod scheduled on a different node`},
		"a token of an older pod":   {token("p", "old"), `the UID in the bound object reference (old) does not match the UID in record. The object might have been deleted and then recreated`},
		"a token without a uid":     {token("p", ""), `node requested token with a pod binding without a uid`},
		"a token of no pod":         {token("x", "u"), `pods "x" not found`},
		"a token that is not bound": {of(stage.Create, serviceAccounts, "token", "ns", "default", nil, nil, &authenticationv1.TokenRequest{}), `node requested token not bound to a pod`},
		"a token for a volume":      {tokenFor(mounted), ""},
		"a token for a driver":      {tokenFor("driver"), ""},
		"a token for a volume's":    {tokenFor("volume"), ""},
		"a token for two":           {tokenFor("", mounted), `node may only request 0 or 1 audiences`},
		"an unrelated audience":     {tokenFor("other"), `audience "other" not found in pod spec volume, system:node:n1 is not authorized to request tokens for this audience`},
		"owners changed":            {update(named("n1", func(n *corev1.Node) { n.OwnerReferences = []metav1.OwnerReference{{Name: "x"}} }), node), `node "n1" is not allowed to modify ownerReferences`},
		"extended claims":           {of(stage.Update, pods, "status", "ns", "p", changed(bound, func(p *corev1.Pod) { p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{} }), bound, nil), `node "n1" cannot update extended resource claim status`},
		"a claim":                   {of(stage.Update, claims, "", "ns", "c", claim(same), claim(same), nil), `may only update PVC status`},
		"a claim's size": {of(stage.Update, claims, "status", "ns", "c", claim(func(c *corev1.PersistentVolumeClaim) {
			c.Status.Capacity = corev1.ResourceList{"storage": resource.MustParse("1Gi")}
		}), claim(same), nil), ""},
		"a claim's label":        {of(stage.Update, claims, "status", "ns", "c", claim(func(c *corev1.PersistentVolumeClaim) { c.Labels = map[string]string{"a": "b"} }), claim(same), nil), `node "n1" is not allowed to update fields other than status.quantity and status.conditions: `},
		"its devices":            {of(stage.Create, resourceSlices, "", "", "s", slice("n1"), nil, nil), ""},
		"another's devices":      {of(stage.Create, resourceSlices, "", "", "s", slice("n2"), nil, nil), `can only create ResourceSlice with the same NodeName as the requesting node`},
		"another's devices gone": {of(stage.Delete, resourceSlices, "", "", "s", nil, slice("n2"), nil), `can only delete ResourceSlice with the same NodeName as the requesting node`},
		"its certificate":        {of(stage.Create, signingRequests, "", "", "r", certificateFor(t, "system:node:n1"), nil, nil), ""},
		"another's certificate":  {of(stage.Create, signingRequests, "", "", "r", certificateFor(t, "system:node:n2"), nil, nil), `can only create a node CSR with CN=system:node:n1`},
		"an event":               {of(stage.Create, schema.GroupResource{Resource: "events"}, "", "ns", "e", &corev1.Event{}, nil, nil), ""},
		"a connection":           {of(stage.Connect, pods, "exec", "ns", "f", nil, nil, nil), ""},
		"another's CSINode":      {of(stage.Update, csiNodes, "", "", "n2", nil, nil, nil), `can only access CSINode with the same name as the requesting node`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReader()
			r.Put("pods", bound, foreign)
			r.Put("persistentvolumeclaims", claim(same))
			r.Put("persistentvolumes", &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "e"}}}})
			r.Put("csidrivers.storage.k8s.io",
				&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: storagev1.CSIDriverSpec{TokenRequests: []storagev1.TokenRequest{{Audience: "driver"}}}},
				&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "e"}, Spec: storagev1.CSIDriverSpec{TokenRequests: []storagev1.TokenRequest{{Audience: "volume"}}}})
			r.Put("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-node-lease"}})
			err := admit(t.Context(), r, c.a)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
				t.Errorf("error is %v, want %s", err, c.want)
			}
		})
	}
}

// certificateFor returns a request for a kubelet's client certificate.
func certificateFor(t *testing.T, name string) *certificatesv1.CertificateSigningRequest {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: certificatesv1.CertificateSigningRequestSpec{
		SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName, Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
	}}
}

func TestNodeRestrictionIsForNodes(t *testing.T) {
	a := of(stage.Delete, nodes, "", "", "n2", nil, nil, nil)
	for info, refused := range map[string]bool{"system:node:": true, "alice": false} {
		a.User = &user.DefaultInfo{Name: info, Groups: []string{user.NodesGroup}}
		if err := admit(t.Context(), newReader(), a); (err != nil) != refused {
			t.Errorf("%s: %v", info, err)
		}
	}
}
