package tokens

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// half is the length in bytes of r and of s in a P-256 signature.
const half = 32

// maxToken bounds the length of a token in bytes; longer ones are rejected unread.
const maxToken = 16 << 10

type header struct {
	Algorithm string   `json:"alg"`
	KeyID     string   `json:"kid,omitempty"`
	Critical  []string `json:"crit,omitempty"`
}

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

var encoding = base64.RawURLEncoding.Strict()

// keyID returns a key's ID: the digest of its content.
func keyID(key *ecdsa.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(der)
	return encoding.EncodeToString(sum[:]), nil
}

// sign returns a signed token in compact form.
func sign(key *ecdsa.PrivateKey, kid string, claims any) (string, error) {
	head, err := json.Marshal(header{Algorithm: "ES256", KeyID: kid})
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	text := encoding.EncodeToString(head) + "." + encoding.EncodeToString(body)
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		return "", err
	}
	sig := make([]byte, 2*half)
	r.FillBytes(sig[:half])
	s.FillBytes(sig[half:])
	return text + "." + encoding.EncodeToString(sig), nil
}

// parts splits a token into its signed part, claims and signature. It verifies nothing.
func parts(token string) (signed string, body, sig []byte, err error) {
	if len(token) > maxToken {
		return "", nil, nil, errors.New("the token is too long")
	}
	if strings.ContainsAny(token, "\r\n") { // the decoder would skip these
		return "", nil, nil, errors.New("the token has more than one line")
	}
	head, rest, ok1 := strings.Cut(token, ".")
	mid, tail, ok2 := strings.Cut(rest, ".")
	if !ok1 || !ok2 || strings.Contains(tail, ".") {
		return "", nil, nil, errors.New("the token does not have three parts")
	}
	rawHead, err := encoding.DecodeString(head)
	if err != nil {
		return "", nil, nil, fmt.Errorf("header: %w", err)
	}
	var h header
	if err := json.Unmarshal(rawHead, &h); err != nil {
		return "", nil, nil, fmt.Errorf("header: %w", err)
	}
	if h.Algorithm != "ES256" || len(h.Critical) > 0 {
		return "", nil, nil, fmt.Errorf("header: algorithm %q is not supported", h.Algorithm)
	}
	if body, err = encoding.DecodeString(mid); err != nil {
		return "", nil, nil, fmt.Errorf("claims: %w", err)
	}
	if sig, err = encoding.DecodeString(tail); err != nil {
		return "", nil, nil, fmt.Errorf("signature: %w", err)
	}
	return token[:len(head)+1+len(mid)], body, sig, nil
}

// issuerOf returns the unverified issuer of a token; ok is false if it isn't such a JWT.
func issuerOf(token string) (issuer string, ok bool) {
	_, body, _, err := parts(token)
	if err != nil {
		return "", false
	}
	var c struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(body, &c) != nil {
		return "", false
	}
	return c.Issuer, true
}

// verify checks the signature and returns the claims as JSON.
func verify(key *ecdsa.PublicKey, token string) ([]byte, error) {
	signed, body, sig, err := parts(token)
	if err != nil {
		return nil, err
	}
	if len(sig) != 2*half {
		return nil, errors.New("the signature's length is wrong")
	}
	sum := sha256.Sum256([]byte(signed))
	r, s := new(big.Int).SetBytes(sig[:half]), new(big.Int).SetBytes(sig[half:])
	if !ecdsa.Verify(key, sum[:], r, s) {
		return nil, errors.New("the signature is not ours")
	}
	return body, nil
}
