//go:build !linux

package supervisor

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// becomeSubreaper does nothing: orphans go to init here, and are found by their session.
func becomeSubreaper() error { return nil }

// bootID tells one boot of the machine from another.
func bootID() string {
	t, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return ""
	}
	return strconv.FormatInt(int64(t.Sec), 10)
}

// born returns when pid was started, in microseconds, or 0 if there is no such process.
func born(pid int) uint64 {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(info.Proc.P_pid) != pid || info.Proc.P_stat == stateZombie {
		return 0
	}
	return started(info)
}

const stateZombie = 5 // SZOMB of sys/proc.h

func started(info *unix.KinfoProc) uint64 {
	return uint64(info.Proc.P_starttime.Sec)*1e6 + uint64(info.Proc.P_starttime.Usec)
}

// processes lists what runs on the machine.
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
			pid: pid, parent: int(infos[i].Eproc.Ppid), session: session,
			born: started(&infos[i]), zombie: infos[i].Proc.P_stat == stateZombie,
		})
	}
	return all
}

// hasVariable is not known here: a process that has left the container's session outlives it.
func hasVariable(int, string) bool { return false }

// anonymousMemory is not known here without cgo: memory limits do nothing, which the runtime says.
func anonymousMemory(int) int64 { return 0 }

// openReader opens a named pipe for reading without waiting for a writer; then reads block, since kqueue does not tell
// the end of a named pipe.
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

// waitForeign waits for a process that is not a child. Its exit status can't be known.
func waitForeign(pid int, start uint64) (syscall.WaitStatus, bool) {
	for born(pid) == start {
		pause()
	}
	return 0, false
}
