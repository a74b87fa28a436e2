package tokens

import (
	"crypto/sha256"
	"sync"
)

// mostVerified bounds the tokens whose claims are kept.
const mostVerified = 1024

// verified keeps the claims of tokens whose signature has been verified, by the hash of the token, so that a client's requests do not
// verify the same signature again. The claims are shared and must not be changed. Times and bound objects are checked for each request.
// It is safe for concurrent use.
type verified struct {
	mu     sync.Mutex
	claims map[[sha256.Size]byte]*claims
}

// find returns the claims of a token that was added, else nil.
func (v *verified) find(token string) *claims {
	if len(token) > maxToken {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.claims[sha256.Sum256([]byte(token))]
}

// add keeps the claims of a token, in the place of any other one if there are too many.
func (v *verified) add(token string, c *claims) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.claims == nil {
		v.claims = map[[sha256.Size]byte]*claims{}
	}
	if len(v.claims) >= mostVerified {
		for old := range v.claims {
			delete(v.claims, old)
			break
		}
	}
	v.claims[sha256.Sum256([]byte(token))] = c
}
