package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// A container's tag is the value of a resource limit, RLIMIT_LOCKS, that has had no effect since Linux 2.4.25. Every process
// inherits it, in new sessions, with another environment and as an orphan, too. The container's filter refuses to change it.

// tagResource is the resource whose limit is the tag.
const tagResource = unix.RLIMIT_LOCKS

// lowestTag is above the limits that administrators set.
const lowestTag = 1 << 62

// tag sets a tag on the first process of a container, before its program runs. It returns 0 if the process may not have the
// tag: lowering a limit needs no privileges, but the limit may be lower already.
func tag(first wire.Process, folder string) uint64 {
	hash := fnv.New64a()
	_, _ = fmt.Fprintln(hash, folder, first.PID, first.Born) // never fails
	value := lowestTag | hash.Sum64()>>2
	if !setTag(first.PID, value) {
		return 0
	}
	return value
}

// setTag sets the tag of a process, and reports whether it has it.
func setTag(pid int, tag uint64) bool {
	return unix.Prlimit(pid, tagResource, &unix.Rlimit{Cur: tag, Max: tag}, nil) == nil
}

// tagOf returns the limit of a process that is a tag if the process belongs to a container. The error is ESRCH if the process
// has ended.
func tagOf(pid int) (uint64, error) {
	var limit unix.Rlimit
	err := unix.Prlimit(pid, tagResource, nil, &limit)
	if errors.Is(err, unix.EPERM) && os.Geteuid() == 0 { // a process of another user, without CAP_SYS_RESOURCE
		return limitInFile(pid)
	}
	return limit.Max, err
}

// limitInFile is tagOf by /proc/PID/limits, which every user may read.
func limitInFile(pid int) (uint64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/limits")
	if err != nil {
		return 0, unix.ESRCH
	}
	_, rest, _ := bytes.Cut(b, []byte("\nMax file locks"))
	line, _, _ := bytes.Cut(rest, []byte{'\n'})
	f := bytes.Fields(line)
	if len(f) < 2 {
		return 0, unix.EINVAL
	}
	return strconv.ParseUint(string(f[1]), 10, 64) // fails for "unlimited"
}

// hasTag reports whether a process has a tag. No process has the tag 0.
func hasTag(pid int, tag uint64) bool {
	if tag == 0 {
		return false
	}
	got, err := tagOf(pid)
	return err == nil && got == tag
}

// killTagged sends SIGKILL to the processes with a tag, to each as soon as it is found. dying holds the processes that it has
// killed before. It returns how many it has found that were not dying, and whether it has missed some: a process that ended
// before its tag was read may have been the container's, and may have left a child.
func killTagged(tag uint64, dying map[wire.Process]struct{}) (found int, missed bool) {
	if tag == 0 {
		return 0, false
	}
	for range recentScans {
		newest := newestNumber()
		for pid := newest; pid > max(0, newest-recent); pid-- {
			added, _ := killIfTagged(pid, tag, dying)
			found += added
		}
	}
	for _, name := range processNumbers() {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		added, ended := killIfTagged(pid, tag, dying)
		found += added
		missed = missed || ended
	}
	return found, missed
}

const (
	// recent is how many of the newest processes are looked at before the others. Processes that fork and end all the time are
	// among them, and end before all processes are listed.
	recent      = 32
	recentScans = 8
)

// newestNumber returns the PID that the kernel has given last, or 0 if it is unknown.
func newestNumber() int {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	f := bytes.Fields(b)
	if len(f) == 0 {
		return 0
	}
	pid, err := strconv.Atoi(string(f[len(f)-1]))
	if err != nil {
		return 0
	}
	return pid
}

// killIfTagged kills the process pid if it has the tag. It returns 1 if that is new to dying, and whether there is no such
// process.
func killIfTagged(pid int, tag uint64, dying map[wire.Process]struct{}) (added int, ended bool) {
	got, err := tagOf(pid)
	if err != nil || got != tag {
		return 0, errors.Is(err, unix.ESRCH)
	}
	p, ok := killTaggedProcess(pid, tag)
	if !ok {
		return 0, false
	}
	if _, ok := dying[p]; ok {
		return 0, false
	}
	dying[p] = struct{}{}
	return 1, false
}

// killTaggedProcess kills the process pid together with its process group, unless it has ended. The group dies at once: no
// process in it can fork meanwhile.
func killTaggedProcess(pid int, tag uint64) (wire.Process, bool) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return wire.Process{}, false
	}
	defer unix.Close(fd)
	// A zombie has the tag, too, and another process may have got the number before it was opened.
	if pollNow(uintptr(fd)) != 0 || !hasTag(pid, tag) {
		return wire.Process{}, false
	}
	// A stopped process does not end or leave its group. So the number of its group stays that group's.
	if unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0) != nil {
		return wire.Process{}, false
	}
	p, ok := readProcess(strconv.Itoa(pid))
	if !ok {
		return wire.Process{}, false
	}
	if p.group > 1 && p.group != syscall.Getpgrp() {
		_ = syscall.Kill(-p.group, syscall.SIGKILL) // the group of a container's process has no other processes
	}
	_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // fails if it has ended
	return p.Process, true
}

// pollNow returns the events of a descriptor.
func pollNow(fd uintptr) int16 {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(p, 0)
		if !errors.Is(err, unix.EINTR) {
			return p[0].Revents
		}
	}
}
