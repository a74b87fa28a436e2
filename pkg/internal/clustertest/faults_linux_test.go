package clustertest

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
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
	"k8s.io/client-go/tools/clientcmd"

	"github.com/minikctl/minikctl/pkg/network/addr"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

var (
	faults    = flag.Int("faults", 0, "how many processes TestFaults kills")
	faultSeed = flag.Uint64("faults.seed", 1, "the seed of TestFaults")
)

// TestFaults kills the daemon, the supervisor and containers at random while pods, Services and volumes are created, used and deleted. Then all
// are deleted, and what the cluster holds of the machine is what it held before: processes, sockets, mounts, cgroups and files. After its end it
// holds nothing.
func TestFaults(t *testing.T) {
	if *faults == 0 {
		t.Skip("it takes minutes: make soak runs it, with -faults 200")
	}
	w := &faultWorld{home: newHome(t), rng: rand.New(rand.NewPCG(*faultSeed, 0))}
	config := filepath.Join(w.dir, "config.yaml")
	if err := os.WriteFile(config, []byte("kubelet: {podPidsLimit: 500}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.up = []string{"up", "-d", "--nodes", "2", "--config", config}
	w.minikctl(w.up...)
	w.deploy()
	w.learn()
	w.clear()
	before := w.footprint()
	w.deploy()
	stop := w.use()
	counts := map[string]int{}
	for range *faults {
		counts[w.fault()]++
		w.pause()
	}
	stop()
	w.minikctl(w.up...)
	w.serves()
	w.clear()
	w.settle("the footprint of before", func() string { return difference(before, w.footprint()) })
	t.Logf("killed: %v; the footprint without pods:\n%s", counts, strings.Join(before, "\n"))
	w.minikctl("down", "--purge")
	w.settle("an empty footprint", func() string { return difference(nil, w.footprint()) })
}

// faultWorld is a home with a cluster whose processes are killed.
type faultWorld struct {
	*home
	rng     *rand.Rand
	up      []string
	addrs   string // what the addresses of the cluster have in common, in the form of /proc/net, where 127.135.1.1 is 0101877F
	cgroups string // how the names of the cluster's cgroups begin; "": it has none
}

// pause lets the cluster run for a random time, so that the next kill hits another moment of it. No assertion depends on the time. Only make soak
// comes here.
func (w *faultWorld) pause() { time.Sleep(time.Duration(w.rng.IntN(300)) * time.Millisecond) }

// deploy creates pods with all kinds of volumes and limits, and Services of them, and waits until they are ready.
func (w *faultWorld) deploy() {
	w.t.Helper()
	w.minikctl("apply", "-f", "testdata/faults.yaml", "--wait", "--timeout", "120s")
}

// learn finds what the names and addresses of the cluster have in common.
func (w *faultWorld) learn() {
	w.t.Helper()
	pids := w.containers()
	if len(pids) == 0 {
		w.t.Fatal("no container runs")
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pids[0]))
	if err != nil {
		w.t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if name := filepath.Base(strings.TrimSpace(line)); strings.HasPrefix(name, "minikctl-") {
			w.cgroups = name[:strings.LastIndexByte(name, '-')+1]
		}
	}
	pod, err := w.clients().CoreV1().Pods("default").Get(w.t.Context(), "data-0", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	network, err := strconv.ParseUint(strings.Split(pod.Status.PodIP, ".")[1], 10, 8)
	if err != nil {
		w.t.Fatal(err)
	}
	w.addrs = fmt.Sprintf("%02X7F:", network)
}

// clear deletes all that deploy and use have created, and waits for its end.
func (w *faultWorld) clear() {
	w.t.Helper()
	w.minikctl("delete", "statefulsets,services,configmaps,pods", "-l", "test=faults", "--timeout", "120s")
	w.settle("the end of the pods and volumes", func() string {
		ctx, c := w.t.Context(), w.clients().CoreV1()
		pods, err := c.Pods("default").List(ctx, metav1.ListOptions{})
		if err != nil || len(pods.Items) > 0 {
			return fmt.Sprint(err, len(pods.Items), " pods")
		}
		volumes, err := c.PersistentVolumes().List(ctx, metav1.ListOptions{})
		if err != nil || len(volumes.Items) > 0 {
			return fmt.Sprint(err, len(volumes.Items), " volumes")
		}
		return ""
	})
}

// use creates and deletes pods, and connects to the Service, until its result is called.
func (w *faultWorld) use() (stop func()) {
	ended := make(chan struct{})
	var wg sync.WaitGroup
	repeat := func(do func(n int)) {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-ended:
					return
				case <-time.After(20 * time.Millisecond):
					do(n)
				}
			}
		})
	}
	page := w.page()
	repeat(func(int) { fetch(page) })
	for i := range 2 {
		repeat(func(n int) { w.usePod(fmt.Sprintf("short-%d-%d", i, n)) })
	}
	return sync.OnceFunc(func() { close(ended); wg.Wait() })
}

// page is the address of the Service for programs outside pods.
func (w *faultWorld) page() string {
	w.t.Helper()
	svc, err := w.clients().CoreV1().Services("default").Get(w.t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return fmt.Sprintf("http://127.0.0.1:%d/", svc.Spec.Ports[0].NodePort)
}

// usePod creates a pod with volumes and a process in a session of its own, and deletes it about when it starts. Errors are those of a killed daemon.
func (w *faultWorld) usePod(name string) {
	cfg, err := clientcmd.BuildConfigFromFlags("", w.paths().Kubeconfig)
	if err != nil {
		return
	}
	cfg.Timeout, cfg.QPS = 10*time.Second, -1
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return
	}
	emptyDir := func(name string, medium corev1.StorageMedium) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium}}}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"test": "faults"}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(1)),
			Volumes:                       []corev1.Volume{emptyDir("memory", corev1.StorageMediumMemory), emptyDir("disk", "")},
			Containers: []corev1.Container{{
				Name: "c", Image: "client", Command: []string{"sh", "-c", "setsid sleep 1000 & exec sleep 1000"},
				VolumeMounts: []corev1.VolumeMount{{Name: "memory", MountPath: "/memory"}, {Name: "disk", MountPath: "/disk"}},
			}},
		},
	}
	if _, err := c.CoreV1().Pods("default").Create(w.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		return
	}
	time.Sleep(100 * time.Millisecond)                                                 // deleted at any moment of its start; no assertion depends on it
	_ = c.CoreV1().Pods("default").Delete(w.t.Context(), name, metav1.DeleteOptions{}) // clear deletes what is left
}

// fault kills a random process of the cluster and returns what it was. A killed daemon is started again.
func (w *faultWorld) fault() string {
	w.t.Helper()
	switch w.rng.IntN(4) {
	case 0:
		w.kill()
		w.pause()
		w.minikctl(w.up...)
		return "daemon"
	case 1:
		for _, path := range globbed("/proc/[0-9]*/cmdline") {
			cmdline, _ := os.ReadFile(path) // it may have just ended
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && bytes.Contains(cmdline, []byte("supervisor\x00"+w.paths().Runtime)) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				return "supervisor"
			}
		}
		return "no supervisor"
	}
	pids := w.members()
	if len(pids) == 0 {
		return "no container"
	}
	_ = syscall.Kill(pids[w.rng.IntN(len(pids))], syscall.SIGKILL) // it may have just ended
	return "container"
}

// members returns the processes of the containers, also of those whose supervisor was killed.
func (w *faultWorld) members() []int {
	var all []int
	for _, path := range globbed("/proc/[0-9]*/environ") {
		environment, _ := os.ReadFile(path) // it may have just ended
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && bytes.Contains(environment, []byte("MINIKCTL_ROOT="+w.paths().Runtime)) {
			all = append(all, pid)
		}
	}
	slices.Sort(all)
	return all
}

// serves waits until the Service answers.
func (w *faultWorld) serves() {
	w.t.Helper()
	page := w.page()
	w.settle("the Service", func() string {
		if got := fetch(page); !strings.Contains(got, "Hello from pod data-") {
			return fmt.Sprintf("got %q", got)
		}
		return ""
	})
}

// settle waits until missing returns "".
func (w *faultWorld) settle(what string, missing func() string) {
	w.t.Helper()
	last := ""
	if !within(2*time.Minute, func() bool {
		last = missing()
		return last == ""
	}) {
		w.t.Fatalf("%s\n%s: %s", w.log(), what, last)
	}
}

// footprint returns what the cluster holds of the machine, sorted. Logs, the store and files of the daemon itself change all the time and are left
// out.
func (w *faultWorld) footprint() []string {
	w.t.Helper()
	var all []string
	for _, directory := range globbed("/proc/[0-9]*") {
		command, _ := os.ReadFile(directory + "/cmdline") // it may have just ended
		environment, _ := os.ReadFile(directory + "/environ")
		if bytes.Contains(command, []byte(w.dir)) || bytes.Contains(environment, []byte(w.dir)) {
			all = append(all, "process "+strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	for _, file := range []string{"tcp", "tcp6", "udp", "udp6"} {
		b, err := os.ReadFile("/proc/net/" + file)
		if err != nil {
			continue // no IPv6
		}
		for line := range strings.Lines(string(b)) {
			const local, state, listening = 1, 3, "0A"
			f := strings.Fields(line)
			if len(f) > state && strings.Contains(f[local], w.addrs) && (f[state] == listening || strings.HasPrefix(file, "udp")) {
				all = append(all, "socket "+file+" "+f[local])
			}
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		w.t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, w.dir) {
			all = append(all, "mount "+line)
		}
	}
	if w.cgroups != "" {
		all = append(all, below("/sys/fs/cgroup", func(path string) bool { return strings.HasPrefix(filepath.Base(path), w.cgroups) })...)
	}
	for _, directory := range []string{w.paths().Runtime, w.paths().Kubelet, w.paths().Volumes, w.paths().Memory} {
		all = append(all, below(directory, func(path string) bool { return true })...)
	}
	all = append(all, below(addr.Dir(), func(path string) bool {
		owner, _ := os.ReadFile(path) // of a range of addresses
		return strings.HasPrefix(string(owner), w.dir)
	})...)
	slices.Sort(all)
	return all
}

// below returns the paths below a directory that want has.
func below(directory string, want func(path string) bool) []string {
	var all []string
	_ = filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error { // what is deleted meanwhile is not there
		if err == nil && want(path) {
			all = append(all, "file "+path)
		}
		if err == nil && entry.IsDir() && filepath.Base(filepath.Dir(path)) == wire.Containers {
			return fs.SkipDir // a container's files are its directory's
		}
		return nil
	})
	return all
}

// difference returns the lines that only one of two footprints has.
func difference(before, after []string) string {
	var out []string
	count := map[string]int{}
	for _, line := range after {
		count[line]++
	}
	for _, line := range before {
		count[line]--
	}
	for line, n := range count {
		if n != 0 {
			out = append(out, fmt.Sprintf("%+d %s", n, line))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}
