package process

import (
	"fmt"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// capabilities are the names of Linux's capabilities, by their number.
var capabilities = []string{
	"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP", "LINUX_IMMUTABLE",
	"NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT",
	"SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE",
	"AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ",
	"PERFMON", "BPF", "CHECKPOINT_RESTORE",
}

// defaultCapabilities are those that container runtimes give to containers.
var defaultCapabilities = []corev1.Capability{
	"CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP", "NET_BIND_SERVICE",
	"SYS_CHROOT", "KILL", "AUDIT_WRITE",
}

// all is the name of every capability in a security context.
const all = "ALL"

// capabilitySet returns the bit of each capability that a container has, and the names in add that Linux does not have.
func capabilitySet(s *kubelet.Security) (set uint64, unknown []string) {
	change := func(names []corev1.Capability, do func(bits uint64)) {
		for _, name := range names {
			bits, ok := capabilityBits(name)
			if !ok {
				unknown = append(unknown, string(name))
			}
			do(bits)
		}
	}
	add := func(bits uint64) { set |= bits }
	drop := func(bits uint64) { set &^= bits }
	// ALL counts before single ones: all but one, or none but one.
	everything := func(names []corev1.Capability, yes bool) (some []corev1.Capability) {
		for _, name := range names {
			if isAll(name) == yes {
				some = append(some, name)
			}
		}
		return some
	}
	change(defaultCapabilities, add)
	change(everything(s.AddCapabilities, true), add)
	change(everything(s.DropCapabilities, true), drop)
	change(everything(s.AddCapabilities, false), add)
	change(everything(s.DropCapabilities, false), drop)
	return set, unknown
}

func isAll(name corev1.Capability) bool { return strings.EqualFold(string(name), all) }

func capabilityBits(name corev1.Capability) (uint64, bool) {
	if isAll(name) {
		return 1<<len(capabilities) - 1, true
	}
	plain := strings.TrimPrefix(strings.ToUpper(string(name)), "CAP_")
	for i, c := range capabilities {
		if c == plain {
			return 1 << i, true
		}
	}
	return 0, false
}

// security returns what the processes of a container may do. A container with the privileges of the daemon keeps them.
func (h *Host) security(s *kubelet.Security) wire.Security {
	out := wire.Security{Groups: s.Groups, BestEffort: h.bestEffort, NoNewPrivileges: s.NoNewPrivileges, ReadOnlyRoot: s.ReadOnlyRoot}
	if os.Getuid() != 0 {
		out.Groups = nil // only root may set them; the pod has an Event about it
	}
	if s.Privileged {
		return out
	}
	set, _ := capabilitySet(s)
	out.Capabilities = &set
	out.MaskPaths = !s.UnmaskedProc
	out.DenyCalls = s.Seccomp == corev1.SeccompProfileTypeRuntimeDefault || s.Seccomp == corev1.SeccompProfileTypeLocalhost
	return out
}

// unhonouredSecurity returns what a container lacks of its security context on this machine.
func (h *Host) unhonouredSecurity(spec *kubelet.ContainerSpec) []string {
	s := &spec.Security
	var out []string
	if s.ReadOnlyRoot && !h.hasNamespaces() {
		out = append(out, "the root file system is not read-only")
	}
	if s.Seccomp == corev1.SeccompProfileTypeLocalhost {
		out = append(out, "the seccomp profile is that of RuntimeDefault")
	}
	var lacking []string
	if s.Privileged {
		_, lacking = capabilitySet(s)
	} else {
		lacking = lackingCapabilities(s, ownCapabilities())
	}
	if len(lacking) > 0 {
		out = append(out, "this machine has no capability "+strings.Join(lacking, ", "))
	}
	if h.bestEffort && os.Getuid() != 0 && !h.hasNamespaces() && (differs(spec.User, os.Getuid()) || differs(spec.Group, os.Getgid())) {
		out = append(out, fmt.Sprintf("the container runs as user %d and group %d, those of the daemon", os.Getuid(), os.Getgid()))
	}
	return out
}

// lackingCapabilities returns the capabilities that a security context adds by name and that are unknown or not in own.
func lackingCapabilities(s *kubelet.Security, own uint64) []string {
	set, out := capabilitySet(s)
	for i, name := range capabilities {
		if bit := uint64(1) << i; set&bit != 0 && own&bit == 0 && requests(s.AddCapabilities, name) {
			out = append(out, name)
		}
	}
	return out
}

func differs(want *int64, have int) bool { return want != nil && *want != int64(have) }

// requests reports whether names has a capability by its own name.
func requests(names []corev1.Capability, name string) bool {
	return slices.ContainsFunc(names, func(n corev1.Capability) bool {
		return strings.TrimPrefix(strings.ToUpper(string(n)), "CAP_") == name
	})
}
