package process_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/supervisor/role"
)

// TestForkingPod ends a pod whose processes fork all the time, without the pod's environment and each in a session or process
// group of its own. None may be left.
func TestForkingPod(t *testing.T) {
	for _, own := range []string{"setsid", "setpgid"} {
		for _, kill := range []bool{false, true} {
			t.Run(own+" supervisor killed "+strconv.FormatBool(kill), func(t *testing.T) {
				m := newMachine(t)
				pipe := startForks(m, own)
				if kill { // the orphans are no descendants of the next supervisor
					m.killSupervisor()
				}
				if err := m.host.Purge(t.Context()); err != nil {
					t.Fatal(err)
				}
				await(m, pipe, "the end of the processes", func() error { _, err := io.Copy(io.Discard, pipe); return err })
				m.open() // for the cleanup, which purges again
			})
		}
	}
}

// TestForkingPodAsAnotherUser runs TestForkingPod as an ordinary user. On most machines that user can't create cgroups.
func TestForkingPodAsAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	rerun(t, "^TestForkingPod$", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}})
}

// TestForkingPodWithoutFilters ends a pod that forks in new sessions, as an ordinary user, where the kernel refuses filters.
func TestForkingPodWithoutFilters(t *testing.T) {
	attr := &syscall.SysProcAttr{}
	if os.Getuid() == 0 {
		attr.Credential = &syscall.Credential{Uid: 12345, Gid: 12345}
	}
	rerun(t, "^TestForkingPod$/setsid", attr, actVariable+"=confine", noFilters+"=1")
}

// TestTagStays lets a container change the limit that is its tag.
func TestTagStays(t *testing.T) {
	m := addressed(t)
	for _, uid := range []types.UID{"pod", "host"} { // with either filter
		if uid == "host" {
			if _, err := m.rt.StartPod(t.Context(), kubelet.PodSpec{UID: uid, HostNetwork: true}); err != nil {
				t.Fatal(err)
			}
		}
		id := m.start(uid, act("limit"))
		if c := m.ended(id); c.ExitCode != 0 {
			t.Errorf("%s: exit code %d: %s", uid, c.ExitCode, m.output(id))
		}
	}
}

// actLimit fails if it can change the limit of file locks, or can't read it or change others.
func actLimit([]string) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_LOCKS, &limit); err != nil {
		return err
	}
	if limit.Max == unix.RLIM_INFINITY {
		return errors.New("the container has no tag")
	}
	lower := unix.Rlimit{Cur: 1, Max: 1}
	if err := unix.Setrlimit(unix.RLIMIT_LOCKS, &lower); !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("prlimit: %w", err)
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SETRLIMIT, unix.RLIMIT_LOCKS, uintptr(unsafe.Pointer(&lower)), 0)
	if errno != unix.EPERM {
		return fmt.Errorf("setrlimit: %w", errno)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("another limit: %w", err)
	}
	return nil
}

// TestExecWithoutTag ends a pod in which a command has left a process in a session of its own. The command can't have the
// tag: the limits of the supervisor were lowered after the start of the container.
func TestExecWithoutTag(t *testing.T) {
	if os.Getuid() == 0 { // root may raise limits
		rerun(t, "^TestExecWithoutTag$", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}})
		return
	}
	m := newMachine(t)
	id := m.shell("exec sleep 1000")
	if err := unix.Prlimit(m.supervisor(), unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: 1, Max: 1}, nil); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	script := []string{"/bin/sh", "-c", "env -i setsid sleep 1000 >/dev/null 2>&1 & echo $!"}
	if _, err := m.rt.Exec(t.Context(), id, script, kubelet.Streams{Out: &out}); err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	m.wait("the new session", func() bool { session, err := unix.Getsid(pid); return err == nil && session == pid })
	if err := m.rt.Stop(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			_ = syscall.Kill(pid, syscall.SIGKILL) // the test has failed already
		}
	})
	m.wait("the end of the process", func() bool { return syscall.Kill(pid, 0) != nil })
}

// forkers is how many processes of actForks fork at the same time.
const forkers = 4

// startForks runs actForks and waits until all its processes fork. The pipe that it returns ends once all have ended.
func startForks(m *machine, own string) (pipe *os.File) {
	m.Helper()
	path := m.root + "/forks"
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		m.Fatal(err)
	}
	m.start("pod", act("forks", own, path))
	pipe, err := os.Open(path) // waits for actForks
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { pipe.Close() }) // ends the processes
	await(m, pipe, "forks", func() error { _, err := io.ReadFull(pipe, make([]byte, forkers)); return err })
	return pipe
}

// await fails the test unless read, which reads from the pipe, succeeds.
func await(m *machine, pipe *os.File, what string, read func() error) {
	m.Helper()
	if err := pipe.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		m.Fatal(err)
	}
	if err := read(); err != nil {
		m.Fatalf("no sign of %s: %v", what, err)
	}
}

// forkersEnd is the time after which the forkers of a failed test end by themselves: much later than supervisors stop to kill.
const forkersEnd = 5 * time.Minute

// actForks starts forkers, whose processes each make the system call that args[0] names, and waits to be killed. args[1] is
// the forkers' named pipe.
func actForks(args []string) error {
	if os.Getenv("MINIKCTL_ROOT") != "" { // the environment by which supervisors recognize processes
		self, err := os.Executable()
		if err != nil {
			return err
		}
		return unix.Exec(self, append([]string{self}, args...), append([]string{actVariable + "=forks"}, role.Inherited()...))
	}
	number := uintptr(unix.SYS_SETSID)
	if args[0] == "setpgid" {
		number = unix.SYS_SETPGID
	}
	pipe, err := unix.Open(args[1], unix.O_WRONLY, 0)
	if err != nil {
		return err
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return err
	}
	signal.Ignore(syscall.SIGCHLD) // the kernel then reaps the first process of each forker
	runtime.LockOSThread()
	var all unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	// Go's signal handlers can't run in processes that were forked without exec.
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, nil); err != nil {
		return err
	}
	for range forkers {
		if err := startForker(number, uintptr(pipe), now.Sec+int64(forkersEnd/time.Second)); err != nil {
			return err
		}
	}
	return unix.Pause() // with every signal blocked: until it is killed
}
