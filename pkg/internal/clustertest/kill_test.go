package clustertest

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/minikctl/minikctl/pkg/daemon"
)

var kills = flag.Int("kills", 5, "how often the daemon is killed")

// home is a user's home directory with a daemon.
type home struct {
	t   *testing.T
	dir string
}

func newHome(t *testing.T) *home {
	h := &home{t, t.TempDir()}
	t.Cleanup(func() {
		h.minikctl("down", "--purge")
		checkLeft(t, h.dir)
	})
	return h
}

func (h *home) command(args ...string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "HOME=") || strings.HasPrefix(v, "KUBECONFIG=") || strings.HasPrefix(v, "MINIKCTL_")
	}), "HOME="+h.dir)
	return cmd
}

func (h *home) minikctl(args ...string) string {
	h.t.Helper()
	out, err := h.command(append([]string{"minikctl"}, args...)...).CombinedOutput()
	if err != nil {
		h.t.Fatalf("minikctl %v: %v\n%s\n%s", args, err, out, h.log())
	}
	return string(out)
}

func (h *home) paths() daemon.Paths {
	return daemon.PathsIn("minikctl", filepath.Join(h.dir, ".minikctl", "minikctl"))
}

func (h *home) log() string {
	b, _ := os.ReadFile(h.paths().Log) // only for the message of a failure
	return string(b[max(0, len(b)-8000):])
}

func (h *home) config() *rest.Config {
	h.t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", h.paths().Kubeconfig)
	if err != nil {
		h.t.Fatal(err)
	}
	cfg.QPS = -1
	return cfg
}

func (h *home) clients() kubernetes.Interface {
	h.t.Helper()
	cfg := h.config()
	cfg.Timeout = time.Minute
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

// containers returns the process IDs of the pods' web servers.
func (h *home) containers() []int {
	h.t.Helper()
	var out []int
	for _, path := range globbed("/proc/[0-9]*/cmdline") {
		cmdline, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(cmdline), "minikctl.dev/web") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && h.owns(pid) {
			out = append(out, pid)
		}
	}
	slices.Sort(out)
	return out
}

func globbed(pattern string) []string {
	paths, _ := filepath.Glob(pattern) // the pattern is well-formed
	return paths
}

// owns reports whether the process descends from this home's supervisor.
func (h *home) owns(pid int) bool {
	for pid > 1 {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.Contains(string(cmdline), h.dir) {
			return true
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if pid, err = strconv.Atoi(fields[1]); err != nil {
			return false
		}
	}
	return false
}

// ready waits until n pods are Ready and returns their restart counts by UID.
func (h *home) ready(c kubernetes.Interface, n int) map[string]int32 {
	h.t.Helper()
	var last error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		list, err := c.CoreV1().Pods("default").List(h.t.Context(), metav1.ListOptions{})
		if last = err; err != nil {
			continue
		}
		out := map[string]int32{}
		for _, p := range list.Items {
			for _, cond := range p.Status.Conditions {
				if cond.Type == corev1.PodReady && cond.Status == corev1.ConditionTrue {
					out[string(p.UID)] = p.Status.ContainerStatuses[0].RestartCount
				}
			}
		}
		if len(out) == n {
			return out
		}
	}
	h.t.Fatalf("%d pods do not become ready: %v\n%s", n, last, h.log())
	return nil
}

// TestKillDaemon repeatedly kills the daemon while pods run and clients write: the pods' processes stay, the
// next daemon adopts them, and no acknowledged write is lost.
func TestKillDaemon(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.minikctl("up", "-d", "--nodes", "2")
	h.minikctl("create", "deployment", "web", "--image", "minikctl.dev/web", "--replicas", "3")
	pods := h.ready(h.clients(), 3)
	pids := h.containers()
	if len(pids) != 3 {
		t.Fatalf("3 pods are ready, but the web servers are %v", pids)
	}
	acked := map[string]string{} // resourceVersion by name
	for i := range *kills {
		h.writeAndKill(acked, i)
		if got := h.containers(); !slices.Equal(got, pids) {
			t.Fatalf("kill %d: web servers were %v and are %v", i+1, pids, got)
		}
		h.minikctl("up", "-d", "--nodes", "2")
		c := h.clients()
		h.check(c, acked)
		if got := h.ready(c, 3); !maps.Equal(got, pods) {
			t.Fatalf("kill %d: pods and restarts were %v and are %v", i+1, pods, got)
		}
		if got := h.containers(); !slices.Equal(got, pids) {
			t.Fatalf("kill %d: web servers were %v and the next daemon has %v\n%s", i+1, pids, got, h.log())
		}
	}
	t.Logf("%d kills, %d acknowledged writes, pods %v", *kills, len(acked), pids)
}

// writeAndKill kills the daemon while several clients write.
func (h *home) writeAndKill(acked map[string]string, round int) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	defer cancel()
	c := h.clients()
	var mu sync.Mutex
	var writing sync.WaitGroup
	for w := range 4 {
		writing.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("r%d-w%d-%d", round, w, i)}}
				got, err := c.CoreV1().ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{})
				if err != nil {
					return
				}
				mu.Lock()
				acked[got.Name] = got.ResourceVersion
				mu.Unlock()
			}
		})
	}
	time.Sleep(time.Duration(rand.IntN(150)) * time.Millisecond)
	h.kill()
	cancel()
	writing.Wait()
}

// kill kills the daemon with SIGKILL.
func (h *home) kill() {
	h.t.Helper()
	s, err := daemon.ReadState(h.paths())
	if err != nil {
		h.t.Fatal(err)
	}
	if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil {
		h.t.Fatal(err)
	}
	if !within(time.Minute, func() bool { return !daemon.Alive(h.paths()) }) {
		h.t.Fatal("the killed daemon is still there")
	}
}

func (h *home) check(c kubernetes.Interface, acked map[string]string) {
	h.t.Helper()
	list, err := c.CoreV1().ConfigMaps("default").List(h.t.Context(), metav1.ListOptions{})
	if err != nil {
		h.t.Fatalf("%v\n%s", err, h.log())
	}
	have := map[string]string{}
	for _, cm := range list.Items {
		have[cm.Name] = cm.ResourceVersion
	}
	for name, version := range acked {
		if have[name] != version {
			h.t.Errorf("%s was acknowledged at %s and is at %q", name, version, have[name])
		}
	}
}
