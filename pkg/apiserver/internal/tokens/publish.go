package tokens

import (
	"encoding/json"

	"github.com/go-jose/go-jose/v4"
)

// KeySet returns the document at /openid/v1/jwks (application/jwk-set+json): the public key that verifies
// tokens.
func (i *Issuer) KeySet() ([]byte, error) {
	return json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: &i.key.PublicKey, KeyID: i.kid, Algorithm: string(jose.ES256), Use: "sig"},
	}})
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
