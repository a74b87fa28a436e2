package kubelet

import (
	"net"
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
	to, err := (&Server{host: r.host}).find(r.host.allKubelets(), objects.Key{Namespace: "default", Name: "p"}, "")
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
