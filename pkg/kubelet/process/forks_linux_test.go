package process_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"testing"
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
				ended := startForks(m, own)
				if kill { // the orphans are no descendants of the next supervisor
					m.killSupervisor()
				}
				if err := m.host.Purge(t.Context()); err != nil {
					t.Fatal(err)
				}
				if text := <-ended; text != "" {
					t.Errorf("processes of the pod have ended by themselves: %s", text)
				}
				m.open() // for the cleanup, which purges again
			})
		}
	}
}

// TestForkingPodAsAnotherUser runs TestForkingPod as an ordinary user, who can't create cgroups on most machines.
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

// forkers is how many processes of actForks fork at the same time.
const forkers = 4

// startForks runs actForks and waits until all its processes fork. The returned channel receives what they have
// written then, once all have ended.
func startForks(m *machine, own string) (ended <-chan string) {
	m.Helper()
	path, stop := m.root+"/forks", m.root+"/stop"
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { m.touch("stop") })
	m.start("pod", act("forks", own, path, stop))
	pipe, err := os.Open(path) // waits for actForks
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { pipe.Close() })
	if _, err := io.ReadFull(pipe, make([]byte, forkers)); err != nil {
		m.Fatal(err)
	}
	result := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(pipe) // ends when no process has the other end
		result <- string(text)
	}()
	return result
}

// actForks starts forkers, whose processes each make the system call that args[0] names, and waits to be killed. args[1] is
// the forkers' named pipe, and args[2] the file that ends them.
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
	stop, err := unix.BytePtrFromString(args[2])
	if err != nil {
		return err
	}
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
		if err := startForker(number, uintptr(pipe), stop); err != nil {
			return err
		}
	}
	return unix.Pause() // with every signal blocked: until it is killed
}
