package certificates

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestConditionsBySubresource(t *testing.T) {
	has := func(list ...certificatesv1.RequestConditionType) *request {
		r := &request{}
		for _, c := range list {
			r.Status.Conditions = append(r.Status.Conditions, condition{Type: c, Status: corev1.ConditionTrue})
		}
		return r
	}
	issued := has(certificatesv1.CertificateApproved)
	issued.Status.Certificate = []byte("x")
	for name, c := range map[string]struct {
		now, was *request
		allowed  may
		want     string
	}{
		"approve":             {has(certificatesv1.CertificateApproved), has(), may{approve: true}, ""},
		"approve by status":   {has(certificatesv1.CertificateApproved), has(), may{sign: true}, `may not add a condition of type "Approved"`},
		"take back":           {has(), has(certificatesv1.CertificateApproved), may{approve: true}, `may not remove a condition of type "Approved"`},
		"sign":                {issued, has(certificatesv1.CertificateApproved), may{sign: true}, ""},
		"sign by approval":    {issued, has(certificatesv1.CertificateApproved), may{approve: true}, "updates may not set certificate content"},
		"take a signature":    {has(certificatesv1.CertificateApproved), issued, may{sign: true}, "may not modify existing certificate content"},
		"fail while signing":  {has("Approved", "Failed"), has("Approved"), may{sign: true}, ""},
		"nothing has changed": {issued, issued, may{}, ""},
	} {
		errs := changes(c.now, c.was, c.allowed)
		if text := errs.ToAggregate(); c.want == "" && text != nil || c.want != "" && (text == nil || !strings.Contains(text.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, text, c.want)
		}
	}
	both := conditions(has("Denied", "Approved").Status.Conditions, fault{}, field.NewPath("c"))
	if len(both) != 1 || !strings.Contains(both[0].Error(), "mutually exclusive") {
		t.Errorf("denied and approved: %v", both)
	}
}

func TestSignerNames(t *testing.T) {
	for name, want := range map[string]string{
		"example.com/x": "", "example.com/ns.name": "", "": "Required value", "example.com": "fully qualified", "a.b/c/d": "fully qualified",
		"example/x": "at least two segments", "Example.com/x": `validating label "Example"`, "example.com/X": `validating label "X"`,
		"example.com/" + strings.Repeat("a.", 300) + "a": "Too long",
	} {
		err := signerName(name, field.NewPath("s")).ToAggregate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.40q: %v, want %q", name, err, want)
		}
	}
}

// withKey returns a request with an RSA key of that size and an invalid signature.
func withKey(t *testing.T, bits uint) []byte {
	t.Helper()
	der := func(v any) []byte {
		out, err := asn1.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	text := func(b []byte) asn1.BitString { return asn1.BitString{Bytes: b, BitLength: 8 * len(b)} }
	by := func(last int) pkix.AlgorithmIdentifier {
		return pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, last}, Parameters: asn1.NullRawValue}
	}
	type publicKey struct {
		By  pkix.AlgorithmIdentifier
		Key asn1.BitString
	}
	n := new(big.Int).Lsh(big.NewInt(1), bits-1)
	key := struct {
		N *big.Int
		E int
	}{n.SetBit(n, 0, 1), 65537}
	info := struct {
		Version int
		Subject pkix.RDNSequence
		Key     publicKey
		More    []asn1.RawValue `asn1:"tag:0"`
	}{0, pkix.Name{CommonName: "x"}.ToRDNSequence(), publicKey{by(1), text(der(key))}, nil}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der(struct {
		Info  any
		By    pkix.AlgorithmIdentifier
		Proof asn1.BitString
	}{info, by(11), text(make([]byte, bits/8))})})
}

func TestLongKeys(t *testing.T) {
	for bits, want := range map[uint]string{2048: "verification error", longestKey: "verification error",
		longestKey + 8: "RSA key of 16392 bits: may not have more than 16384", 1 << 20: "may not have more than"} {
		if err := checkRequest(withKey(t, bits)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d bits: %v", bits, err)
		}
	}
}
