package admission

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/authz"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects/certificates"
)

// certificateRequests sets the server-side fields of a CertificateSigningRequest: its user and the times of its conditions.
type certificateRequests struct{ clk clock.Clock }

func (certificateRequests) Name() string { return "CertificateRequests" }

func (p certificateRequests) Mutate(_ context.Context, a *stage.Admission) error {
	r, ok := a.Object.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return nil
	}
	if a.Operation == stage.Create {
		info := a.User
		r.Spec.Username, r.Spec.UID, r.Spec.Groups, r.Spec.Extra = info.GetName(), info.GetUID(), info.GetGroups(), nil
		for key, values := range info.GetExtra() {
			if r.Spec.Extra == nil {
				r.Spec.Extra = map[string]certificatesv1.ExtraValue{}
			}
			r.Spec.Extra[key] = values
		}
		return nil
	}
	if old, ok := a.Old.(*certificatesv1.CertificateSigningRequest); ok && a.Subresource != "" {
		p.stamp(r.Status.Conditions, old.Status.Conditions)
	}
	return nil
}

func (p certificateRequests) stamp(conditions, old []certificatesv1.CertificateSigningRequestCondition) {
	now := metav1.NewTime(p.clk.Now())
	for i := range conditions {
		c := &conditions[i]
		if c.LastUpdateTime.IsZero() {
			c.LastUpdateTime = now
		}
		if !c.LastTransitionTime.IsZero() {
			continue
		}
		c.LastTransitionTime = now
		for _, o := range old {
			if o.Type == c.Type && o.Status == c.Status && !o.LastTransitionTime.IsZero() {
				c.LastTransitionTime = o.LastTransitionTime
				break
			}
		}
	}
}

// certificateApproval rejects an approval by a user without the right to approve requests for the signer.
type certificateApproval struct{ authorizers []stage.Authorizer }

func (certificateApproval) Name() string { return "CertificateApproval" }

func (p certificateApproval) Validate(ctx context.Context, a *stage.Admission) error {
	old, ok := a.Old.(*certificatesv1.CertificateSigningRequest)
	if !ok || a.Operation != stage.Update || a.Subresource != "approval" || mayForSigner(ctx, p.authorizers, a, "approve", old.Spec.SignerName) {
		return nil
	}
	return refuseRequest(a, old.Name, fmt.Errorf("user not permitted to approve requests with signerName %q", old.Spec.SignerName))
}

// certificateSigning rejects a certificate from a user without the right to sign for the signer.
type certificateSigning struct{ authorizers []stage.Authorizer }

func (certificateSigning) Name() string { return "CertificateSigning" }

func (p certificateSigning) Validate(ctx context.Context, a *stage.Admission) error {
	old, ok := a.Old.(*certificatesv1.CertificateSigningRequest)
	if !ok || a.Operation != stage.Update || a.Subresource != "status" {
		return nil
	}
	now, ok := a.Object.(*certificatesv1.CertificateSigningRequest)
	if ok && bytes.Equal(now.Status.Certificate, old.Status.Certificate) && equality.Semantic.DeepEqual(now.Status.Conditions, old.Status.Conditions) {
		return nil
	}
	if mayForSigner(ctx, p.authorizers, a, "sign", old.Spec.SignerName) {
		return nil
	}
	return refuseRequest(a, old.Name, fmt.Errorf("user not permitted to sign requests with signerName %q", old.Spec.SignerName))
}

// certificateSubjectRestriction rejects client certificates for the group system:masters.
type certificateSubjectRestriction struct{}

func (certificateSubjectRestriction) Name() string { return "CertificateSubjectRestriction" }

func (certificateSubjectRestriction) Validate(_ context.Context, a *stage.Admission) error {
	r, ok := a.Object.(*certificatesv1.CertificateSigningRequest)
	if !ok || a.Operation != stage.Create || a.Subresource != "" || r.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return nil
	}
	parsed, err := certificates.Parse(r.Spec.Request)
	if err != nil {
		return refuseRequest(a, r.Name, fmt.Errorf("failed to parse CSR: %w", err))
	}
	if slices.Contains(parsed.Subject.Organization, user.SystemPrivilegedGroup) {
		return refuseRequest(a, r.Name, fmt.Errorf("use of %s signer with system:masters group is not allowed", certificatesv1.KubeAPIServerClientSignerName))
	}
	return nil
}

// mayForSigner reports whether the user has the verb for the signer, or for all signers of its domain.
func mayForSigner(ctx context.Context, list []stage.Authorizer, a *stage.Admission, verb, signer string) bool {
	domain, _, _ := strings.Cut(signer, "/")
	for _, name := range []string{signer, domain + "/*"} {
		d, _, err := authz.Decide(ctx, list, &stage.Attributes{
			User: a.User, Verb: verb, Name: name, Warn: func(string) {},
			GVR: schema.GroupVersionResource{Group: certificatesv1.GroupName, Version: "*", Resource: "signers"},
		})
		if err == nil && d == stage.Allow {
			return true
		}
	}
	return false
}

func refuseRequest(a *stage.Admission, name string, err error) error {
	return apierrors.NewForbidden(a.GVR.GroupResource(), name, err)
}
