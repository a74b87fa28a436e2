package supervisor

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// namespaces is how containers get a mount namespace.
type namespaces int

const (
	noNamespaces   namespaces = iota
	withPrivileges            // with the capability CAP_SYS_ADMIN
	withUserNamespace
)

// possibleNamespaces are worth a try, the best first.
func possibleNamespaces() []namespaces {
	if capable(os.Getpid(), unix.CAP_SYS_ADMIN) {
		return []namespaces{withPrivileges}
	}
	return []namespaces{withUserNamespace}
}

// start sets attr so that a process of a container starts in namespaces of its own, if the container needs any.
func (n namespaces) start(attr *syscall.SysProcAttr, spec *wire.Spec) {
	if n == noNamespaces || !spec.Namespaced() {
		return
	}
	attr.Cloneflags = unix.CLONE_NEWNS
	if spec.Hostname != "" {
		attr.Cloneflags |= unix.CLONE_NEWUTS
	}
	if n == withUserNamespace {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = mapping(os.Getuid(), spec.UID)
		attr.GidMappings = mapping(os.Getgid(), spec.GID)
		// Only root would keep capabilities in exec. The launch drops these.
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP}
	}
}

// mapping makes the container see its processes under the ID want instead of this process's own. root keeps all IDs.
func mapping(own int, want *int64) []syscall.SysProcIDMap {
	if os.Getuid() == 0 {
		const all = 1<<32 - 1
		return []syscall.SysProcIDMap{{Size: all}}
	}
	inside := own
	if want != nil {
		inside = int(*want)
	}
	return []syscall.SysProcIDMap{{ContainerID: inside, HostID: own, Size: 1}}
}
