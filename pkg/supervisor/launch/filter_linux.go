//go:build linux && (amd64 || arm64)

package launch

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// Offsets in the kernel's struct seccomp_data, little-endian.
const (
	offNumber = 0
	offArch   = 4
	offArg2   = 16 + 2*8
)

// filter forbids new privileges and installs the filter f, whose notify descriptor it sends to the supervisor. If the machine
// refuses the filter, it reports the reason instead of failing: the container then shares the host's addresses.
//
// It returns once the supervisor answers the calls, so that no program runs under a filter whose descriptor was lost.
func filter(conn *wire.Conn, f wire.Filter) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	if f == wire.NoFilter {
		return nil
	}
	fd, err := install(instructions(f))
	if err != nil {
		return conn.Send(wire.Launched{Refused: err.Error()})
	}
	file := os.NewFile(uintptr(fd), "seccomp")
	err = conn.Send(wire.Launched{Filtered: true}, file)
	file.Close()
	if err != nil {
		return err
	}
	var ok wire.Received
	if _, err := conn.Receive(&ok); err != nil {
		return fmt.Errorf("the supervisor has ended: %w", err)
	}
	return nil
}

func install(prog []unix.SockFilter) (int, error) {
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	const listen = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
	// Only SIGKILL may interrupt a call: another signal could interrupt a bind that the supervisor has already carried out.
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		listen|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, uintptr(unsafe.Pointer(&fprog)))
	if errors.Is(errno, unix.EINVAL) {
		fd, _, errno = unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, listen, uintptr(unsafe.Pointer(&fprog)))
	}
	if errno != 0 {
		return -1, os.NewSyscallError("seccomp", errno)
	}
	return int(fd), nil
}

// instructions returns the filter program. The program can't read a socket address, only its length. By the length, the
// filter passes most calls with addresses of unix sockets to the kernel at once, without the supervisor. Calls with the
// lengths of internet addresses, or of sockaddr_storage, go to the supervisor.
func instructions(f wire.Filter) []unix.SockFilter {
	load := func(off uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: off}
	}
	equal := func(k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	ret := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	if f == wire.SessionFilter {
		return []unix.SockFilter{
			load(offArch), equal(arch, 0, 3),
			load(offNumber), equal(unix.SYS_SETSID, 0, 1),
			ret(unix.SECCOMP_RET_USER_NOTIF), ret(unix.SECCOMP_RET_ALLOW),
		}
	}
	return []unix.SockFilter{
		load(offArch), equal(arch, 0, 9), // 0, 1
		load(offNumber),                       // 2
		equal(unix.SYS_SETSID, 6, 0),          // 3: to 10
		equal(unix.SYS_BIND, 1, 0),            // 4: to 6
		equal(unix.SYS_CONNECT, 0, 5),         // 5: to 6 or 11
		load(offArg2),                         // 6
		equal(unix.SizeofSockaddrInet4, 2, 0), // 7: to 10
		equal(unix.SizeofSockaddrInet6, 1, 0), // 8: to 10
		equal(sizeofStorage, 0, 1),            // 9: to 10 or 11
		ret(unix.SECCOMP_RET_USER_NOTIF),      // 10
		ret(unix.SECCOMP_RET_ALLOW),           // 11
	}
}

// sizeofStorage is the size of struct sockaddr_storage, which some programs pass for every family.
const sizeofStorage = 128
