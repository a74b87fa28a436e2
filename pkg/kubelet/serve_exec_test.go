package kubelet

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/objects"
)

func TestPortForwardNeedsPodIP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := newRig(t)
	missing := corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}}}
	r.pod("p", corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: missing}}})
	r.waitSummary("p", "Pending c:ContainerCreating")
	to, err := (&Server{host: r.host}).find(objects.Key{Namespace: "default", Name: "p"}, "")
	if err != nil {
		t.Fatal(err)
	}
	client, stream := net.Pipe()
	client.Close()
	err = forwarder{to}.PortForward(t.Context(), "", "", int32(l.Addr().(*net.TCPAddr).Port), stream)
	if err == nil || !strings.Contains(err.Error(), "no address yet") {
		t.Errorf("got %v", err)
	}
}

func TestServerRequiresClientCertificate(t *testing.T) {
	verified := func(who pkix.Name) *tls.ConnectionState {
		cert := &x509.Certificate{Subject: who}
		return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}, VerifiedChains: [][]*x509.Certificate{{cert}}}
	}
	unverified := verified(pkix.Name{CommonName: "kube-apiserver-kubelet-client"})
	unverified.VerifiedChains = nil
	for name, c := range map[string]struct {
		conn *tls.ConnectionState
		want int
	}{
		"the API server":            {verified(pkix.Name{CommonName: "kube-apiserver-kubelet-client"}), http.StatusOK},
		"an administrator":          {verified(pkix.Name{CommonName: "me", Organization: []string{"system:masters"}}), http.StatusOK},
		"another node":              {verified(pkix.Name{CommonName: "system:node:n2", Organization: []string{"system:nodes"}}), http.StatusForbidden},
		"an unverified certificate": {unverified, http.StatusForbidden},
		"no encryption":             {nil, http.StatusForbidden},
	} {
		r := httptest.NewRequest(http.MethodGet, "/healthz", nil)
		r.TLS = c.conn
		w := httptest.NewRecorder()
		(&Server{}).Handler().ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s: got %d, want %d", name, w.Code, c.want)
		}
	}
}
