package process_test

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/minikctl/minikctl/pkg/internal/confined"
)

// TestWithoutNamespaces runs the suite where every system call that creates or joins a namespace fails, as in many
// containers.
func TestWithoutNamespaces(t *testing.T) {
	attr := &syscall.SysProcAttr{}
	if os.Getuid() == 0 {
		attr.Credential = &syscall.Credential{Uid: 12345, Gid: 12345}
	}
	rerun(t, "^(TestRuntime|TestUnhonoured|TestNestedMounts|TestMountOverFilesOfTheMachine|TestReadOnlyRoot|TestGroups|TestUserBestEffort|TestHostNamespaces)$", attr, actVariable+"=confine")
}

// TestWithoutFilters runs the suite where seccomp filters are refused as well.
func TestWithoutFilters(t *testing.T) {
	rerun(t, "^TestRuntime$", nil, actVariable+"=confine", noFilters+"=1")
}

// noFilters is the environment variable that makes actConfine refuse seccomp filters, too.
const noFilters = "MINIKCTL_PROCESSTEST_NO_FILTERS"

// actConfine executes this test program again, where it can't create namespaces.
func actConfine(args []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.Unsetenv(actVariable); err != nil {
		return err
	}
	var more []uint32
	if os.Getenv(noFilters) != "" {
		more = []uint32{unix.SYS_SECCOMP}
	}
	return confined.Exec(append([]string{self}, args...), more...)
}
