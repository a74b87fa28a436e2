package clustertest

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
)

// TestProcessesOf: the supervisor, the keeper of its sockets, the containers and the daemon are processes of the cluster's directory, and those that
// a killed supervisor has left are, too.
func TestProcessesOf(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.minikctl("up", "-d")
	h.minikctl("run", "web", "--image=minikctl.dev/web")
	h.minikctl("run", "sleeper", "--image=sleep", "--command", "--", "sleep", "12345")
	h.minikctl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s")
	for _, left := range [][]string{{"supervisor", "keeper", "up", "sleep"}, {"keeper", "up", "sleep"}} {
		found := sets.New[string]()
		for _, p := range processesOf(h.dir) {
			for _, name := range left {
				if strings.Contains(" "+p+" ", " "+name+" ") {
					found.Insert(name)
				}
			}
		}
		if !found.HasAll(left...) {
			t.Errorf("of %v only %v are among %q", left, sets.List(found), processesOf(h.dir))
		}
		for _, p := range processesOf(h.dir) {
			if pid, _, _ := strings.Cut(p, " "); strings.Contains(p, " supervisor ") {
				number, err := strconv.Atoi(pid)
				if err != nil || syscall.Kill(number, syscall.SIGKILL) != nil {
					t.Fatalf("kill %s: %v", p, err)
				}
			}
		}
	}
}

// TestLeft: a process is one of a directory by its arguments, its environment, its working directory or an open file, and not by a directory whose name
// begins alike.
func TestLeft(t *testing.T) {
	directory := t.TempDir()
	for name, c := range map[string]struct {
		prepare func(*exec.Cmd)
		want    int
	}{
		"argument":      {func(cmd *exec.Cmd) { cmd.Args[0] = "minikctl: supervisor " + directory + "/runtime" }, 1},
		"variable":      {func(cmd *exec.Cmd) { cmd.Env = []string{"HOME=" + directory} }, 1},
		"directory":     {func(cmd *exec.Cmd) { cmd.Dir = directory }, 1},
		"nothing of it": {func(cmd *exec.Cmd) { cmd.Env = []string{"HOME=" + directory + "1"} }, 0},
	} {
		cmd := exec.Command("sleep", "1000")
		cmd.Env, cmd.Dir = []string{}, filepath.Dir(directory)
		c.prepare(cmd)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if got := processesOf(directory); len(got) != c.want || c.want > 0 && !strings.HasPrefix(got[0], strconv.Itoa(cmd.Process.Pid)+" ") {
			t.Errorf("%s: got %q, want %d", name, got, c.want)
		}
		_ = cmd.Process.Kill() // it may not have ended by itself
		_ = cmd.Wait()
	}
}
