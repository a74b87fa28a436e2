package process

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/images"
	"github.com/minikctl/minikctl/pkg/kubelet"
)

// TestWarnings: each field that the machine can't give has one warning behind its path.
func TestWarnings(t *testing.T) {
	const all = 1<<41 - 1
	var (
		root     = machine{namespaces: true, capabilities: all}
		ordinary = machine{namespaces: true, uid: 1000, gid: 1000}
		noRoot   = machine{capabilities: all}
		nothing  = machine{uid: 1000, gid: 1000}
		best     = machine{uid: 1000, gid: 1000, bestEffort: true}
		id       = func(n int64) *int64 { return &n }
		yes      = true
	)
	const (
		hidden = `/data has files of this machine, which can't be hidden without a mount namespace: the container does not start, ` +
			`unless its command or env has $MINIKCTL_ROOT/data instead`
		strict = "only root can give it without a mount namespace: the containers do not start, unless the config has " +
			"kubelet.securityContext: besteffort; they run as the daemon's "
	)
	mounts := func(list ...corev1.VolumeMount) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { s.Containers[0].VolumeMounts = list }
	}
	security := func(sc corev1.SecurityContext) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { s.Containers[0].SecurityContext = &sc }
	}
	with := func(list ...func(*corev1.PodSpec)) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			for _, f := range list {
				f(s)
			}
		}
	}
	runs := func(command ...string) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { s.Containers[0].Command = command }
	}
	data := corev1.VolumeMount{Name: "v", MountPath: "/data"}
	for name, c := range map[string]struct {
		on   machine
		pod  func(*corev1.PodSpec)
		want []string
	}{
		"a mount over files of the machine":           {noRoot, mounts(data), []string{"spec.containers[0].volumeMounts[0].mountPath: " + hidden}},
		"files of the machine that the config allows": {machine{bestMounts: true}, mounts(data), nil},
		"mounts at their paths":                       {root, mounts(data, corev1.VolumeMount{Name: "v", MountPath: "/data/in", ReadOnly: true}), nil},
		"another mount": {noRoot, mounts(corev1.VolumeMount{Name: "v", MountPath: "/new/path"}),
			[]string{"spec.containers[0].volumeMounts[0].mountPath: this machine gives no mount namespace: /new/path is at $MINIKCTL_ROOT/new/path"}},
		"an init container": {noRoot, func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{{Name: "i", VolumeMounts: []corev1.VolumeMount{{Name: "w", MountPath: "/other"}, data}}}
		}, []string{
			"spec.initContainers[0].volumeMounts[0].mountPath: this machine gives no mount namespace: /other is at $MINIKCTL_ROOT/other",
			"spec.initContainers[0].volumeMounts[1].mountPath: " + hidden,
		}},
		"an ephemeral container": {noRoot, func(s *corev1.PodSpec) {
			s.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{VolumeMounts: []corev1.VolumeMount{data}}}}
		}, []string{"spec.ephemeralContainers[0].volumeMounts[0].mountPath: " + hidden}},
		"the root in the command": {noRoot, with(mounts(data), runs("sh", "-c", "ls $MINIKCTL_ROOT/data")), nil},
		"the root in a variable": {noRoot, with(mounts(data), func(s *corev1.PodSpec) {
			s.Containers[0].Env = []corev1.EnvVar{{Name: "DATA", Value: "$(MINIKCTL_ROOT)/data"}}
		}), nil},
		"the root in the image's arguments": {noRoot, with(mounts(data), func(s *corev1.PodSpec) { s.Containers[0].Image = "mapped" }), nil},
		"a built-in program":                {noRoot, with(mounts(data), func(s *corev1.PodSpec) { s.Containers[0].Image = "minikctl.dev/web" }), nil},
		"the machine's own path":            {noRoot, mounts(corev1.VolumeMount{Name: "host", MountPath: "/data/sub", SubPath: "sub"}), nil},
		"the service account's token":       {noRoot, mounts(corev1.VolumeMount{Name: "v", MountPath: kubelet.ServiceAccountPath, ReadOnly: true}), nil},
		"read-only and nested": {noRoot, with(mounts(data, corev1.VolumeMount{Name: "w", MountPath: "/data/in", ReadOnly: true}), runs("ls", "$(MINIKCTL_ROOT)/data")),
			[]string{
				"spec.containers[0].volumeMounts[1].mountPath: this machine gives no mount namespace: the volume is not shown inside the one at /data",
				"spec.containers[0].volumeMounts[1].readOnly: this machine gives no mount namespace: the container can write to the volume",
			}},
		"a termination message": {noRoot, func(s *corev1.PodSpec) { s.Containers[0].TerminationMessagePath = "/data" },
			[]string{"spec.containers[0].terminationMessagePath: " + hidden}},
		"the usual termination message": {noRoot, func(s *corev1.PodSpec) { s.Containers[0].TerminationMessagePath = "/dev/termination-log" }, nil},
		"hosts": {noRoot, func(s *corev1.PodSpec) { s.HostAliases = []corev1.HostAlias{{IP: "127.0.0.9"}} },
			[]string{"spec.hostAliases: this machine gives no mount namespace: containers read the machine's hosts file"}},
		"a pod's user": {nothing, func(s *corev1.PodSpec) {
			s.SecurityContext = &corev1.PodSecurityContext{RunAsUser: id(1), RunAsGroup: id(2)}
		}, []string{
			"spec.securityContext.runAsUser: " + strict + "user, 1000, then",
			"spec.securityContext.runAsGroup: " + strict + "group, 1000, then",
		}},
		"a user with best effort": {best, security(corev1.SecurityContext{RunAsUser: id(1), RunAsGroup: id(1000)}),
			[]string{"spec.containers[0].securityContext.runAsUser: only root can give it without a mount namespace: the containers run as the daemon's user, 1000"}},
		"a user that can't enter volumes": {noRoot, with(mounts(data), runs("ls", "$(MINIKCTL_ROOT)/data"), security(corev1.SecurityContext{RunAsUser: id(1)})),
			[]string{"spec.containers[0].securityContext.runAsUser: this machine gives no mount namespace: volumes are in the daemon's own directory, which user 1 can't enter"}},
		"a user of root":                  {noRoot, security(corev1.SecurityContext{RunAsUser: id(1)}), nil},
		"a user in a namespace":           {ordinary, security(corev1.SecurityContext{RunAsUser: id(1)}), nil},
		"the daemon's own user":           {nothing, security(corev1.SecurityContext{RunAsUser: id(1000)}), nil},
		"the usual capabilities":          {ordinary, security(corev1.SecurityContext{Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}), nil},
		"a privileged container":          {ordinary, security(corev1.SecurityContext{Privileged: &yes}), []string{"spec.containers[0].securityContext.privileged: the daemon does not run as root: the container has no more privileges than others"}},
		"a privileged container of root":  {root, security(corev1.SecurityContext{Privileged: &yes}), nil},
		"a capability of root":            {root, security(corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN"}}}), nil},
		"a read-only root in a namespace": {ordinary, security(corev1.SecurityContext{ReadOnlyRootFilesystem: &yes}), nil},
		"capabilities of an ordinary user": {ordinary, security(corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN", "CAP_SYS_TIME"}}}),
			[]string{"spec.containers[0].securityContext.capabilities.add: the daemon has no capability NET_ADMIN, SYS_TIME to give"}},
		"a read-only root": {noRoot, security(corev1.SecurityContext{ReadOnlyRootFilesystem: &yes}),
			[]string{"spec.containers[0].securityContext.readOnlyRootFilesystem: this machine gives no mount namespace: the container can write to the files that the daemon's user can write to"}},
		"a local seccomp profile": {root, security(corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost}}),
			[]string{"spec.containers[0].securityContext.seccompProfile: there are no profiles to load: the profile is that of RuntimeDefault"}},
	} {
		t.Run(name, func(t *testing.T) {
			store, err := images.New(images.Config{Map: map[string]images.Source{"mapped": {Entrypoint: []string{"server"}, Args: []string{"--data=$(MINIKCTL_ROOT)/data"}}}})
			if err != nil {
				t.Fatal(err)
			}
			spec := corev1.PodSpec{
				Volumes: []corev1.Volume{
					{Name: "v"}, {Name: "w"},
					{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}}},
				},
				Containers: []corev1.Container{{Name: "c", Image: "any"}},
			}
			c.pod(&spec)
			c.on.exists = func(path string) bool { return path == "/data" || path == "/data/sub" }
			if got := c.on.warnings(&spec, kubelet.ProgramsOf(store)); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// TestWarningsBound: the warnings about a pod are bounded, and so is the work for them.
func TestWarningsBound(t *testing.T) {
	checks := 0
	m := machine{exists: func(string) bool { checks++; return false }}
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}
	for i := range 30_000 {
		spec.Containers[0].VolumeMounts = append(spec.Containers[0].VolumeMounts, corev1.VolumeMount{MountPath: fmt.Sprint("/m/", i), ReadOnly: true})
	}
	program := func(*corev1.Container) ([]string, []string) { return nil, nil }
	if got := m.warnings(&spec, program); len(got) != maxWarnings || checks > len(spec.Containers[0].VolumeMounts) {
		t.Errorf("%d warnings after %d looks at files", len(got), checks)
	}
}
