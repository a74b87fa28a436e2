package kubelet_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/kubelet/process"
	"github.com/minikctl/minikctl/pkg/kubelet/sim"
)

func TestFieldWarnings(t *testing.T) {
	plain := corev1.PodSpec{
		SecurityContext: &corev1.PodSecurityContext{}, SchedulerName: "default-scheduler",
		EnableServiceLinks: new(true), RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: new(int64(30)),
		Containers: []corev1.Container{{
			Name: "c", Image: "nginx", TerminationMessagePath: "/dev/termination-log", ImagePullPolicy: corev1.PullAlways,
			TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			Resources:                corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1")}},
			SecurityContext:          &corev1.SecurityContext{AllowPrivilegeEscalation: new(true)},
		}},
	}
	if got := kubelet.FieldWarnings(&plain, process.Tier); len(got) > 0 {
		t.Errorf("a plain pod: got %q", got)
	}
	odd := plain.DeepCopy()
	odd.HostUsers = new(false)
	odd.Containers[0].SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Level: "s0"}
	odd.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "v", DevicePath: "/dev/v"}}
	odd.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}}}
	want := []string{
		"spec.volumes[0].nfs: ", "spec.containers[0].volumeDevices: ", "spec.containers[0].securityContext.seLinuxOptions: ", "spec.hostUsers: ",
	}
	got := kubelet.FieldWarnings(odd, process.Tier)
	if len(got) != len(want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]+"not supported on nodes of the process runtime: ") {
			t.Errorf("got %q, want one about %s", got[i], want[i])
		}
	}
	if got := kubelet.FieldWarnings(odd, sim.Tier); got != nil {
		t.Errorf("on a simulated node: got %q", got)
	}
}
