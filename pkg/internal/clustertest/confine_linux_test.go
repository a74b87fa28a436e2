package clustertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestUnprivilegedUser runs the README's main job as a user without privileges, with the release build.
func TestUnprivilegedUser(t *testing.T) {
	t.Parallel()
	mainJob(t, nil)
}

// TestConfined runs the README's main job where creating or joining a namespace fails with EPERM, as in many containers.
func TestConfined(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	launcher := filepath.Join(t.TempDir(), "launcher")
	linkFile(t, self, launcher)
	open(t, launcher)
	mainJob(t, []string{launcher})
}

// confineVariable makes this test binary a launcher, which forbids itself namespaces and executes its arguments.
const confineVariable = "MINIKCTL_TEST_CONFINE"

const ordinary = 12345 // a UID without an account

// mainJob applies the first example as an ordinary user, connects to its pods, and takes the cluster down without leftovers.
func mainJob(t *testing.T, prefix []string) {
	dir := t.TempDir()
	program := filepath.Join(dir, "minikctl")
	buildMinikctl(t, program)
	manifest := filepath.Join(dir, "deployment.yml")
	copyFile(t, "../../../examples/manifests/deployment.yml", manifest)
	user := filepath.Join(dir, "user")
	if err := os.Mkdir(user, 0o700); err != nil {
		t.Fatal(err)
	}
	open(t, program)
	open(t, manifest)
	cred := &syscall.Credential{Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid()), NoSetGroups: true}
	if os.Getuid() == 0 {
		cred = &syscall.Credential{Uid: ordinary, Gid: ordinary}
		if err := os.Chown(user, ordinary, ordinary); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		t.Helper()
		args = append(append([]string{}, prefix...), append([]string{program}, args...)...)
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: cred}
		cmd.Env = []string{"HOME=" + user, "PATH=" + os.Getenv("PATH"), confineVariable + "=1"}
		out, err := cmd.CombinedOutput()
		if err != nil {
			log, _ := os.ReadFile(filepath.Join(user, ".minikctl", "minikctl", "daemon.log"))
			t.Fatalf("minikctl %v: %v\n%s\n%s", args, err, out, log)
		}
		return string(out)
	}
	t.Cleanup(func() {
		run("down", "--purge")
		checkLeft(t, dir)
		if entries, err := os.ReadDir(filepath.Join(user, ".minikctl")); err == nil {
			t.Errorf("left behind: %v", entries)
		}
	})
	run("apply", "-f", manifest, "--wait", "--timeout", "60s")
	ips := strings.Fields(run("get", "pods", "-o", "jsonpath={.items[*].status.podIP}"))
	seen := map[string]bool{}
	for _, ip := range ips {
		out, err := exec.Command("curl", "-fsS", "http://"+ip+":8080/").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "Hello from pod web-") {
			t.Errorf("curl %s: %v\n%s", ip, err, out)
		}
		seen[ip] = true
	}
	if len(seen) != 3 {
		t.Errorf("3 replicas have the addresses %v", ips)
	}
	const warning = "Warning: spec.securityContext.runAsUser: only root can give it without a mount namespace: the containers do not start"
	if out := run("run", "user", "--image=minikctl.dev/web", `--overrides={"spec":{"securityContext":{"runAsUser":54321}}}`); prefix != nil && !strings.Contains(out, warning) {
		t.Errorf("a client does not see that the pod can't have its user:\n%s", out)
	}
}

// buildMinikctl makes path the program that MINIKCTL names, or one that is built for the first test that needs it.
func buildMinikctl(t *testing.T, path string) {
	t.Helper()
	built := os.Getenv("MINIKCTL")
	if built == "" {
		var err error
		if built, err = builtMinikctl(); err != nil {
			t.Fatal(err)
		}
	}
	linkFile(t, built, path)
}

// builtMinikctl returns the path of minikctl, which TestMain removes.
var builtMinikctl = sync.OnceValues(func() (string, error) {
	path := filepath.Join(programs, "minikctl")
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags", "-s -w", "-o", path, "github.com/minikctl/minikctl/cmd/minikctl")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

// open makes a file of the test executable for all users.
func open(t *testing.T, path string) {
	t.Helper()
	for p := path; strings.HasPrefix(p, os.TempDir()) && p != os.TempDir(); p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
