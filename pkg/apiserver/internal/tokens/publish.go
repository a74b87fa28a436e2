package tokens

import (
	"encoding/json"
	"fmt"
)

// jwk is a public key in the form of RFC 7517.
type jwk struct {
	Use       string `json:"use"`
	Type      string `json:"kty"`
	KeyID     string `json:"kid"`
	Curve     string `json:"crv"`
	Algorithm string `json:"alg"`
	X         string `json:"x"`
	Y         string `json:"y"`
}

// KeySet returns the document at /openid/v1/jwks (application/jwk-set+json): the public key that verifies
// tokens.
func (i *Issuer) KeySet() ([]byte, error) {
	raw, err := i.key.PublicKey.Bytes() // 4, X, Y
	if err != nil {
		return nil, fmt.Errorf("encode the public key: %w", err)
	}
	return json.Marshal(struct {
		Keys []jwk `json:"keys"`
	}{[]jwk{{
		Use: "sig", Type: "EC", KeyID: i.kid, Curve: "P-256", Algorithm: "ES256",
		X: encoding.EncodeToString(raw[1 : 1+half]), Y: encoding.EncodeToString(raw[1+half:]),
	}}})
}

// Discovery returns the document at /.well-known/openid-configuration (application/json). server is the API server's URL.
func (i *Issuer) Discovery(server string) ([]byte, error) {
	return json.Marshal(struct {
		Issuer     string   `json:"issuer"`
		Keys       string   `json:"jwks_uri"`
		Responses  []string `json:"response_types_supported"`
		Subjects   []string `json:"subject_types_supported"`
		Algorithms []string `json:"id_token_signing_alg_values_supported"`
	}{i.issuer, server + "/openid/v1/jwks", []string{"id_token"}, []string{"public"}, []string{"ES256"}})
}
