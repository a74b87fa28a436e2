package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// probeTime bounds how long Features and Warnings wait for the supervisor's probe.
const probeTime = 5 * time.Second

// Features implements kubelet.Describer.
func (r *Runtime) Features() []kubelet.Feature {
	refused := r.host.sharedAddressReason()
	addresses := kubelet.Feature{Name: "PodAddresses", OK: refused == "", Message: "each pod has its own loopback address"}
	if refused != "" {
		addresses.Message = "pods share 127.0.0.1 and its ports: " + refused
	}
	users := kubelet.Feature{Name: "Users", OK: os.Getuid() == 0, Message: "containers may run as any user"}
	if !users.OK {
		users.Message = fmt.Sprintf("containers run as user %d", os.Getuid())
	}
	all := []kubelet.Feature{
		addresses, r.host.memoryLimits(), users, r.host.keysProtected(),
		r.host.cpuLimits(),
		r.host.fileSystems(),
	}
	if r.host.podPIDs > 0 {
		all = append(all, r.host.pidLimits())
	}
	return all
}

// memoryLimits describes how memory limits are enforced. Call it once the supervisor has probed the machine.
func (h *Host) memoryLimits() kubelet.Feature {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := kubelet.Feature{Name: "MemoryLimits", OK: runtime.GOOS == "linux",
		Message: "memory limits are watched: a container above its limit is killed within a second or so"}
	switch {
	case !f.OK:
		f.Message = "memory limits are not looked at on " + runtime.GOOS
	case h.memoryEnforced:
		f.Message = "memory limits are enforced by cgroups"
	}
	return f
}

// cpuLimits describes whether CPU limits are enforced. Call it once the supervisor has probed the machine.
func (h *Host) cpuLimits() kubelet.Feature {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cpuEnforced {
		return kubelet.Feature{Name: "CPULimits", OK: true, Message: "CPU limits are enforced by cgroups"}
	}
	return kubelet.Feature{Name: "CPULimits", Message: "CPU limits are not enforced: this daemon can't create cgroups with a CPU controller"}
}

// pidLimits describes whether the limit of a pod's processes is enforced. Call it once the supervisor has probed the machine.
func (h *Host) pidLimits() kubelet.Feature {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pidsEnforced {
		return kubelet.Feature{Name: "PIDLimits", OK: true, Message: fmt.Sprintf("the limit of %d processes of a pod is enforced by cgroups", h.podPIDs)}
	}
	return kubelet.Feature{Name: "PIDLimits",
		Message: fmt.Sprintf("the limit of %d processes of a pod is not enforced: this daemon can't create cgroups with a pids controller", h.podPIDs)}
}

// keysProtected returns the feature KeysProtected with OK false: containers can run as the daemon's user, and read the keys of the
// cluster.
func (h *Host) keysProtected() kubelet.Feature {
	f := kubelet.Feature{Name: "KeysProtected", Reason: "PodsRunAsDaemonUser"}
	switch {
	case h.podUsers:
		f.Reason = "PodsMayRunAsRoot"
		f.Message = "containers that are privileged or have runAsUser: 0 run as root, and can read the daemon's files, the cluster's keys among them; " +
			"others run as users of their own"
	case os.Getuid() == 0:
		f.Message = "containers without runAsUser run as root, the daemon's user, and can read its files, the cluster's keys among them"
	default:
		f.Message = fmt.Sprintf("containers run as user %d, the daemon's own, and can read its files, the cluster's keys among them", os.Getuid())
	}
	return f
}

// sharedAddressReason returns why pods share one address, or "" if each has its own.
func (h *Host) sharedAddressReason() string {
	if h.pool == nil {
		return "the daemon has no range of addresses"
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	timer := h.clock.AfterFunc(probeTime, cancel)
	defer timer.Stop()
	if err := h.await(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err.Error()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refused
}

// hasNamespaces reports whether containers have mount namespaces.
func (h *Host) hasNamespaces() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.namespaces
}

// fileSystems describes where containers find their volumes. Call it once the supervisor has probed the machine.
func (h *Host) fileSystems() kubelet.Feature {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.namespaces {
		return kubelet.Feature{Name: "FileSystems", OK: true,
			Message: "containers see the file system of this machine, with their volumes at their paths"}
	}
	message := "containers see the file system of this machine; volumes are below $" + wire.RootVariable
	if h.namespacesRefused != "" {
		message += ": mount namespaces are not possible: " + h.namespacesRefused
	}
	return kubelet.Feature{Name: "FileSystems", Message: message}
}

// Unhonoured implements kubelet.Describer.
func (r *Runtime) Unhonoured(spec kubelet.ContainerSpec) []string {
	var all []string
	if !r.host.hasNamespaces() {
		all = unhonouredMounts(spec.Mounts)
	}
	all = append(all, r.host.unhonouredSecurity(&spec)...)
	if spec.Limits.MilliCPU > 0 && !r.host.cpuLimits().OK {
		all = append(all, "the CPU limit is not enforced")
	}
	if r.host.podPIDs > 0 && !r.host.pidLimits().OK {
		all = append(all, "the limit of the pod's processes is not enforced")
	}
	if spec.Limits.Memory > 0 && runtime.GOOS != "linux" {
		all = append(all, "the memory limit is not enforced")
	}
	return all
}

// unhonouredMounts returns what a container without a mount namespace lacks.
func unhonouredMounts(mounts []kubelet.Mount) []string {
	var all, moved, writable []string
	for _, m := range mounts {
		if filepath.Clean(m.Host) != filepath.Clean(m.Container) {
			moved = append(moved, m.Container)
		}
		if m.ReadOnly {
			writable = append(writable, m.Container)
		}
	}
	if len(moved) > 0 {
		all = append(all, fmt.Sprintf("volumes can't be shown at %s: they are below $%s, at the same path",
			strings.Join(moved, ", "), wire.RootVariable))
	}
	if hidden := nestedMounts(mounts); len(hidden) > 0 {
		all = append(all, "volumes are not shown inside other volumes: "+strings.Join(hidden, ", "))
	}
	if len(writable) > 0 {
		all = append(all, "volumes are not kept from being written: "+strings.Join(writable, ", "))
	}
	return all
}
