package certificates

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

const (
	cleanEvery  = time.Hour
	keepDecided = time.Hour      // so that clients can fetch the certificate or read the conditions
	keepPending = 24 * time.Hour // also of an approved request that no signer signs
)

// CSRCleaner deletes old CertificateSigningRequests.
func CSRCleaner(env controller.Env) reconcile.Loop {
	r := csrCleaner{
		client: env.Client, clock: env.Clock,
		requests: client.CacheOf[*certificatesv1.CertificateSigningRequest](env.Caches, signingRequests),
	}
	return reconcile.Loop{
		Name:      "csrcleaner",
		Sources:   []reconcile.Source{reconcile.Every(env.Clock, cleanEvery, objects.Key{Name: "all"})},
		Reconcile: r.reconcile,
	}
}

type csrCleaner struct {
	client   client.Client
	clock    clock.Clock
	requests *client.Cache[*certificatesv1.CertificateSigningRequest]
}

func (r csrCleaner) reconcile(ctx context.Context, _ objects.Key) (time.Duration, error) {
	now := r.clock.Now()
	for _, req := range r.requests.List("", labels.Everything()) {
		if !outdated(req, now) {
			continue
		}
		opts := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(req.UID))}
		if _, err := r.client.Delete(ctx, client.In(signingRequests, objects.Key{Name: req.Name}), opts); err != nil {
			slog.WarnContext(ctx, "delete old CertificateSigningRequest", "controller", "csrcleaner", "key", req.Name, "err", err)
		}
	}
	return 0, nil
}

// outdated reports whether a request is old enough to be deleted.
func outdated(req *certificatesv1.CertificateSigningRequest, now time.Time) bool {
	older := func(t metav1.Time, age time.Duration) bool { return !t.IsZero() && now.Sub(t.Time) > age }
	issued := len(req.Status.Certificate) > 0
	for _, c := range req.Status.Conditions {
		switch c.Type {
		case certificatesv1.CertificateApproved:
			if issued && (older(c.LastUpdateTime, keepDecided) || expired(req.Status.Certificate, now)) || !issued && older(c.LastUpdateTime, keepPending) {
				return true
			}
		case certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
			if older(c.LastUpdateTime, keepDecided) {
				return true
			}
		}
	}
	return len(req.Status.Conditions) == 0 && older(req.CreationTimestamp, keepPending)
}

// expired reports whether the first certificate of a PEM text has expired.
func expired(text []byte, now time.Time) bool {
	block, _ := pem.Decode(text)
	if block == nil {
		return false
	}
	list, err := x509.ParseCertificates(block.Bytes)
	return err == nil && len(list) > 0 && now.After(list[0].NotAfter)
}
