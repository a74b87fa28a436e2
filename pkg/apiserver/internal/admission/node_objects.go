package admission

import (
	"context"
	"errors"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/diff"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/authz"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/certificates"
)

var (
	resourceSlices  = schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceslices"}
	signingRequests = schema.GroupResource{Group: certificatesv1.GroupName, Resource: "certificatesigningrequests"}
	csiDrivers      = schema.GroupResource{Group: storagev1.GroupName, Resource: "csidrivers"}
	volumes         = schema.GroupResource{Resource: "persistentvolumes"}
)

// claimStatus limits a kubelet to the capacity and resize fields of a claim's status.
func claimStatus(node string, a *stage.Admission) error {
	if a.Subresource != "status" {
		return forbid(a, "may only update PVC status")
	}
	if a.Operation != stage.Update {
		return forbid(a, "unexpected operation %q", a.Operation)
	}
	old, ok1 := a.Old.(*corev1.PersistentVolumeClaim)
	now, ok2 := a.Object.(*corev1.PersistentVolumeClaim)
	switch {
	case !ok1:
		return forbid(a, "unexpected type %T", a.Old)
	case !ok2:
		return forbid(a, "unexpected type %T", a.Object)
	}
	old, now = old.DeepCopy(), now.DeepCopy()
	for _, c := range []*corev1.PersistentVolumeClaim{old, now} {
		c.ResourceVersion, c.ManagedFields = "", nil
		c.Status.Capacity, c.Status.Conditions = nil, nil
		c.Status.AllocatedResources, c.Status.AllocatedResourceStatuses = nil, nil
	}
	if !apiequality.Semantic.DeepEqual(old, now) {
		return forbid(a, "node %q is not allowed to update fields other than status.quantity and status.conditions: %v", node, diff.Diff(old, now))
	}
	return nil
}

// ownSlice rejects creates and deletes of another node's ResourceSlice. The node authorizer checks updates.
func ownSlice(node string, a *stage.Admission) error {
	verb, obj := "create", a.Object
	switch a.Operation {
	case stage.Create:
	case stage.Delete:
		verb, obj = "delete", a.Old
	default:
		return nil
	}
	slice, ok := obj.(*resourcev1.ResourceSlice)
	if !ok {
		return forbid(a, "unexpected type %T", obj)
	}
	if slice.Spec.NodeName == nil || *slice.Spec.NodeName != node {
		return forbid(a, "can only %s ResourceSlice with the same NodeName as the requesting node", verb)
	}
	return nil
}

// ownRequest limits a kubelet to CertificateSigningRequests for itself.
func ownRequest(node string, a *stage.Admission) error {
	if a.Operation != stage.Create {
		return nil
	}
	req, ok := a.Object.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return forbid(a, "unexpected type %T", a.Object)
	}
	switch req.Spec.SignerName {
	case certificatesv1.KubeletServingSignerName, certificatesv1.KubeAPIServerClientKubeletSignerName:
	default:
		return nil
	}
	parsed, err := certificates.Parse(req.Spec.Request)
	if err != nil {
		return forbid(a, "unable to parse csr: %w", err)
	}
	if parsed.Subject.CommonName != "system:node:"+node {
		return forbid(a, "can only create a node CSR with CN=system:node:%s", node)
	}
	return nil
}

// audience limits a kubelet to audiences of tokens that the pod's volumes need, or that it has an explicit right for.
func (n nodeRestriction) audience(ctx context.Context, a *stage.Admission, pod *corev1.Pod, audiences []string) error {
	wanted := ""
	switch len(audiences) {
	case 0:
	case 1:
		wanted = audiences[0]
	default:
		return forbid(a, "node may only request 0 or 1 audiences")
	}
	ok, err := n.needsTokenFor(ctx, pod, wanted)
	if ok {
		return nil
	}
	if err != nil {
		return forbid(a, "error validating audience %q: %w", wanted, err)
	}
	d, _, err := authz.Decide(ctx, n.authorizers, &stage.Attributes{
		User: a.User, Verb: "request-serviceaccounts-token-audience", Namespace: a.Namespace, Name: a.Name,
		GVR: schema.GroupVersionResource{Version: "v1", Resource: wanted}, Warn: func(string) {},
	})
	switch {
	case d == stage.Allow:
		return nil
	case err != nil:
		return forbid(a, "audience %q not found in pod spec volume, error authorizing %s to request tokens for this audience: %w", wanted, a.User.GetName(), err)
	}
	return forbid(a, "audience %q not found in pod spec volume, %s is not authorized to request tokens for this audience", wanted, a.User.GetName())
}

// needsTokenFor reports whether a volume of the pod needs a token for the audience.
func (n nodeRestriction) needsTokenFor(ctx context.Context, pod *corev1.Pod, audience string) (bool, error) {
	var errs []error
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Projected != nil {
			for _, s := range v.Projected.Sources {
				if s.ServiceAccountToken != nil && s.ServiceAccountToken.Audience == audience {
					return true, nil
				}
			}
		}
		driver, err := n.driverOf(ctx, pod, v)
		if err == nil && driver != "" {
			var ok bool
			if ok, err = n.driverRequestsToken(ctx, driver, audience); ok {
				return true, nil
			}
		}
		errs = append(errs, err)
	}
	return false, errors.Join(errs...)
}

// driverOf returns the CSI driver of a volume, or "".
func (n nodeRestriction) driverOf(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (string, error) {
	claim := ""
	switch {
	case v.CSI != nil:
		return v.CSI.Driver, nil
	case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		claim = pod.Name + "-" + v.Name
	case v.PersistentVolumeClaim != nil:
		claim = v.PersistentVolumeClaim.ClaimName
	default:
		return "", nil
	}
	obj, err := n.reader.Get(ctx, claims, objects.Key{Namespace: pod.Namespace, Name: claim})
	if err != nil {
		return "", err
	}
	bound, ok := obj.(*corev1.PersistentVolumeClaim)
	if !ok {
		return "", nil
	}
	if obj, err = n.reader.Get(ctx, volumes, objects.Key{Name: bound.Spec.VolumeName}); err != nil {
		return "", err
	}
	if pv, ok := obj.(*corev1.PersistentVolume); ok && pv.Spec.CSI != nil {
		return pv.Spec.CSI.Driver, nil
	}
	return "", nil
}

func (n nodeRestriction) driverRequestsToken(ctx context.Context, driver, audience string) (bool, error) {
	obj, err := n.reader.Get(ctx, csiDrivers, objects.Key{Name: driver})
	if err != nil {
		return false, err
	}
	d, ok := obj.(*storagev1.CSIDriver)
	if !ok {
		return false, nil
	}
	for _, t := range d.Spec.TokenRequests {
		if t.Audience == audience {
			return true, nil
		}
	}
	return false, nil
}
