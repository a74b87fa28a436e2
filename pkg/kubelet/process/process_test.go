package process_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	_ "github.com/minikctl/minikctl/pkg/early"
	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/kubelet/process"
	"github.com/minikctl/minikctl/pkg/kubelet/runtimetest"
	"github.com/minikctl/minikctl/pkg/network/addr"
)

// driver opens hosts, each with its own address range.
var driver = runtimetest.Driver{
	Tier: process.Tier,
	New: func(root string) (kubelet.Runtime, func() error, error) {
		h, err := open(root)
		if err != nil {
			return nil, nil, err
		}
		return h.Runtime("node"), h.Close, nil
	},
	Purge: func(root string) error {
		h, err := open(root)
		if err != nil {
			return err
		}
		return purge(h, root)
	},
}

func open(root string, options ...func(*process.Config)) (*process.Host, error) {
	// Other tests and daemons of this machine may run pods at the same time.
	r, err := addr.Claim(addr.Dir(), root)
	if err != nil {
		return nil, err
	}
	// A directory below root: the suite keeps other files in root.
	cfg := process.Config{Root: filepath.Join(root, "runtime"), Range: r}
	for _, set := range options {
		set(&cfg)
	}
	return process.Open(context.Background(), cfg)
}

// purge purges a host and releases its address range. It works after the end of the test's context.
func purge(h *process.Host, root string) error {
	return errors.Join(h.Purge(context.Background()), addr.Release(addr.Dir(), root))
}

func TestMain(m *testing.M) {
	if act := acts[os.Getenv(actVariable)]; act != nil {
		if err := act(os.Args[1:]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	check := watchRaces()
	runtimetest.Main(m, driver)
	if err := check(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func TestRuntime(t *testing.T) { runtimetest.Run(t, driver) }

// TestRuntimeAsAnotherUser runs the suite as an ordinary user.
func TestRuntimeAsAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	if testing.Short() {
		t.Skip("make race runs the suite as root, and as an ordinary user in TestWithoutNamespaces: a user has no goroutines of its own")
	}
	rerun(t, "^(TestRuntime|TestReadOnlyRoot|TestGroups|TestNewPrivileges|TestSeccompProfile|TestUser|TestUserBestEffort|TestHostNamespaces)$", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}})
}

// rerun runs tests of this program in another process, with a directory for temporary files that every user may use.
func rerun(t *testing.T, tests string, attr *syscall.SysProcAttr, env ...string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tmp := sharedDir(t)
	program := filepath.Join(tmp, "test")
	copyFile(t, self, program)
	cmd := exec.CommandContext(t.Context(), program, "-test.run="+tests, "-test.v")
	cmd.Dir = tmp
	cmd.Env = append(os.Environ(), append(env, "TMPDIR="+tmp, "HOME="+tmp, "XDG_RUNTIME_DIR=")...)
	cmd.SysProcAttr = attr
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "\nPASS\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

// sharedDir creates a directory that every user may use.
func sharedDir(t *testing.T) string {
	t.Helper()
	tmp, err := os.MkdirTemp("", "minikctl-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(tmp) })
	if err := os.Chmod(tmp, 0o777); err != nil {
		t.Fatal(err)
	}
	return tmp
}

// copyFile copies a program for users without access to the directory in which it was built.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
}
