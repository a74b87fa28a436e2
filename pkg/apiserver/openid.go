package apiserver

import (
	"net/http"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/codec"
)

// SecretToken returns the token that a Secret is to hold for a ServiceAccount.
func (s *Server) SecretToken(secret *corev1.Secret, account *corev1.ServiceAccount) (string, error) {
	return s.issuer.ForSecret(secret, account)
}

// keySet and openID tell others how to check the ServiceAccount tokens of this cluster.
func (s *Server) keySet(w http.ResponseWriter, r *http.Request) {
	b, err := s.issuer.KeySet()
	publish(w, r, "application/jwk-set+json", b, err)
}

func (s *Server) openID(w http.ResponseWriter, r *http.Request) {
	b, err := s.issuer.Discovery("https://" + s.public())
	publish(w, r, "application/json", b, err)
}

// publish answers with a document that may be kept for an hour.
func publish(w http.ResponseWriter, r *http.Request, contentType string, b []byte, err error) {
	if err != nil {
		fail(w, r, err)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=3600")
	writeBody(w, r, contentType, http.StatusOK, codec.Pieces{b})
}
