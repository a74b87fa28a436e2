package admission

import (
	"context"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/authz"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/podref"
)

// taintNodesByCondition adds the taint not-ready to a new node.
type taintNodesByCondition struct{}

func (taintNodesByCondition) Name() string { return "TaintNodesByCondition" }

func (taintNodesByCondition) Mutate(_ context.Context, a *stage.Admission) error {
	node, ok := a.Object.(*corev1.Node)
	if !ok || a.Operation != stage.Create || a.Subresource != "" {
		return nil
	}
	taint := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	if slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) }) {
		return nil
	}
	node.Spec.Taints = append(node.Spec.Taints, taint)
	return nil
}

// nodeRestriction limits a kubelet to its own Node and the pods that are bound to it.
type nodeRestriction struct {
	reader      stage.Reader
	authorizers []stage.Authorizer
}

const leaseNamespace = "kube-node-lease"

func (n nodeRestriction) check(ctx context.Context, a *stage.Admission) error {
	node, isNode := authz.NodeName(a.User)
	if !isNode || a.Operation == stage.Connect {
		return nil
	}
	if node == "" {
		return forbid(a, "could not determine node from user %q", a.User.GetName())
	}
	switch a.GVR.GroupResource() {
	case pods:
		switch a.Subresource {
		case "":
			return n.pod(ctx, node, a)
		case "status":
			return podStatus(node, a)
		case "eviction":
			return n.eviction(ctx, node, a)
		}
		return forbid(a, "unexpected pod subresource %q, only 'status' and 'eviction' are allowed", a.Subresource)
	case nodes:
		return ownNode(node, a)
	case serviceAccounts:
		return n.token(ctx, node, a)
	case claims:
		return claimStatus(node, a)
	case resourceSlices:
		return ownSlice(node, a)
	case signingRequests:
		return ownRequest(node, a)
	case leases:
		return ownLease(node, a)
	case csiNodes:
		if objectName(a) != node {
			return forbid(a, "can only access CSINode with the same name as the requesting node")
		}
	}
	return nil
}

// objectName returns the request's name, or for a create the object's.
func objectName(a *stage.Admission) string {
	if a.Operation == stage.Create && a.Object != nil && a.Subresource == "" {
		return a.Object.GetName()
	}
	return a.Name
}

func (n nodeRestriction) pod(ctx context.Context, node string, a *stage.Admission) error {
	switch a.Operation {
	case stage.Create:
		return n.mirror(ctx, node, a)
	case stage.Delete:
		pod, err := n.stored(ctx, a, a.Name)
		if err != nil {
			return err
		}
		if pod.Spec.NodeName != node {
			return forbid(a, "node %q can only delete pods with spec.nodeName set to itself", node)
		}
		return nil
	}
	return forbid(a, "unexpected operation %q, node %q can only create and delete mirror pods", a.Operation, node)
}

func (n nodeRestriction) stored(ctx context.Context, a *stage.Admission, name string) (*corev1.Pod, error) {
	obj, err := n.reader.Get(ctx, pods, objects.Key{Namespace: a.Namespace, Name: name})
	if apierrors.IsNotFound(err) {
		return nil, err
	}
	if err != nil {
		return nil, forbid(a, "%w", err)
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, forbid(a, "unexpected type %T", obj)
	}
	return pod, nil
}

// mirror checks that a mirror pod refers to no other objects, so that it gives its node no access to them.
func (n nodeRestriction) mirror(ctx context.Context, node string, a *stage.Admission) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return forbid(a, "unexpected type %T", a.Object)
	}
	if !isMirror(pod) {
		return forbid(a, "pod does not have %q annotation, node %q can only create mirror pods", corev1.MirrorPodAnnotationKey, node)
	}
	if pod.Spec.NodeName != node {
		return forbid(a, "node %q can only create pods with spec.nodeName set to itself", node)
	}
	if err := n.mirrorOwner(ctx, node, a, pod); err != nil {
		return err
	}
	what, err := podref.Resource(pod)
	if err != nil {
		return forbid(a, "error checking mirror pod for API references: %w", err)
	}
	if what != "" {
		return forbid(a, "node %q can not create pods that reference %s", node, what)
	}
	return nil
}

func (n nodeRestriction) mirrorOwner(ctx context.Context, node string, a *stage.Admission, pod *corev1.Pod) error {
	if len(pod.OwnerReferences) > 1 {
		return forbid(a, "node %q can only create pods with a single owner reference set to itself", node)
	}
	if len(pod.OwnerReferences) == 0 {
		return forbid(a, "node %q can only create pods with an owner reference set to itself", node)
	}
	owner := pod.OwnerReferences[0]
	if owner.APIVersion != "v1" || owner.Kind != "Node" || owner.Name != node {
		return forbid(a, "node %q can only create pods with an owner reference set to itself", node)
	}
	if owner.Controller == nil || !*owner.Controller {
		return forbid(a, "node %q can only create pods with a controller owner reference set to itself", node)
	}
	if owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion {
		return forbid(a, "node %q must not set blockOwnerDeletion on an owner reference", node)
	}
	obj, err := n.reader.Get(ctx, nodes, objects.Key{Name: node})
	if apierrors.IsNotFound(err) {
		return err
	}
	if err != nil {
		return forbid(a, "error looking up node %s to verify uid: %w", node, err)
	}
	if owner.UID != obj.GetUID() {
		return forbid(a, "node %s UID mismatch: expected %s got %s", node, owner.UID, obj.GetUID())
	}
	return nil
}

func podStatus(node string, a *stage.Admission) error {
	if a.Operation != stage.Update {
		return forbid(a, "unexpected operation %q", a.Operation)
	}
	old, ok1 := a.Old.(*corev1.Pod)
	pod, ok2 := a.Object.(*corev1.Pod)
	switch {
	case !ok1:
		return forbid(a, "unexpected type %T", a.Old)
	case !ok2:
		return forbid(a, "unexpected type %T", a.Object)
	case old.Spec.NodeName != node:
		return forbid(a, "node %q can only update pod status for pods with spec.nodeName set to itself", node)
	case !labels.Equals(old.Labels, pod.Labels):
		return forbid(a, "node %q cannot update labels through pod status", node)
	case !apiequality.Semantic.DeepEqual(old.Status.ResourceClaimStatuses, pod.Status.ResourceClaimStatuses):
		return forbid(a, "node %q cannot update resource claim statues", node)
	case !apiequality.Semantic.DeepEqual(old.Status.ExtendedResourceClaimStatus, pod.Status.ExtendedResourceClaimStatus):
		return forbid(a, "node %q cannot update extended resource claim status", node)
	}
	return nil
}

func (n nodeRestriction) eviction(ctx context.Context, node string, a *stage.Admission) error {
	if a.Operation != stage.Create {
		return forbid(a, "unexpected operation %s", a.Operation)
	}
	if a.Name == "" {
		return forbid(a, "could not determine pod from request data")
	}
	pod, err := n.stored(ctx, a, a.Name)
	if err != nil {
		return err
	}
	if pod.Spec.NodeName != node {
		return forbid(a, "node %s can only evict pods with spec.nodeName set to itself", node)
	}
	return nil
}

func ownNode(node string, a *stage.Admission) error {
	if name := objectName(a); name != node {
		return forbid(a, "node %q is not allowed to modify node %q", node, name)
	}
	if a.Operation != stage.Create && a.Operation != stage.Update {
		return nil
	}
	obj, ok := a.Object.(*corev1.Node)
	if !ok {
		return forbid(a, "unexpected type %T", a.Object)
	}
	if a.Operation == stage.Create {
		if obj.Spec.ConfigSource != nil {
			return forbid(a, "node %q is not allowed to create pods with a non-nil configSource", node)
		}
		if bad := forbiddenLabels(obj.Labels, nil); len(bad) > 0 {
			return forbid(a, "node %q is not allowed to set the following labels: %s", node, strings.Join(bad, ", "))
		}
		return nil
	}
	old, ok := a.Old.(*corev1.Node)
	if !ok {
		return forbid(a, "unexpected type %T", a.Old)
	}
	if obj.Spec.ConfigSource != nil && !apiequality.Semantic.DeepEqual(obj.Spec.ConfigSource, old.Spec.ConfigSource) {
		return forbid(a, "node %q is not allowed to update configSource to a new non-nil configSource", node)
	}
	if !apiequality.Semantic.DeepEqual(obj.Spec.Taints, old.Spec.Taints) {
		return forbid(a, "node %q is not allowed to modify taints", node)
	}
	if !apiequality.Semantic.DeepEqual(obj.OwnerReferences, old.OwnerReferences) {
		return forbid(a, "node %q is not allowed to modify ownerReferences", node)
	}
	if bad := forbiddenLabels(obj.Labels, old.Labels); len(bad) > 0 {
		return forbid(a, "is not allowed to modify labels: %s", strings.Join(bad, ", "))
	}
	return nil
}

// kubeletLabels are the labels in Kubernetes' domains that a kubelet may set on its Node.
var kubeletLabels = []string{
	corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
	corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
	corev1.LabelInstanceType, corev1.LabelInstanceTypeStable, corev1.LabelOSStable, corev1.LabelArchStable,
	"beta.kubernetes.io/os", "beta.kubernetes.io/arch",
}

// forbiddenLabels returns the changed labels that a kubelet may not set, sorted.
func forbiddenLabels(labels, old map[string]string) []string {
	var bad []string
	look := func(a, b map[string]string) {
		for k, v := range a {
			if w, ok := b[k]; (!ok || v != w) && forbiddenLabel(k) && !slices.Contains(bad, k) {
				bad = append(bad, k)
			}
		}
	}
	look(labels, old)
	look(old, labels)
	slices.Sort(bad)
	return bad
}

func forbiddenLabel(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	if !ok {
		return false
	}
	within := func(suffix string) bool { return domain == suffix || strings.HasSuffix(domain, "."+suffix) }
	if within(corev1.LabelNamespaceNodeRestriction) {
		return true
	}
	if !within("kubernetes.io") && !within("k8s.io") {
		return false
	}
	return !slices.Contains(kubeletLabels, key) && !within(corev1.LabelNamespaceSuffixKubelet) && !within(corev1.LabelNamespaceSuffixNode)
}

// token rejects TokenRequests for pods that are not bound to the node.
func (n nodeRestriction) token(ctx context.Context, node string, a *stage.Admission) error {
	if a.Operation != stage.Create || a.Subresource != "token" {
		return nil
	}
	req, ok := a.Sub.(*authenticationv1.TokenRequest)
	if !ok {
		return forbid(a, "unexpected type %T", a.Sub)
	}
	to := req.Spec.BoundObjectRef
	if to == nil || to.APIVersion != "v1" || to.Kind != "Pod" || to.Name == "" {
		return forbid(a, "node requested token not bound to a pod")
	}
	if to.UID == "" {
		return forbid(a, "node requested token with a pod binding without a uid")
	}
	pod, err := n.stored(ctx, a, to.Name)
	if err != nil {
		return err
	}
	if to.UID != pod.UID {
		return forbid(a, "the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", to.UID)
	}
	if pod.Spec.NodeName != node {
		return forbid(a, "node requested token bound to a pod scheduled on a different node")
	}
	return n.audience(ctx, a, pod, req.Spec.Audiences)
}

func ownLease(node string, a *stage.Admission) error {
	if a.Namespace != leaseNamespace {
		return forbid(a, "can only access leases in the %q system namespace", leaseNamespace)
	}
	if objectName(a) != node {
		return forbid(a, "can only access node lease with the same name as the requesting node")
	}
	return nil
}
