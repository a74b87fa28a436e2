package process

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/images"
	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// Warnings implements kubelet.Warner. Before the first probe of the machine it waits for the probe, at most for probeTime; without a
// result there are no warnings.
func (h *Host) Warnings(ctx context.Context, spec *corev1.PodSpec, program kubelet.Program) []string {
	m, ok := h.machine(ctx)
	if !ok {
		return nil
	}
	return m.warnings(spec, program)
}

// warnings returns the fields of a pod that the machine can't give.
func (m machine) warnings(spec *corev1.PodSpec, program kubelet.Program) []string {
	w := fieldWarner{machine: m, spec: spec, hostPaths: map[string]string{}}
	for _, v := range spec.Volumes {
		if v.HostPath != nil {
			w.hostPaths[v.Name] = v.HostPath.Path
		}
	}
	w.pod()
	each := func(list string, i int, c *corev1.Container) {
		command, env := program(c)
		w.container(fmt.Sprintf("spec.%s[%d]", list, i), c, command, env)
	}
	for i := range spec.InitContainers {
		each("initContainers", i, &spec.InitContainers[i])
	}
	for i := range spec.Containers {
		each("containers", i, &spec.Containers[i])
	}
	for i := range spec.EphemeralContainers {
		each("ephemeralContainers", i, (*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	return w.out
}

// machine is what this machine gives to containers.
type machine struct {
	namespaces   bool // mount namespaces
	bestEffort   bool // containers start without the user that they can't have
	bestMounts   bool // containers start with files of the machine in place of a volume
	uid, gid     int  // of the daemon
	capabilities uint64
	exists       func(path string) bool // reports whether the machine has the file or directory
}

// machine returns what the supervisor's probe has found. ok is false without a result.
func (h *Host) machine(ctx context.Context) (m machine, ok bool) {
	h.mu.Lock()
	probed := h.probed
	h.mu.Unlock()
	if !probed {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		timer := h.clock.AfterFunc(probeTime, cancel)
		defer timer.Stop()
		if h.await(ctx) != nil {
			return machine{}, false
		}
	}
	return machine{
		namespaces: h.hasNamespaces(), bestEffort: h.bestEffort, bestMounts: h.bestMounts, uid: os.Getuid(), gid: os.Getgid(), capabilities: ownCapabilities(),
		exists: func(path string) bool {
			_, err := os.Lstat(path)
			return err == nil
		},
	}, true
}

// fieldWarner collects the fields of a pod that a machine can't give.
type fieldWarner struct {
	machine   machine
	spec      *corev1.PodSpec
	hostPaths map[string]string // of the volumes that are paths of the machine, by name
	out       []string
}

// maxWarnings bounds the warnings about a pod.
const maxWarnings = 1000

func (w *fieldWarner) warn(path, format string, args ...any) {
	if len(w.out) == maxWarnings {
		return
	}
	w.out = append(w.out, path+": "+fmt.Sprintf(format, args...))
}

const noNamespace = "this machine gives no mount namespace"

// pod warns about the fields of the pod itself.
func (w *fieldWarner) pod() {
	if s := w.spec.SecurityContext; s != nil {
		w.user("spec.securityContext", s.RunAsUser, s.RunAsGroup, slices.Concat(w.spec.InitContainers, w.spec.Containers)...)
		w.seccomp("spec.securityContext", s.SeccompProfile)
	}
	if len(w.spec.HostAliases) > 0 && !w.machine.namespaces {
		w.warn("spec.hostAliases", "%s: containers read the machine's hosts file", noNamespace)
	}
}

// user warns about a user or a group that containers can't have without a mount namespace: the daemon of an ordinary user can only give its own.
// A daemon that runs as root can give any user, but no other user than root can enter the directories of the volumes.
func (w *fieldWarner) user(path string, uid, gid *int64, containers ...corev1.Container) {
	switch {
	case w.machine.namespaces:
		return
	case w.machine.uid == 0:
		if differs(uid, 0) && slices.ContainsFunc(containers, func(c corev1.Container) bool { return len(c.VolumeMounts) > 0 }) {
			w.warn(path+".runAsUser", "%s: volumes are in the daemon's own directory, which user %d can't enter", noNamespace, *uid)
		}
		return
	}
	one := func(field, what string, want *int64, own int) {
		switch {
		case !differs(want, own):
		case w.machine.bestEffort:
			w.warn(path+"."+field, "only root can give it without a mount namespace: the containers run as the daemon's %s, %d", what, own)
		default:
			w.warn(path+"."+field, "only root can give it without a mount namespace: the containers do not start, unless the config has "+
				"kubelet.securityContext: besteffort; they run as the daemon's %s, %d, then", what, own)
		}
	}
	one("runAsUser", "user", uid, w.machine.uid)
	one("runAsGroup", "group", gid, w.machine.gid)
}

func (w *fieldWarner) seccomp(path string, p *corev1.SeccompProfile) {
	if p != nil && p.Type == corev1.SeccompProfileTypeLocalhost {
		w.warn(path+".seccompProfile", "there are no profiles to load: the profile is that of RuntimeDefault")
	}
}

// container warns about the fields of a container, which runs command with the variables env.
func (w *fieldWarner) container(path string, c *corev1.Container, command, env []string) {
	if s := c.SecurityContext; s != nil {
		w.security(path+".securityContext", s, c)
	}
	if w.machine.namespaces {
		return
	}
	w.volumes(path, c, command, env)
	if at := c.TerminationMessagePath; at != "" && at != corev1.TerminationMessagePathDefault && !findsVolumes(command, env) {
		w.mountPath(path+".terminationMessagePath", kubelet.Mount{Container: at})
	}
}

// volumes warns about the mounts of a container without a mount namespace.
func (w *fieldWarner) volumes(path string, c *corev1.Container, command, env []string) {
	mounts := w.mounts(c)
	paths := map[string]bool{}
	for _, m := range mounts {
		paths[filepath.Clean("/"+m.Container)] = true
	}
	for i, m := range mounts {
		at := fmt.Sprintf("%s.volumeMounts[%d]", path, i)
		outer := outerPath(paths, m.Container)
		switch {
		case readsNoFiles(command) || m.Container == kubelet.ServiceAccountPath:
			continue
		case outer != "":
			w.warn(at+".mountPath", "%s: the volume is not shown inside the one at %s", noNamespace, outer)
		case !findsVolumes(command, env):
			w.mountPath(at+".mountPath", m)
		}
		if m.ReadOnly {
			w.warn(at+".readOnly", "%s: the container can write to the volume", noNamespace)
		}
	}
}

// maxPath is the length of the longest path of a system.
const maxPath = 4096

// outerPath returns the innermost of paths that has path inside, or "". A path beyond maxPath can't be mounted.
func outerPath(paths map[string]bool, path string) string {
	if len(path) > maxPath {
		return ""
	}
	for at := filepath.Clean("/" + path); at != "/"; {
		at = filepath.Dir(at)
		if paths[at] {
			return at
		}
	}
	return ""
}

// mountPath warns about a mount that the container does not find at its path.
func (w *fieldWarner) mountPath(path string, m kubelet.Mount) {
	switch {
	case m.Host == filepath.Clean(m.Container), w.machine.bestMounts && w.machine.exists(m.Container):
	case w.machine.exists(m.Container):
		w.warn(path, "%s has files of this machine, which can't be hidden without a mount namespace: the container does not start, "+
			"unless its command or env has $%s%s instead", m.Container, wire.RootVariable, m.Container)
	default:
		w.warn(path, "%s: %s is at $%s%s", noNamespace, m.Container, wire.RootVariable, m.Container)
	}
}

// mounts returns the mounts of a container. Of the sources only those that are paths of the machine are known.
func (w *fieldWarner) mounts(c *corev1.Container) []kubelet.Mount {
	var all []kubelet.Mount
	for _, m := range c.VolumeMounts {
		host := ""
		if path, ok := w.hostPaths[m.Name]; ok {
			host = filepath.Join(path, m.SubPath)
		}
		all = append(all, kubelet.Mount{Host: host, Container: m.MountPath, ReadOnly: m.ReadOnly})
	}
	return all
}

// security warns about the fields of a container's security context.
func (w *fieldWarner) security(path string, s *corev1.SecurityContext, c *corev1.Container) {
	w.user(path, s.RunAsUser, s.RunAsGroup, *c)
	w.seccomp(path, s.SeccompProfile)
	if s.Privileged != nil && *s.Privileged && w.machine.uid != 0 {
		w.warn(path+".privileged", "the daemon does not run as root: the container has no more privileges than others")
	}
	if s.ReadOnlyRootFilesystem != nil && *s.ReadOnlyRootFilesystem && !w.machine.namespaces {
		w.warn(path+".readOnlyRootFilesystem", "%s: the container can write to the files that the daemon's user can write to", noNamespace)
	}
	if s.Capabilities != nil && (s.Privileged == nil || !*s.Privileged) {
		add := kubelet.Security{AddCapabilities: s.Capabilities.Add, DropCapabilities: s.Capabilities.Drop}
		if lacking := lackingCapabilities(&add, w.machine.capabilities); len(lacking) > 0 {
			w.warn(path+".capabilities.add", "the daemon has no capability %s to give", strings.Join(lacking, ", "))
		}
	}
}

// readsNoFiles reports whether a command is a built-in program, which reads no files of volumes by their paths.
func readsNoFiles(command []string) bool {
	return len(command) > 0 && strings.HasPrefix(command[0], images.Prefix)
}

// findsVolumes reports whether a container names the root of its mounts, where it finds them without a mount namespace.
func findsVolumes(command, env []string) bool { return namesRoot(command) || namesRoot(env) }
