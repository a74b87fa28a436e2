//go:build linux && (amd64 || arm64)

package launch

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// call is what a filter sees of a system call.
type call struct {
	arch, number uint32
	args         [6]uint64
}

// word returns the word at an offset of the call's struct seccomp_data.
func (c call) word(off uint32) uint32 {
	switch {
	case off == offNumber:
		return c.number
	case off == offArch:
		return c.arch
	}
	arg := c.args[(off-offArg0)/8]
	if off%8 == highHalf {
		return uint32(arg >> 32)
	}
	return uint32(arg)
}

// evaluate returns the result of a filter program.
func evaluate(t *testing.T, prog []unix.SockFilter, c call) uint32 {
	t.Helper()
	var value uint32
	for i := 0; i < len(prog); i++ {
		switch in := prog[i]; in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			value = c.word(in.K)
		case unix.BPF_JMP | unix.BPF_JA:
			i += int(in.K)
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			if value == in.K {
				i += int(in.Jt)
			} else {
				i += int(in.Jf)
			}
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		default:
			t.Fatalf("instruction %d: unknown code %#x", i, in.Code)
		}
	}
	t.Fatal("the program has no result")
	return 0
}

// TestFilterSeesEveryABI makes the calls that change limits or create sessions by all ABIs of the machine.
func TestFilterSeesEveryABI(t *testing.T) {
	const refuse, allow, report = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM), unix.SECCOMP_RET_ALLOW, unix.SECCOMP_RET_USER_NOTIF
	const locks, other, address, high = unix.RLIMIT_LOCKS, unix.RLIMIT_CORE, 0x1000, 1 << 40
	for i, a := range append([]abi{native}, otherABIs...) {
		for _, f := range []wire.Filter{wire.SessionFilter, wire.AddressFilter, wire.MessageFilter} {
			prog := instructions(f)
			for name, tt := range map[string]struct {
				call
				want uint32
			}{
				"setrlimit":                  {call{a.arch, a.setrlimit, [6]uint64{locks, address}}, refuse},
				"setrlimit of another limit": {call{a.arch, a.setrlimit, [6]uint64{other, address}}, allow},
				"prlimit":                    {call{a.arch, a.prlimit, [6]uint64{0, locks, address}}, refuse},
				"prlimit, high address":      {call{a.arch, a.prlimit, [6]uint64{0, locks, high}}, refuse},
				"prlimit of another limit":   {call{a.arch, a.prlimit, [6]uint64{0, other, address}}, allow},
				"prlimit, reading":           {call{a.arch, a.prlimit, [6]uint64{0, locks, 0}}, allow},
				"setsid":                     {call{a.arch, a.setsid, [6]uint64{}}, report},
				"another call":               {call{a.arch, 0, [6]uint64{}}, allow},
			} {
				t.Run(fmt.Sprintf("ABI %d, filter %v, %s", i, f, name), func(t *testing.T) {
					if got := evaluate(t, prog, tt.call); got != tt.want {
						t.Errorf("got %#x, want %#x", got, tt.want)
					}
				})
			}
		}
	}
}

// TestFilterReportsMessages reports sendmsg and sendmmsg by one filter only, which refuses what would send past it.
func TestFilterReportsMessages(t *testing.T) {
	for _, number := range []uint32{unix.SYS_SENDMSG, unix.SYS_SENDMMSG} {
		for f, want := range map[wire.Filter]uint32{wire.AddressFilter: unix.SECCOMP_RET_ALLOW, wire.MessageFilter: unix.SECCOMP_RET_USER_NOTIF} {
			if got := evaluate(t, instructions(f), call{arch, number, [6]uint64{3, 0x1000}}); got != want {
				t.Errorf("call %d, filter %v: got %#x, want %#x", number, f, got, want)
			}
		}
	}
	past := append([]abi{{arch: arch, senders: []uint32{unix.SYS_IO_URING_SETUP}}}, otherABIs...)
	for _, a := range past {
		for _, number := range a.senders {
			for f, want := range map[wire.Filter]uint32{
				wire.AddressFilter: unix.SECCOMP_RET_ALLOW, wire.MessageFilter: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM),
			} {
				if got := evaluate(t, instructions(f), call{a.arch, number, [6]uint64{}}); got != want {
					t.Errorf("call %d of ABI %#x, filter %v: got %#x, want %#x", number, a.arch, f, got, want)
				}
			}
		}
	}
}

// TestFilterReportsAddresses reports bind, connect and sendto only with the lengths of internet addresses.
func TestFilterReportsAddresses(t *testing.T) {
	for _, f := range []wire.Filter{wire.AddressFilter, wire.MessageFilter} {
		t.Run(fmt.Sprint(f), func(t *testing.T) { testAddresses(t, instructions(f)) })
	}
}

func testAddresses(t *testing.T, prog []unix.SockFilter) {
	for _, number := range []uint32{unix.SYS_BIND, unix.SYS_CONNECT} {
		for length, want := range map[uint64]uint32{
			unix.SizeofSockaddrInet4: unix.SECCOMP_RET_USER_NOTIF,
			unix.SizeofSockaddrInet6: unix.SECCOMP_RET_USER_NOTIF,
			sizeofStorage:            unix.SECCOMP_RET_USER_NOTIF,
			unix.SizeofSockaddrUnix:  unix.SECCOMP_RET_ALLOW,
		} {
			if got := evaluate(t, prog, call{arch, number, [6]uint64{3, 0x1000, length}}); got != want {
				t.Errorf("call %d with length %d: got %#x, want %#x", number, length, got, want)
			}
		}
	}
	for length, want := range map[uint64]uint32{
		0:                        unix.SECCOMP_RET_ALLOW,
		unix.SizeofSockaddrInet4: unix.SECCOMP_RET_USER_NOTIF,
		unix.SizeofSockaddrInet6: unix.SECCOMP_RET_USER_NOTIF,
		sizeofStorage:            unix.SECCOMP_RET_USER_NOTIF,
		unix.SizeofSockaddrUnix:  unix.SECCOMP_RET_ALLOW,
	} {
		if got := evaluate(t, prog, call{arch, unix.SYS_SENDTO, [6]uint64{3, 0x1000, unix.SizeofSockaddrInet4, 0, 0x2000, length}}); got != want {
			t.Errorf("sendto with length %d: got %#x, want %#x", length, got, want)
		}
	}
	if got := evaluate(t, prog, call{arch, unix.SYS_GETPEERNAME, [6]uint64{3, 0x1000, 0x2000}}); got != unix.SECCOMP_RET_USER_NOTIF {
		t.Errorf("getpeername: got %#x", got)
	}
}
