package kubelet

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
)

// TestHonouredFields: what a container gets from fields of its pod. Each case also runs without the field, and its check has to fail then.
func TestHonouredFields(t *testing.T) {
	r := newRig(t)
	in := func(kind client.Target) client.Target { kind.Namespace = "default"; return kind }
	r.create(in(client.Target{Resource: client.Secrets}), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"key": []byte("hush")}})
	r.create(in(client.Target{Resource: client.Services}), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	})
	env := func(source corev1.EnvVarSource) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { s.Containers[0].Env = []corev1.EnvVar{{Name: "V", ValueFrom: &source}} }
	}
	hasEnv := func(prefix string) func(*corev1.Pod, ContainerSpec) bool {
		return func(_ *corev1.Pod, s ContainerSpec) bool {
			return slices.ContainsFunc(s.Env, func(e string) bool { return strings.HasPrefix(e, prefix) })
		}
	}
	mount := func(change func(*corev1.VolumeMount)) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			m := corev1.VolumeMount{Name: "v", MountPath: "/v"}
			change(&m)
			s.Containers[0].VolumeMounts = []corev1.VolumeMount{m}
			s.Containers[0].Env = []corev1.EnvVar{{Name: "SUB", Value: "sub"}}
		}
	}
	hasMount := func(check func(Mount) bool) func(*corev1.Pod, ContainerSpec) bool {
		return func(_ *corev1.Pod, s ContainerSpec) bool {
			return slices.ContainsFunc(s.Mounts, func(m Mount) bool { return m.Container == "/v" && check(m) })
		}
	}
	container := func(sc corev1.SecurityContext) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { s.Containers[0].SecurityContext = &sc }
	}
	pod := func(sc corev1.PodSecurityContext) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { s.SecurityContext = &sc }
	}
	security := func(check func(Security) bool) func(*corev1.Pod, ContainerSpec) bool {
		return func(_ *corev1.Pod, s ContainerSpec) bool { return check(s.Security) }
	}
	refused := func(p *corev1.Pod, _ ContainerSpec) bool {
		w := p.Status.ContainerStatuses[0].State.Waiting
		return w != nil && w.Reason == "CreateContainerConfigError"
	}
	const uid = 54321
	r.checkHonoured([]honoured{
		{field: "secretKeyRef", set: env(corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "key",
		}}), holds: hasEnv("V=hush")},
		{field: "resourceFieldRef", set: func(s *corev1.PodSpec) {
			env(corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"}})(s)
			s.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
		}, remove: func(s *corev1.PodSpec) { s.Containers[0].Env = nil }, holds: hasEnv("V=2")},
		{field: "enableServiceLinks", set: func(s *corev1.PodSpec) { s.EnableServiceLinks = new(false) }, holds: func(p *corev1.Pod, s ContainerSpec) bool {
			return !hasEnv("WEB_SERVICE_HOST=")(p, s)
		}},
		{field: "subPath", set: mount(func(m *corev1.VolumeMount) { m.SubPath = "sub" }), remove: mount(func(*corev1.VolumeMount) {}),
			holds: hasMount(func(m Mount) bool { return filepath.Base(m.Host) == "sub" })},
		{field: "subPathExpr", set: mount(func(m *corev1.VolumeMount) { m.SubPathExpr = "$(SUB)" }), remove: mount(func(*corev1.VolumeMount) {}),
			holds: hasMount(func(m Mount) bool { return filepath.Base(m.Host) == "sub" })},
		{field: "readOnly", set: mount(func(m *corev1.VolumeMount) { m.ReadOnly = true }), remove: mount(func(*corev1.VolumeMount) {}),
			holds: hasMount(func(m Mount) bool { return m.ReadOnly })},
		{field: "projected secret", set: func(s *corev1.PodSpec) {
			mount(func(*corev1.VolumeMount) {})(s)
			s.Volumes[0].VolumeSource = corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}},
			}}}
		}, remove: func(s *corev1.PodSpec) { s.Volumes[0].Projected.Sources = nil }, holds: hasMount(func(m Mount) bool {
			b, err := os.ReadFile(filepath.Join(m.Host, "key"))
			return err == nil && string(b) == "hush"
		})},
		{field: "hostNetwork", set: func(s *corev1.PodSpec) { s.HostNetwork = true }, holds: func(p *corev1.Pod, _ ContainerSpec) bool { return p.Status.PodIP == "127.0.0.1" }},
		{field: "stdin", set: func(s *corev1.PodSpec) { s.Containers[0].Stdin = true }, holds: func(_ *corev1.Pod, s ContainerSpec) bool { return s.Stdin }},
		{field: "stdinOnce", set: func(s *corev1.PodSpec) { s.Containers[0].StdinOnce = true }, holds: func(_ *corev1.Pod, s ContainerSpec) bool { return s.StdinOnce }},
		{field: "tty", set: func(s *corev1.PodSpec) { s.Containers[0].TTY = true }, holds: func(_ *corev1.Pod, s ContainerSpec) bool { return s.TTY }},
		{field: "runAsUser of the pod", set: pod(corev1.PodSecurityContext{RunAsUser: new(int64(uid))}),
			holds: func(_ *corev1.Pod, s ContainerSpec) bool { return s.User != nil && *s.User == uid }},
		{field: "runAsUser", set: container(corev1.SecurityContext{RunAsUser: new(int64(uid))}),
			holds: func(_ *corev1.Pod, s ContainerSpec) bool { return s.User != nil && *s.User == uid }},
		{field: "runAsGroup", set: container(corev1.SecurityContext{RunAsGroup: new(int64(uid))}),
			holds: func(_ *corev1.Pod, s ContainerSpec) bool { return s.Group != nil && *s.Group == uid }},
		{field: "runAsNonRoot of the pod", set: pod(corev1.PodSecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(0))}),
			remove: pod(corev1.PodSecurityContext{RunAsUser: new(int64(0))}), holds: refused},
		{field: "runAsNonRoot", set: container(corev1.SecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(0))}),
			remove: container(corev1.SecurityContext{RunAsUser: new(int64(0))}), holds: refused},
		{field: "fsGroup", set: pod(corev1.PodSecurityContext{FSGroup: new(int64(uid))}), holds: security(func(s Security) bool { return slices.Contains(s.Groups, uid) })},
		{field: "supplementalGroups", set: pod(corev1.PodSecurityContext{SupplementalGroups: []int64{uid}}),
			holds: security(func(s Security) bool { return slices.Contains(s.Groups, uid) })},
		{field: "seccompProfile of the pod", set: pod(corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}),
			holds: security(func(s Security) bool { return s.Seccomp == corev1.SeccompProfileTypeRuntimeDefault })},
		{field: "seccompProfile", set: container(corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}),
			holds: security(func(s Security) bool { return s.Seccomp == corev1.SeccompProfileTypeRuntimeDefault })},
		{field: "capabilities", set: container(corev1.SecurityContext{Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}),
			holds: security(func(s Security) bool { return slices.Equal(s.DropCapabilities, []corev1.Capability{"ALL"}) })},
		{field: "privileged", set: container(corev1.SecurityContext{Privileged: new(true)}), holds: security(func(s Security) bool { return s.Privileged })},
		{field: "readOnlyRootFilesystem", set: container(corev1.SecurityContext{ReadOnlyRootFilesystem: new(true)}),
			holds: security(func(s Security) bool { return s.ReadOnlyRoot })},
		{field: "allowPrivilegeEscalation", set: container(corev1.SecurityContext{AllowPrivilegeEscalation: new(false)}),
			holds: security(func(s Security) bool { return s.NoNewPrivileges })},
	})
}

// honoured is a field of a pod, and what its container gets from it.
type honoured struct {
	field  string
	set    func(*corev1.PodSpec) // the field, and what it needs
	remove func(*corev1.PodSpec) // the field; nil: all that set has set
	holds  func(*corev1.Pod, ContainerSpec) bool
}

// checkHonoured runs a pod with each field and one without it.
func (r *rig) checkHonoured(tests []honoured) {
	r.t.Helper()
	for _, test := range tests {
		for _, with := range []bool{true, false} {
			spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}
			if with || test.remove != nil {
				test.set(&spec)
			}
			if !with && test.remove != nil {
				test.remove(&spec)
			}
			name := "with"
			if !with {
				name = "without"
			}
			made := r.pod(name, spec)
			var last *corev1.Pod
			r.until(test.field, func() string {
				last = r.get(name)
				if got := summary(last); got != "Running c:running+started+ready" && got != "Pending c:CreateContainerConfigError" {
					return fmt.Sprintf("got %q", got)
				}
				return ""
			})
			got, _ := r.runtime.spec(made.UID, "c")
			if test.holds(last, got) != with {
				r.t.Errorf("%s the field %s: got %+v, %s", name, test.field, got, summary(last))
			}
			r.delete(name)
			r.until("the end of the pod", func() string { return strings.TrimPrefix(summary(r.get(name)), "none") })
		}
	}
}
