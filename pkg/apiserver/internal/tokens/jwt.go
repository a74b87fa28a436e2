package tokens

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

// maxToken bounds the length of a token in bytes; longer ones are rejected unread.
const maxToken = 16 << 10

// claims are the claims of a ServiceAccount token.
type claims struct {
	Audience   audiences `json:"aud"`
	Expiry     seconds   `json:"exp"`
	IssuedAt   seconds   `json:"iat"`
	Issuer     string    `json:"iss"`
	ID         string    `json:"jti,omitempty"`
	Kubernetes bound     `json:"kubernetes.io"`
	NotBefore  seconds   `json:"nbf"`
	Subject    string    `json:"sub"`
}

// bound names the objects that a token is bound to. It is invalid once one of them is deleted.
type bound struct {
	Namespace      string `json:"namespace"`
	Node           *ref   `json:"node,omitempty"`
	Pod            *ref   `json:"pod,omitempty"`
	Secret         *ref   `json:"secret,omitempty"`
	ServiceAccount ref    `json:"serviceaccount"`

	WarnAfter seconds `json:"warnafter,omitempty"`
}

type ref struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// audiences is a list of strings, or in JSON also a single string.
type audiences []string

func (a *audiences) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*a = audiences{one}
		return nil
	}
	var all []string
	if err := json.Unmarshal(raw, &all); err != nil {
		return err
	}
	*a = all
	return nil
}

// seconds is a time in seconds since 1970. A fraction, which the format allows, is dropped.
type seconds int64

func (s *seconds) UnmarshalJSON(raw []byte) error {
	var f float64
	if err := json.Unmarshal(raw, &f); err != nil {
		return err
	}
	if f < 0 || f > 1<<53 {
		return errors.New("a time is out of range")
	}
	*s = seconds(f)
	return nil
}

// algorithms are the accepted signature algorithms.
var algorithms = []jose.SignatureAlgorithm{jose.ES256}

// keyID returns a key's ID: the digest of its content.
func keyID(key *ecdsa.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

// sign returns a signed token in compact form.
func sign(key *ecdsa.PrivateKey, kid string, claims any) (string, error) {
	body, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: kid}}, nil)
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(body)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}

// parse reads a token. It verifies nothing.
func parse(token string) (*jose.JSONWebSignature, error) {
	if len(token) > maxToken {
		return nil, errors.New("the token is too long")
	}
	if strings.ContainsAny(token, "\r\n") { // the decoder skips these
		return nil, errors.New("the token has more than one line")
	}
	return jose.ParseSignedCompact(token, algorithms)
}

// unverified decodes the claims of a token into out without verifying the signature. It reports whether the token is a JWT.
func unverified(token string, out any) bool {
	signed, err := parse(token)
	return err == nil && json.Unmarshal(signed.UnsafePayloadWithoutVerification(), out) == nil
}

// issuerOf returns the unverified issuer of a token, or "".
func issuerOf(signed *jose.JSONWebSignature) string {
	var c struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(signed.UnsafePayloadWithoutVerification(), &c) != nil {
		return ""
	}
	return c.Issuer
}
