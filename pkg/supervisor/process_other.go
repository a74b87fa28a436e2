//go:build !linux

package supervisor

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// becomeSubreaper does nothing: init inherits orphans here.
func becomeSubreaper() error { return nil }

// bootID identifies this boot of the machine.
func bootID() string {
	t, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return ""
	}
	return strconv.FormatInt(int64(t.Sec), 10)
}

// born returns the start time of pid in microseconds, or 0 if no such process lives.
func born(pid int) uint64 {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(info.Proc.P_pid) != pid || info.Proc.P_stat == stateZombie {
		return 0
	}
	return started(info)
}

// orphanReaper is the process that inherits orphans besides the supervisor: init. An orphan's lineage is unknown here.
const orphanReaper = 1

// signal sends sig to p, unless p has ended.
func (p process) signal(sig syscall.Signal) {
	if born(p.PID) == p.Born {
		_ = syscall.Kill(p.PID, sig)
	}
}

// signalGroup sends sig to the process group that p leads, unless p has ended.
func signalGroup(p wire.Process, sig syscall.Signal) {
	if born(p.PID) == p.Born {
		_ = syscall.Kill(-p.PID, sig)
	}
}

const stateZombie = 5 // SZOMB of sys/proc.h

func started(info *unix.KinfoProc) uint64 {
	return uint64(info.Proc.P_starttime.Sec)*1e6 + uint64(info.Proc.P_starttime.Usec)
}

// processes lists the processes of the machine.
func processes() []process {
	infos, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil
	}
	all := make([]process, 0, len(infos))
	for i := range infos {
		pid := int(infos[i].Proc.P_pid)
		session, err := unix.Getsid(pid)
		if err != nil {
			continue
		}
		all = append(all, process{
			Process: wire.Process{PID: pid, Born: started(&infos[i])},
			parent:  int(infos[i].Eproc.Ppid), session: session, zombie: infos[i].Proc.P_stat == stateZombie,
		})
	}
	return all
}

// variable finds nothing here. A process that has left the container's session outlives the container.
func variable(int, string) (string, bool) { return "", false }

// anonymousMemory returns 0: without cgo it is unknown here. Memory limits have no effect, and the runtime reports so.
func anonymousMemory(int) int64 { return 0 }

// openReader opens a named pipe for reading without waiting for a writer. Reads block, because kqueue does not report the
// end of a named pipe.
func openReader(path string) (*os.File, error) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	if err := syscall.SetNonblock(fd, false); err != nil {
		syscall.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// exists reports whether p lives.
func exists(p wire.Process) bool { return born(p.PID) == p.Born }

// openProcess returns nil: there are no pidfds here.
func openProcess(wire.Process) *os.File { return nil }

// waitNonChild waits for a process that is not a child. Its exit status is unknown.
func waitNonChild(p wire.Process, _ *os.File) (syscall.WaitStatus, bool) {
	for exists(p) {
		pause()
	}
	return 0, false
}
