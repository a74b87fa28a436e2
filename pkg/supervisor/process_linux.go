package supervisor

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// becomeSubreaper makes the orphans of the containers children of the supervisor, not of init.
func becomeSubreaper() error {
	return os.NewSyscallError("prctl PR_SET_CHILD_SUBREAPER", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

// bootID identifies this boot of the machine.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(b))
}

// born returns the start time of pid in clock ticks since the boot, or 0 if no such process lives.
func born(pid int) uint64 {
	p, ok := readProcess(strconv.Itoa(pid))
	if !ok || p.zombie {
		return 0
	}
	return p.Born
}

// orphanReaper is the process that inherits orphans besides the supervisor; none here, since the supervisor is a subreaper.
const orphanReaper = -1

// signal sends sig to p, unless p has ended.
func (p process) signal(sig syscall.Signal) { _ = send(p.Process, sig, 0) }

// signalGroup sends sig to the process group that p leads, unless p has ended.
func signalGroup(p wire.Process, sig syscall.Signal) {
	if errors.Is(send(p, sig, unix.PIDFD_SIGNAL_PROCESS_GROUP), unix.EINVAL) && born(p.PID) == p.Born { // before Linux 6.9
		_ = syscall.Kill(-p.PID, sig)
	}
}

// send sends sig to p through a pidfd, which never means a later process of the same number.
func send(p wire.Process, sig syscall.Signal, flags int) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if born(p.PID) != p.Born {
		return unix.ESRCH
	}
	return unix.PidfdSendSignal(fd, sig, nil, flags)
}

// eachProcess calls do with the PID of each process of the machine. It lists few processes at a time, so that few of them end
// before do sees them.
func eachProcess(do func(pid int)) error {
	dir, err := os.Open("/proc")
	if err != nil {
		return err
	}
	defer dir.Close()
	buf := make([]byte, 1024)
	var names []string
	for {
		n, err := unix.ReadDirent(int(descriptor(dir)), buf)
		if n <= 0 || err != nil {
			return err
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names[:0])
		for _, name := range names {
			if pid, err := strconv.Atoi(name); err == nil {
				do(pid)
			}
		}
	}
}

// processes lists the processes of the machine.
func processes() []process {
	var all []process
	_ = eachProcess(func(pid int) { // on an error the list is shorter
		if p, ok := readProcess(strconv.Itoa(pid)); ok {
			all = append(all, p)
		}
	})
	return all
}

// readProcess parses /proc/PID/stat. The name there may hold anything, so that the fields count from its last parenthesis.
func readProcess(pid string) (process, bool) {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return process{}, false
	}
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return process{}, false
	}
	f := bytes.Fields(b[end+1:]) // f[0] is field 3 of proc(5)
	if len(f) < 50 {
		return process{}, false
	}
	number := func(b []byte) uint64 {
		n, _ := strconv.ParseUint(string(b), 10, 64) // the kernel writes numbers
		return n
	}
	n, _ := strconv.Atoi(pid)
	return process{
		Process: wire.Process{PID: n, Born: number(f[19])},
		zombie:  f[0][0] == 'Z' || f[0][0] == 'X',
		parent:  int(number(f[1])),
		group:   int(number(f[2])),
		session: int(number(f[3])),
		exit:    syscall.WaitStatus(number(f[49])),
	}, true
}

// variable returns the value that name had in the environment that a process was started with. It is unknown for processes
// of other users and for processes that have ended.
func variable(pid int, name string) (value string, ok bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return "", false
	}
	for entry := range bytes.SplitSeq(b, []byte{0}) {
		if rest, found := bytes.CutPrefix(entry, []byte(name+"=")); found {
			value, ok = string(rest), true // the last one counts
		}
	}
	return value, ok
}

// capable reports whether the thread tid has a capability.
func capable(tid, capability int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(tid) + "/status")
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(b, []byte("\nCapEff:\t"))
	line, _, _ := bytes.Cut(rest, []byte{'\n'})
	set, err := strconv.ParseUint(string(line), 16, 64)
	return err == nil && set&(1<<capability) != 0
}

// anonymousMemory returns the resident memory of pid without pages of files. This is what limits count.
func anonymousMemory(pid int) int64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	f := bytes.Fields(b)
	if len(f) < 3 {
		return 0
	}
	resident, _ := strconv.ParseInt(string(f[1]), 10, 64)
	shared, _ := strconv.ParseInt(string(f[2]), 10, 64)
	return (resident - shared) * int64(os.Getpagesize())
}

// openReader opens a named pipe for reading without waiting for a writer.
func openReader(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// exists reports whether p lives or is a zombie, whose exit code can still be read.
func exists(p wire.Process) bool {
	now, ok := readProcess(strconv.Itoa(p.PID))
	return ok && now.Born == p.Born
}

// openProcess returns the pidfd of p, or nil if p is neither alive nor a zombie.
func openProcess(p wire.Process) *os.File {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	if !exists(p) {
		f.Close() // another process has the number
		return nil
	}
	return f
}

// waitNonChild waits for a process that is not a child, and returns its exit status if that can be read: of a zombie, and
// of processes that their parent has reaped on kernels since 6.15. pidfd is nil if the process had ended before it was opened.
func waitNonChild(p wire.Process, pidfd *os.File) (syscall.WaitStatus, bool) {
	if pidfd == nil {
		return 0, false
	}
	f, err := pollable(pidfd)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, false
	}
	var status syscall.WaitStatus
	known := false
	err = raw.Read(func(fd uintptr) bool {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(p, 0)
		return n > 0 || (err != nil && !errors.Is(err, unix.EINTR))
	})
	if err != nil {
		return 0, false
	}
	if err := raw.Control(func(fd uintptr) { status, known = exitStatus(int(fd), p) }); err != nil {
		return 0, false
	}
	return status, known
}

// pollable returns a duplicate of f for the network poller, so that waiting for it takes no thread.
func pollable(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(descriptor(f), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // os polls nonblocking files
		unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	dup := os.NewFile(uintptr(fd), f.Name())
	// The calls on the descriptor ignore the mode. The keeper has the same open file, and must not be woken up by its events.
	if err := unix.SetNonblock(fd, false); err != nil {
		dup.Close()
		return nil, os.NewSyscallError("fcntl", err)
	}
	return dup, nil
}

// lateReap bounds how long an ended process may stay a zombie whose exit code this process may not read.
const lateReap = time.Minute

// exitStatus returns the exit status of the ended process p, whose pidfd is fd.
func exitStatus(fd int, p wire.Process) (syscall.WaitStatus, bool) {
	for end := time.Now().Add(lateReap); ; pause() {
		now, ok := readProcess(strconv.Itoa(p.PID))
		zombie := ok && now.Born == p.Born
		if zombie && now.zombie && readable(p.PID) && exists(p) { // p is the process that readable has seen
			return now.exit, true
		}
		// In this order: a process that is reaped now has its code there.
		if status, ok := exitInfo(fd); ok || !zombie || time.Now().After(end) {
			return status, ok
		}
	}
}

// readable reports whether the kernel shows this process the exit code of the zombie pid. To others it shows 0.
func readable(pid int) bool {
	var stat unix.Stat_t
	if unix.Stat("/proc/"+strconv.Itoa(pid), &stat) != nil {
		return false
	}
	return int(stat.Uid) == os.Geteuid() && int(stat.Gid) == os.Getegid() || capable(os.Getpid(), unix.CAP_SYS_PTRACE)
}

// The kernel's struct pidfd_info and the ioctl that fills it, since 6.15 with the exit code.
type pidfdInfo struct {
	mask     uint64
	cgroup   uint64
	pids     [3]uint32
	ids      [8]uint32
	exitCode int32
	_        [2]uint32
}

const pidfdInfoExit = 1 << 3

// exitInfo returns the exit status of a process that its parent has reaped.
func exitInfo(fd int) (syscall.WaitStatus, bool) {
	// _IOWR(0xFF, 11, struct pidfd_info)
	const request = 3<<30 | uint(unsafe.Sizeof(pidfdInfo{}))<<16 | 0xff<<8 | 11
	info := pidfdInfo{mask: pidfdInfoExit}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(unsafe.Pointer(&info)))
	if errno != 0 || info.mask&pidfdInfoExit == 0 {
		return 0, false
	}
	return syscall.WaitStatus(uint32(info.exitCode)), true
}
