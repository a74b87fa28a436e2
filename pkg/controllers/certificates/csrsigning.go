// Package certificates holds the controllers of CertificateSigningRequests.
package certificates

import (
	"context"
	"fmt"
	"time"

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

var signingRequests = certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests")

// CSRSigning issues certificates for approved requests to the cluster's own signers.
func CSRSigning(env controller.Env) reconcile.Loop {
	r := csrSigning{
		client: env.Client, clock: env.Clock, authority: env.Authority,
		requests: client.CacheOf[*certificatesv1.CertificateSigningRequest](env.Caches, signingRequests),
	}
	return reconcile.Loop{
		Name: "csrsigning", Sources: []reconcile.Source{reconcile.Watch(r.requests)}, Reconcile: r.reconcile, Workers: controller.Workers,
	}
}

type csrSigning struct {
	client    client.Client
	clock     clock.Clock
	authority controller.Authority
	requests  *client.Cache[*certificatesv1.CertificateSigningRequest]
}

func (r csrSigning) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	req, ok := r.requests.Get(key)
	if !ok || r.authority.Key == nil || len(req.Status.Certificate) > 0 {
		return 0, nil
	}
	check, ours := signers[req.Spec.SignerName]
	if approved, denied := decided(req); !ours || !approved || denied || failed(req) {
		return 0, nil
	}
	parsed, err := certificates.Parse(req.Spec.Request)
	if err != nil {
		return 0, fmt.Errorf("parse the request of %s: %w", req.Name, err)
	}
	next := req.DeepCopy()
	if err := check(parsed, req.Spec.Usages); err != nil {
		next.Status.Conditions = append(next.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue,
			Reason: "SignerValidationFailure", Message: err.Error(), LastUpdateTime: metav1.NewTime(r.clock.Now()),
		})
	} else if next.Status.Certificate, err = issue(r.authority, parsed, req.Spec, clock.Machine(r.clock).Now()); err != nil {
		return 0, fmt.Errorf("sign the request of %s: %w", req.Name, err)
	}
	_, err = r.client.Update(ctx, client.In(signingRequests, key).Sub("status"), next, metav1.UpdateOptions{})
	return 0, err
}

// decided returns the decisions in a request's conditions.
func decided(req *certificatesv1.CertificateSigningRequest) (approved, denied bool) {
	for _, c := range req.Status.Conditions {
		approved = approved || c.Type == certificatesv1.CertificateApproved
		denied = denied || c.Type == certificatesv1.CertificateDenied
	}
	return approved, denied
}

func failed(req *certificatesv1.CertificateSigningRequest) bool {
	for _, c := range req.Status.Conditions {
		if c.Type == certificatesv1.CertificateFailed && (c.Status == "" || c.Status == corev1.ConditionTrue) {
			return true
		}
	}
	return false
}
