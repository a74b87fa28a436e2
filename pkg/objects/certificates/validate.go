package certificates

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

// legacySigner is the default signer of v1beta1.
const legacySigner = "kubernetes.io/legacy-unknown"

// may lists what a write may change, by its subresource.
type may struct{ approve, sign bool }

func validate(r, old *request, allowed may) field.ErrorList {
	was := faults(old)
	errs := check.Meta(r, false, anyName)
	spec := field.NewPath("spec")
	if err := checkRequest(r.Spec.Request); err != nil {
		errs = append(errs, field.Invalid(spec.Child("request"), r.Spec.Request, err.Error()))
	}
	errs = append(errs, usages(r.Spec.Usages, was, spec.Child("usages"))...)
	if r.Spec.SignerName == legacySigner && !was.legacy {
		errs = append(errs, field.Invalid(spec.Child("signerName"), r.Spec.SignerName, "the legacy signerName is not allowed via this API version"))
	} else {
		errs = append(errs, signerName(r.Spec.SignerName, spec.Child("signerName"))...)
	}
	if s := r.Spec.ExpirationSeconds; s != nil && *s < 600 {
		errs = append(errs, field.Invalid(spec.Child("expirationSeconds"), *s, "may not specify a duration less than 600 seconds (10 minutes)"))
	}
	errs = append(errs, conditions(r.Status.Conditions, was, field.NewPath("status", "conditions"))...)
	if old == nil || !bytes.Equal(r.Status.Certificate, old.Status.Certificate) && checkCertificates(old.Status.Certificate) == nil {
		if err := checkCertificates(r.Status.Certificate); err != nil {
			errs = append(errs, field.Invalid(field.NewPath("status", "certificate"), "<certificate data>", err.Error()))
		}
	}
	if old != nil {
		errs = append(append(errs, changes(r, old, allowed)...), check.MetaUpdate(r, old)...)
	}
	return errs
}

// longestKey is the maximum size of an RSA key in bits. The time to verify a signature grows with the square of the size: a
// million bits take minutes.
const longestKey = 16384

// Parse decodes a PEM-encoded request.
func Parse(raw []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(raw)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	r, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	if key, ok := r.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > longestKey {
		return nil, fmt.Errorf("RSA key of %d bits: may not have more than %d", key.N.BitLen(), longestKey)
	}
	return r, nil
}

func checkRequest(raw []byte) error {
	r, err := Parse(raw)
	if err != nil {
		return err
	}
	return r.CheckSignature()
}

func checkCertificates(raw []byte) error {
	if len(raw) == 0 {
		return nil
	}
	found := false
	for block, rest := pem.Decode(raw); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return fmt.Errorf("only CERTIFICATE PEM blocks are allowed, found %q", block.Type)
		}
		if len(block.Headers) != 0 {
			return errors.New("no PEM block headers are permitted")
		}
		certs, err := x509.ParseCertificates(block.Bytes)
		if err != nil {
			return err
		}
		if len(certs) == 0 {
			return errors.New("found CERTIFICATE PEM block containing 0 certificates")
		}
		found = true
	}
	if !found {
		return errors.New("must contain at least one CERTIFICATE PEM block")
	}
	return nil
}

// fault lists the errors of a stored request that updates may keep.
type fault struct{ legacy, both, twice, untyped, usageTwice, usageUnknown bool }

func faults(old *request) fault {
	if old == nil {
		return fault{}
	}
	f := fault{
		legacy: old.Spec.SignerName == legacySigner,
		both:   len(indices(old, certificatesv1.CertificateApproved)) > 0 && len(indices(old, certificatesv1.CertificateDenied)) > 0,
	}
	var types check.Seen[certificatesv1.RequestConditionType]
	for _, c := range old.Status.Conditions {
		f.untyped = f.untyped || c.Type == ""
		f.twice = types.Again(c.Type) || f.twice
	}
	var known check.Seen[certificatesv1.KeyUsage]
	for _, u := range old.Spec.Usages {
		f.usageUnknown = f.usageUnknown || !slices.Contains(knownUsages, u)
		f.usageTwice = known.Again(u) || f.usageTwice
	}
	return f
}

// knownUsages is in the order of error messages.
var knownUsages = []certificatesv1.KeyUsage{
	"any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment", "decipher only",
	"digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel", "ipsec user", "key agreement",
	"key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime", "server auth", "signing", "timestamping",
}

func usages(list []certificatesv1.KeyUsage, was fault, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(list) == 0 {
		errs = append(errs, field.Required(at, ""))
	}
	for i, u := range list {
		if !was.usageUnknown && !slices.Contains(knownUsages, u) {
			errs = append(errs, field.NotSupported(at.Index(i), u, knownUsages))
		}
	}
	var seen check.Seen[certificatesv1.KeyUsage]
	for i, u := range list {
		if seen.Again(u) && !was.usageTwice {
			errs = append(errs, field.Duplicate(at.Index(i), u))
		}
	}
	return errs
}

var (
	onlyTrue  = []corev1.ConditionStatus{corev1.ConditionTrue}
	anyStatus = []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown}
)

// final are the conditions that must be true and can't be removed.
var final = []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed}

func conditions(list []condition, was fault, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[certificatesv1.RequestConditionType]bool{}
	for i, c := range list {
		if c.Type == "" && !was.untyped {
			errs = append(errs, field.Required(at.Index(i).Child("type"), ""))
		}
		allowed := anyStatus
		if slices.Contains(final, c.Type) {
			allowed = onlyTrue
		}
		if c.Status == "" {
			errs = append(errs, field.Required(at.Index(i).Child("status"), ""))
		} else if !slices.Contains(allowed, c.Status) {
			errs = append(errs, field.NotSupported(at.Index(i).Child("status"), c.Status, allowed))
		}
		if !was.both && (c.Type == certificatesv1.CertificateApproved && seen[certificatesv1.CertificateDenied] ||
			c.Type == certificatesv1.CertificateDenied && seen[certificatesv1.CertificateApproved]) {
			errs = append(errs, field.Invalid(at, c.Type, "Approved and Denied conditions are mutually exclusive"))
		}
		if seen[c.Type] && !was.twice {
			errs = append(errs, field.Duplicate(at.Index(i).Child("type"), c.Type))
		}
		seen[c.Type] = true
	}
	return errs
}

func ofType(r *request, t certificatesv1.RequestConditionType) []condition {
	var out []condition
	for _, i := range indices(r, t) {
		out = append(out, r.Status.Conditions[i])
	}
	return out
}

func changes(r, old *request, allowed may) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("status", "conditions")
	for _, t := range final {
		if len(indices(r, t)) < len(indices(old, t)) {
			errs = append(errs, field.Forbidden(at, fmt.Sprintf("updates may not remove a condition of type %q", t)))
		}
	}
	for _, t := range final[:2] {
		now, was := ofType(r, t), ofType(old, t)
		switch {
		case allowed.approve || len(now) < len(was):
		case len(now) > len(was):
			errs = append(errs, field.Forbidden(at, fmt.Sprintf("updates may not add a condition of type %q", t)))
		case !equality.Semantic.DeepEqual(now, was):
			errs = append(errs, field.Forbidden(at, fmt.Sprintf("updates may not modify a condition of type %q\n%v", t, diff.Diff(check.Shown(was), check.Shown(now)))))
		}
	}
	if bytes.Equal(r.Status.Certificate, old.Status.Certificate) {
		return errs
	}
	at = field.NewPath("status", "certificate")
	if !allowed.sign {
		return append(errs, field.Forbidden(at, "updates may not set certificate content"))
	}
	if len(old.Status.Certificate) > 0 {
		errs = append(errs, field.Forbidden(at, "updates may not modify existing certificate content"))
	}
	return errs
}
