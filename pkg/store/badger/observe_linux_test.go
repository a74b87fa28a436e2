//go:build linux && (amd64 || arm64)

package badger_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// observed is a process whose calls that sync files, or change their names or sizes, wait for the test (seccomp user notification).
type observed struct {
	cmd    *exec.Cmd
	notify int
	out    int    // its output, which does not block
	cut    string // the begin of a line that is not whole yet
	ended  bool
}

// call is a system call that waits: the kernel's struct seccomp_notif.
type call struct {
	id    uint64
	pid   uint32 // of the thread
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

// observedCalls are the calls that wait, with openat where it may create a file.
var observedCalls = []uint32{
	unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_MSYNC, unix.SYS_FTRUNCATE,
	unix.SYS_UNLINKAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_MKDIRAT,
}

// observedEnv is the variable that makes a copy of the test binary install the filter, and then run itself again without it.
const observedEnv = "MINIKCTL_TEST_OBSERVED"

// startObserved starts a copy of the test binary with these variables. It skips the test where the kernel refuses the filter.
func startObserved(t *testing.T, env ...string) *observed {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	theirs := os.NewFile(uintptr(pair[1]), "socket")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), observedEnv+"=1"), env...)
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	text, rights := make([]byte, 1024), make([]byte, unix.CmsgSpace(4))
	n, nr, _, _, err := unix.Recvmsg(pair[0], text, rights, 0)
	messages, parseErr := unix.ParseSocketControlMessage(rights[:nr])
	if err = errors.Join(err, parseErr); err != nil {
		t.Fatal(err)
	}
	if len(messages) == 0 {
		_ = cmd.Wait()
		t.Skipf("this machine refuses seccomp user notification: %s", text[:n])
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(out.(*os.File).Fd()))
	if err = errors.Join(err, unix.SetNonblock(fd, true)); err != nil {
		t.Fatal(err)
	}
	out.Close()
	return &observed{cmd: cmd, notify: fds[0], out: fd}
}

// runFiltered is the process of startObserved: it sends the notify descriptor to the test and executes itself under the filter.
func runFiltered() {
	const socket = 3
	runtime.LockOSThread()
	fd, err := installFilter()
	if err != nil {
		_ = unix.Send(socket, []byte(err.Error()), 0)
		os.Exit(1)
	}
	err = unix.Sendmsg(socket, []byte("ok"), unix.UnixRights(fd), nil, 0)
	if err = errors.Join(err, unix.Close(fd), unix.Close(socket), os.Unsetenv(observedEnv)); err == nil {
		err = syscall.Exec(os.Args[0], os.Args, os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func installFilter() (int, error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, os.NewSyscallError("prctl", err)
	}
	const number, arg2 = 0, 16 + 2*8 // offsets in struct seccomp_data
	load := func(off uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: off}
	}
	jump := func(test uint16, k uint32, yes int) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, K: k, Jt: uint8(yes)}
	}
	answer := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	prog := []unix.SockFilter{load(number)}
	last := len(observedCalls) + 6
	for i, nr := range observedCalls {
		prog = append(prog, jump(unix.BPF_JEQ, nr, last-(i+2)))
	}
	prog = append(prog,
		jump(unix.BPF_JEQ, unix.SYS_OPENAT, 1), answer(unix.SECCOMP_RET_ALLOW),
		load(arg2), jump(unix.BPF_JSET, unix.O_CREAT, 1), answer(unix.SECCOMP_RET_ALLOW),
		answer(unix.SECCOMP_RET_USER_NOTIF))
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	// A signal must not make the process repeat a call that the test has noted.
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&fprog)))
	if errno != 0 {
		return -1, os.NewSyscallError("seccomp", errno)
	}
	return int(fd), nil
}

// receive returns the next call that waits, or nil at the end of the process.
func (o *observed) receive() (*call, error) {
	for {
		p := []unix.PollFd{{Fd: int32(o.notify), Events: unix.POLLIN}}
		_, err := unix.Poll(p, int(time.Minute/time.Millisecond))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, err
		case p[0].Revents&unix.POLLIN != 0:
			c := new(call)
			if o.ioctl(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(c)) == nil {
				return c, nil
			} // otherwise a signal has interrupted the call, and the process makes it again
		case p[0].Revents != 0:
			return nil, nil
		default:
			return nil, errors.New("the process has made no call for a minute")
		}
	}
}

// done ends a call with success, without the kernel. It fails if the call was interrupted meanwhile.
func (o *observed) done(c *call) { o.send(c, 0) }

// proceed lets the kernel execute a call.
func (o *observed) proceed(c *call) { o.send(c, unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE) }

func (o *observed) send(c *call, flags uint32) {
	answer := struct {
		id    uint64
		val   int64
		errno int32
		flags uint32
	}{id: c.id, flags: flags}
	_ = o.ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&answer))
}

func (o *observed) ioctl(request uint, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(o.notify), uintptr(request), uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// path returns the absolute path in an argument of a call, or "".
func (c *call) path(arg int) string {
	b := make([]byte, unix.PathMax)
	local := []unix.Iovec{{Base: &b[0], Len: uint64(len(b))}}
	n, err := unix.ProcessVMReadv(int(c.pid), local, []unix.RemoteIovec{{Base: uintptr(c.args[arg]), Len: len(b)}}, 0)
	if err != nil {
		return ""
	}
	s, _, whole := strings.Cut(string(b[:n]), "\x00")
	if !whole || !filepath.IsAbs(s) {
		return ""
	}
	return s
}

// inode returns the inode number of the file that a call syncs or cuts: of a descriptor, or of the mapping at an address.
func (c *call) inode() uint64 {
	if c.nr != unix.SYS_MSYNC {
		var st unix.Stat_t
		if unix.Stat(fmt.Sprintf("/proc/%d/fd/%d", c.pid, int32(c.args[0])), &st) != nil {
			return 0
		}
		return st.Ino
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", c.pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(maps)) {
		var start, end, offset, ino uint64
		var mode, dev string
		if _, err := fmt.Sscanf(line, "%x-%x %s %x %s %d", &start, &end, &mode, &offset, &dev, &ino); err == nil && start <= c.args[0] && c.args[0] < end {
			return ino
		}
	}
	return 0
}

// lines returns the whole lines that the process has printed since the last time.
func (o *observed) lines() []string {
	b := make([]byte, 64<<10)
	for {
		n, err := unix.Read(o.out, b)
		if n > 0 {
			o.cut += string(b[:n])
		}
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n <= 0 {
			break
		}
	}
	end := strings.LastIndexByte(o.cut, '\n')
	if end < 0 {
		return nil
	}
	whole := strings.Split(o.cut[:end], "\n")
	o.cut = o.cut[end+1:]
	return whole
}

// kill kills the process and waits for its end.
func (o *observed) kill() {
	if o.ended {
		return
	}
	o.ended = true
	_ = o.cmd.Process.Kill() // it may have ended
	_ = o.cmd.Wait()         // killed
	unix.Close(o.notify)
}
