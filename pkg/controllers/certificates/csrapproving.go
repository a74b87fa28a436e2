package certificates

import (
	"context"
	"crypto/x509"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/certificates"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// A request that RBAC does not let the controller approve is checked again after its age, within these bounds.
const (
	minWait = 200 * time.Millisecond
	maxWait = 1000 * time.Second
)

// CSRApproving approves the requests for kubelets' client certificates that RBAC allows to be approved automatically.
func CSRApproving(env controller.Env) reconcile.Loop {
	r := csrApproving{
		client: env.Client, clock: env.Clock,
		requests: client.CacheOf[*certificatesv1.CertificateSigningRequest](env.Caches, signingRequests),
	}
	return reconcile.Loop{
		Name: "csrapproving", Sources: []reconcile.Source{reconcile.Watch(r.requests)}, Reconcile: r.reconcile, Workers: controller.Workers,
	}
}

type csrApproving struct {
	client   client.Client
	clock    clock.Clock
	requests *client.Cache[*certificatesv1.CertificateSigningRequest]
}

func (r csrApproving) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	req, ok := r.requests.Get(key)
	if !ok || len(req.Status.Certificate) > 0 {
		return 0, nil
	}
	if approved, denied := decided(req); approved || denied {
		return 0, nil
	}
	parsed, err := certificates.Parse(req.Spec.Request)
	if err != nil {
		return 0, fmt.Errorf("parse the request of %s: %w", req.Name, err)
	}
	rights := rightsFor(req, parsed)
	for _, right := range rights {
		allowed, err := r.allowed(ctx, req, right.subresource)
		if err != nil {
			return 0, err
		}
		if allowed {
			return 0, r.approve(ctx, req, right.message)
		}
	}
	if len(rights) == 0 {
		return 0, nil
	}
	return min(max(r.clock.Since(req.CreationTimestamp.Time), minWait), maxWait), nil
}

// right is a subresource whose creation a requester must be allowed for automatic approval, and the message of the approval.
type right struct{ subresource, message string }

// rightsFor returns the rights of which a request needs one.
func rightsFor(req *certificatesv1.CertificateSigningRequest, parsed *x509.CertificateRequest) []right {
	if req.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName || checkNodeClient(parsed, req.Spec.Usages) != nil {
		return nil
	}
	rights := []right{{"nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."}}
	if req.Spec.Username == parsed.Subject.CommonName {
		self := right{"selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."}
		rights = append([]right{self}, rights...)
	}
	return rights
}

func (r csrApproving) allowed(ctx context.Context, req *certificatesv1.CertificateSigningRequest, subresource string) (bool, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range req.Spec.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	request := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: req.Spec.Username, UID: req.Spec.UID, Groups: req.Spec.Groups, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: certificatesv1.GroupName, Version: "*", Resource: "certificatesigningrequests", Subresource: subresource, Verb: "create",
		},
	}}
	t := client.Target{Resource: authorizationv1.SchemeGroupVersion.WithResource("subjectaccessreviews")}
	created, err := r.client.Create(ctx, t, request, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	review, ok := created.(*authorizationv1.SubjectAccessReview)
	return ok && review.Status.Allowed, nil
}

func (r csrApproving) approve(ctx context.Context, req *certificatesv1.CertificateSigningRequest, message string) error {
	next := req.DeepCopy()
	next.Status.Conditions = append(next.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "AutoApproved", Message: message,
	})
	t := client.In(signingRequests, objects.Key{Name: req.Name}).Sub("approval")
	_, err := r.client.Update(ctx, t, next, metav1.UpdateOptions{})
	return err
}
