package httpapi

import "net/http"

// keySet serves the public keys with which other servers verify the cluster's ServiceAccount tokens.
func (s *Handler) keySet(w http.ResponseWriter, r *http.Request) {
	b, err := s.config.Issuer.KeySet()
	publish(w, r, "application/jwk-set+json", b, err)
}

// openID serves the OpenID Connect discovery document.
func (s *Handler) openID(w http.ResponseWriter, r *http.Request) {
	b, err := s.config.Issuer.Discovery("https://" + s.config.Address())
	publish(w, r, "application/json", b, err)
}

// publish responds with a document that clients may cache for an hour.
func publish(w http.ResponseWriter, r *http.Request, contentType string, b []byte, err error) {
	if err != nil {
		fail(w, r, err)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=3600")
	writeBody(w, r, contentType, http.StatusOK, b)
}
