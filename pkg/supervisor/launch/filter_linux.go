//go:build linux && (amd64 || arm64)

package launch

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// Offsets in the kernel's struct seccomp_data, little-endian.
const (
	offNumber = 0
	offArch   = 4
	offArg0   = 16
	offArg1   = offArg0 + 8
	offArg2   = offArg1 + 8
	offArg5   = offArg0 + 5*8
	highHalf  = 4
)

// filter installs the filter f, whose notify descriptor it sends to the supervisor. If the machine
// refuses the filter, it reports the reason instead of failing: the container then shares the host's addresses.
//
// It returns once the supervisor answers the calls, so that no program runs under a filter whose descriptor was lost.
func filter(conn *wire.Conn, f wire.Filter) error {
	if f == wire.NoFilter {
		return nil
	}
	fd, err := install(instructions(f))
	if err != nil {
		return conn.Send(wire.Launched{Refused: err.Error()})
	}
	file := os.NewFile(uintptr(fd), "seccomp")
	sent := make(chan error)
	go func() { sent <- conn.Send(wire.Launched{Filtered: true}, file) }() // by another thread: the filter may hold this one's sendmsg
	err = <-sent
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

func load(off uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: off}
}

// equal skips yes instructions if the loaded value is k, and otherwise no instructions.
func equal(k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: yes, Jf: no}
}

func ret(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }

// abi is a system call ABI. A process may use all ABIs of its kernel.
type abi struct {
	arch                       uint32   // as in struct seccomp_data
	setrlimit, prlimit, setsid uint32   // numbers of calls
	senders                    []uint32 // the calls with addresses that packets may go to, and io_uring_setup
}

// native is the ABI of this program.
var native = abi{arch: arch, setrlimit: unix.SYS_SETRLIMIT, prlimit: unix.SYS_PRLIMIT64, setsid: unix.SYS_SETSID}

// instructions returns the filter program.
func instructions(f wire.Filter) []unix.SockFilter {
	prog := keepTag(native)
	for _, other := range otherABIs {
		prog = slices.Concat(prog, keepTag(other), sessionCalls(other))
	}
	switch f {
	case wire.SessionFilter:
		prog = append(prog, sessionCalls(native)...)
	case wire.AddressFilter:
		prog = append(prog, addressCalls()...)
	default:
		for _, other := range otherABIs {
			prog = append(prog, refuse(other.arch, other.senders)...)
		}
		prog = slices.Concat(prog, refuse(arch, []uint32{unix.SYS_IO_URING_SETUP}), addressCalls(), messageCalls())
	}
	return append(prog, ret(unix.SECCOMP_RET_ALLOW))
}

// keepTag returns the instructions that refuse to change the limit that is the container's tag. Reading it is allowed.
func keepTag(a abi) []unix.SockFilter {
	return []unix.SockFilter{
		load(offArch), equal(a.arch, 0, 12), // 0, 1: to 14
		load(offNumber),                // 2
		equal(a.setrlimit, 0, 2),       // 3: to 6
		load(offArg0),                  // 4
		equal(unix.RLIMIT_LOCKS, 7, 8), // 5: to 13 or 14
		equal(a.prlimit, 0, 7),         // 6: to 14
		load(offArg1),                  // 7
		equal(unix.RLIMIT_LOCKS, 0, 5), // 8: to 14
		load(offArg2),                  // 9: the new limit's address, 0 if the call only reads
		equal(0, 0, 2),                 // 10: to 13
		load(offArg2 + highHalf),       // 11
		equal(0, 1, 0),                 // 12: to 14
		ret(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)), // 13
	} // 14: what follows
}

// sessionCalls returns the instructions that report setsid to the supervisor.
func sessionCalls(a abi) []unix.SockFilter {
	return []unix.SockFilter{
		load(offArch), equal(a.arch, 0, 3), // 0, 1: to 5
		load(offNumber), equal(a.setsid, 0, 1), // 2, 3: to 5
		ret(unix.SECCOMP_RET_USER_NOTIF), // 4
	} // 5: what follows
}

// addressCalls returns the instructions that report setsid, getpeername, bind, connect and sendto with an address to the supervisor. They
// can't read a socket address, only its length. By the length, they pass most calls with addresses of unix sockets, and sendto without an
// address, to the kernel at once, without the supervisor. Calls with the lengths of internet addresses, or of sockaddr_storage, go to the
// supervisor.
func addressCalls() []unix.SockFilter {
	return []unix.SockFilter{
		load(offArch), equal(arch, 0, 13), // 0, 1
		load(offNumber),                          // 2
		equal(unix.SYS_SETSID, 10, 0),            // 3: to 14
		equal(unix.SYS_GETPEERNAME, 9, 0),        // 4: to 14
		equal(unix.SYS_SENDTO, 4, 0),             // 5: to 10
		equal(unix.SYS_BIND, 1, 0),               // 6: to 8
		equal(unix.SYS_CONNECT, 0, 7),            // 7: to 8 or 15
		load(offArg2),                            // 8
		{Code: unix.BPF_JMP | unix.BPF_JA, K: 1}, // 9: to 11
		load(offArg5),                            // 10
		equal(unix.SizeofSockaddrInet4, 2, 0),    // 11: to 14
		equal(unix.SizeofSockaddrInet6, 1, 0),    // 12: to 14
		equal(sizeofStorage, 0, 1),               // 13: to 14 or 15
		ret(unix.SECCOMP_RET_USER_NOTIF),         // 14
	} // 15: what follows
}

// messageCalls returns the instructions that report sendmsg and sendmmsg to the supervisor: their addresses are in the caller's memory.
func messageCalls() []unix.SockFilter {
	return []unix.SockFilter{
		load(offArch), equal(arch, 0, 4), // 0, 1: to 6
		load(offNumber),                  // 2
		equal(unix.SYS_SENDMSG, 1, 0),    // 3: to 5
		equal(unix.SYS_SENDMMSG, 0, 1),   // 4: to 5 or 6
		ret(unix.SECCOMP_RET_USER_NOTIF), // 5
	} // 6: what follows
}

// refuse returns the instructions that refuse calls of an ABI.
func refuse(arch uint32, calls []uint32) []unix.SockFilter {
	prog := []unix.SockFilter{load(offArch), equal(arch, 0, uint8(len(calls)+3)), load(offNumber)}
	for i, call := range calls {
		prog = append(prog, equal(call, uint8(len(calls)-i), 0))
	}
	return append(prog, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA, K: 1}, ret(unix.SECCOMP_RET_ERRNO|uint32(unix.EPERM)))
}

// sizeofStorage is the size of struct sockaddr_storage, which some programs pass for every family.
const sizeofStorage = 128
