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
func tag(first wire.Process, directory string) uint64 {
	hash := fnv.New64a()
	_, _ = fmt.Fprintln(hash, directory, first.PID, first.Born) // never fails
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

// readTag is tagOf for processes that may have ended. Its result is then 0.
func readTag(pid int) uint64 {
	tag, err := tagOf(pid)
	if err != nil {
		return 0
	}
	return tag
}

// search finds and kills the processes with a tag.
type search struct {
	tag    uint64
	dying  map[wire.Process]struct{} // killed by earlier scans
	others map[int]struct{}          // the PIDs of the processes without the tag and of zombies, as of the last scan
}

func newSearch(tag uint64) *search { return &search{tag: tag, dying: map[wire.Process]struct{}{}} }

// scan sends SIGKILL to the processes with the tag, to each as soon as it is found. It returns how many it has found that were
// not dying, and whether it may have missed some: a process that ended before the scan could kill it may have left a child.
// It does not count processes that the last scan has seen without the tag: on a busy machine, some end during every scan.
func (s *search) scan() (found int, missed bool) {
	if s.tag == 0 {
		return 0, false
	}
	for range recentScans {
		newest := newestNumber()
		for pid := newest; pid > max(0, newest-recent); pid-- {
			if s.look(pid) == newlyFound {
				found++
			}
		}
	}
	added, missed := s.scanList(eachProcess)
	return found + added, missed
}

// scanList is scan for the processes that list lists.
func (s *search) scanList(list func(do func(pid int)) error) (found int, missed bool) {
	before := s.others
	s.others = make(map[int]struct{}, len(before))
	err := list(func(pid int) {
		got := s.look(pid)
		if got == unrelated || got == zombie {
			s.others[pid] = struct{}{}
		}
		_, other := before[pid]
		switch {
		case got == newlyFound:
			found++
		case got == unknown, (got == gone || got == zombie) && !other:
			missed = true
		}
	})
	return found, missed || err != nil
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

// sighting is what a search has found under a PID.
type sighting int

const (
	unrelated  sighting = iota // a process without the tag
	newlyFound                 // a process with the tag, killed now
	known                      // a process with the tag, killed before
	zombie                     // a zombie with the tag that has ended without the search
	gone                       // no process
	unknown                    // a process that had the tag, but could not be killed
)

// look kills the process pid if it has the tag.
func (s *search) look(pid int) sighting {
	switch got, err := tagOf(pid); {
	case errors.Is(err, unix.ESRCH):
		return gone
	case err != nil || got != s.tag:
		return unrelated
	}
	p, err := killTagged(pid, s.tag)
	if err != nil && !errors.Is(err, errZombie) {
		return unknown
	}
	if _, ok := s.dying[p]; ok {
		return known
	}
	if err != nil {
		return zombie
	}
	s.dying[p] = struct{}{}
	return newlyFound
}

var errZombie = errors.New("the process is a zombie")

// killTagged kills the process pid together with its process group. The group dies at once: no process in it can fork
// meanwhile. The error is errZombie if the process has ended, but was not reaped.
func killTagged(pid int, tag uint64) (wire.Process, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return wire.Process{}, err
	}
	defer unix.Close(fd)
	if pollNow(uintptr(fd)) != 0 { // a zombie has the tag, too
		p, _ := readProcess(strconv.Itoa(pid))
		return p.Process, errZombie
	}
	if readTag(pid) != tag { // another process had got the number before it was opened
		return wire.Process{}, unix.ESRCH
	}
	// A stopped process does not end or leave its group. So the number of its group stays that group's.
	if err := unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0); err != nil {
		return wire.Process{}, err
	}
	defer func() { _ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) }() // fails if it has ended
	p, ok := readProcess(strconv.Itoa(pid))
	if !ok { // e.g. EMFILE: the other processes of its group are found by their own tags
		return wire.Process{PID: pid}, nil
	}
	if p.group > 1 && p.group != syscall.Getpgrp() {
		_ = syscall.Kill(-p.group, syscall.SIGKILL) // the group of a container's process has no other processes
	}
	return p.Process, nil
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
