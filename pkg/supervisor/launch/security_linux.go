package launch

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// noNewPrivileges makes programs run without the privileges that their files would give them. Processes without CAP_SYS_ADMIN can't
// install a filter otherwise.
func noNewPrivileges(s wire.Security) error {
	if !s.NoNewPrivileges && has(unix.CAP_SYS_ADMIN) {
		return nil
	}
	return os.NewSyscallError("prctl PR_SET_NO_NEW_PRIVS", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
}

// confine drops the capabilities that this process has only to prepare its namespaces, and those that the container can't have. A
// process that may not drop the latter has none, and can get none: it has no CAP_SYS_ADMIN either.
func confine(s wire.Security) error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
		return os.NewSyscallError("prctl PR_CAP_AMBIENT", err)
	}
	if s.Capabilities == nil || !has(unix.CAP_SETPCAP) {
		return nil
	}
	for c := range 64 {
		if *s.Capabilities&(1<<c) != 0 {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			return nil // the kernel has no further ones
		}
		if err != nil {
			return os.NewSyscallError("prctl PR_CAPBSET_DROP", err)
		}
	}
	return nil
}

// has reports whether this thread has a capability.
func has(capability int) bool {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&head, &data[0]); err != nil {
		return false
	}
	return data[capability/32].Effective&(1<<(capability%32)) != 0
}
