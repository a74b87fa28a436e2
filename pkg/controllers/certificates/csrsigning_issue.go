package certificates

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

const (
	longestLife  = 365 * 24 * time.Hour // maximum and default lifetime of a certificate
	shortestLife = 10 * time.Minute

	// backdate allows for slow clocks. It does not shorten a lifetime below shortLife.
	backdate  = 5 * time.Minute
	shortLife = 8 * time.Hour
)

// issue returns the certificate for a request, PEM, with the names and the key of the request. It ignores the request's
// extensions.
func issue(a controller.Authority, req *x509.CertificateRequest, spec certificatesv1.CertificateSigningRequestSpec, now time.Time) ([]byte, error) {
	if err := req.CheckSignature(); err != nil {
		return nil, fmt.Errorf("check the request's signature: %w", err)
	}
	if end := a.Cert.NotAfter; !now.Before(end) {
		return nil, fmt.Errorf("the cluster's authority has expired: NotAfter=%v", end)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128))
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{
		SerialNumber: serial, Subject: req.Subject,
		DNSNames: req.DNSNames, IPAddresses: req.IPAddresses, EmailAddresses: req.EmailAddresses, URIs: req.URIs,
		BasicConstraintsValid: true,
	}
	t.NotBefore, t.NotAfter = lifetime(spec.ExpirationSeconds, now)
	if t.NotAfter.After(a.Cert.NotAfter) {
		t.NotAfter = a.Cert.NotAfter
	}
	if t.KeyUsage, t.ExtKeyUsage, err = keyUsages(spec.Usages); err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.Cert, req.PublicKey, a.Key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// lifetime returns when a certificate begins and ends.
func lifetime(seconds *int32, now time.Time) (from, to time.Time) {
	life := longestLife
	if seconds != nil {
		life = min(max(time.Duration(*seconds)*time.Second, shortestLife), longestLife)
	}
	from = now.Add(-backdate)
	if life < shortLife {
		return from, now.Add(life)
	}
	return from, from.Add(life)
}

// keyUsages converts usages to those of crypto/x509.
func keyUsages(list []certificatesv1.KeyUsage) (x509.KeyUsage, []x509.ExtKeyUsage, error) {
	var usage x509.KeyUsage
	extended := map[x509.ExtKeyUsage]bool{}
	var unknown []certificatesv1.KeyUsage
	for _, u := range list {
		bit, plain := usageBits[u]
		purpose, ok := usagePurposes[u]
		switch {
		case plain:
			usage |= bit
		case ok:
			extended[purpose] = true
		default:
			unknown = append(unknown, u)
		}
	}
	if len(unknown) > 0 {
		return 0, nil, fmt.Errorf("unrecognized usage values: %q", unknown)
	}
	return usage, slices.Sorted(maps.Keys(extended)), nil
}

var usageBits = map[certificatesv1.KeyUsage]x509.KeyUsage{
	certificatesv1.UsageSigning:           x509.KeyUsageDigitalSignature,
	certificatesv1.UsageDigitalSignature:  x509.KeyUsageDigitalSignature,
	certificatesv1.UsageContentCommitment: x509.KeyUsageContentCommitment,
	certificatesv1.UsageKeyEncipherment:   x509.KeyUsageKeyEncipherment,
	certificatesv1.UsageDataEncipherment:  x509.KeyUsageDataEncipherment,
	certificatesv1.UsageKeyAgreement:      x509.KeyUsageKeyAgreement,
	certificatesv1.UsageEncipherOnly:      x509.KeyUsageEncipherOnly,
	certificatesv1.UsageDecipherOnly:      x509.KeyUsageDecipherOnly,
	certificatesv1.UsageCertSign:          x509.KeyUsageCertSign,
	certificatesv1.UsageCRLSign:           x509.KeyUsageCRLSign,
}

var usagePurposes = map[certificatesv1.KeyUsage]x509.ExtKeyUsage{
	certificatesv1.UsageAny:             x509.ExtKeyUsageAny,
	certificatesv1.UsageClientAuth:      x509.ExtKeyUsageClientAuth,
	certificatesv1.UsageServerAuth:      x509.ExtKeyUsageServerAuth,
	certificatesv1.UsageCodeSigning:     x509.ExtKeyUsageCodeSigning,
	certificatesv1.UsageEmailProtection: x509.ExtKeyUsageEmailProtection,
	certificatesv1.UsageSMIME:           x509.ExtKeyUsageEmailProtection,
	certificatesv1.UsageIPsecEndSystem:  x509.ExtKeyUsageIPSECEndSystem,
	certificatesv1.UsageIPsecTunnel:     x509.ExtKeyUsageIPSECTunnel,
	certificatesv1.UsageIPsecUser:       x509.ExtKeyUsageIPSECUser,
	certificatesv1.UsageTimestamping:    x509.ExtKeyUsageTimeStamping,
	certificatesv1.UsageOCSPSigning:     x509.ExtKeyUsageOCSPSigning,
	certificatesv1.UsageMicrosoftSGC:    x509.ExtKeyUsageMicrosoftServerGatedCrypto,
	certificatesv1.UsageNetscapeSGC:     x509.ExtKeyUsageNetscapeServerGatedCrypto,
}
