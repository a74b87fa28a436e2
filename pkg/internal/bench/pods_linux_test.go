package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/minikctl/minikctl/pkg/internal/measured"
)

// TestPodStart prints how long pods with three volumes, the cluster's DNS and the variables of two Services take from the request of their
// creation until a client sees them Ready, alone and many at once, and how much memory one takes.
func TestPodStart(t *testing.T) {
	measured.Only(t)
	c := newCluster(t)
	c.up("--nodes", "6")
	defer c.purge()
	clients := c.clients()
	startObjects(t, clients)
	c.startPods(clients, "first", 1, true) // reads what later pods have in caches
	var alone []time.Duration
	for i := range 40 {
		alone = append(alone, c.startPods(clients, fmt.Sprintf("alone-%d", i), 1, true)...)
	}
	t.Logf("%d pods, one after the other: %s", len(alone), spreadOf(alone))
	for range 3 {
		t.Logf("64 pods at once: %s", spreadOf(c.startPods(clients, "some", 64, true)))
	}
	const many = 500
	before := c.usage()
	t.Logf("%d pods at once: %s", many, spreadOf(c.startPods(clients, "many", many, false)))
	after := c.usage()
	for _, part := range []string{"daemon", "supervisor", "pods"} {
		a, b := before[part], after[part]
		t.Logf("the %s: memory %d → %d KiB, %d KiB a pod; %s of processor time a pod", part, a.memory, b.memory, (b.memory-a.memory)/many, (b.cpu-a.cpu)/many)
	}
}

func startObjects(t *testing.T, clients kubernetes.Interface) {
	t.Helper()
	ctx, core := t.Context(), clients.CoreV1()
	_, err := core.ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"key": "value"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"shop", "stock"} {
		_, err := core.Services("default").Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	// Every pod also has the token of its ServiceAccount, which a controller makes.
	for {
		if _, err = core.ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{}); err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// startPods creates n pods, of 16 clients at once, and returns how long each took until it was Ready. It checks that the first one has what
// this test is about, and deletes them if remove is set.
func (c *cluster) startPods(clients kubernetes.Interface, name string, n int, remove bool) []time.Duration {
	c.b.Helper()
	ctx, cancel := context.WithTimeout(c.b.Context(), 5*time.Minute)
	defer cancel()
	pods := clients.CoreV1().Pods("default")
	list, err := pods.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		c.b.Fatal(err)
	}
	w, err := pods.Watch(ctx, metav1.ListOptions{LabelSelector: "app=" + name, ResourceVersion: list.ResourceVersion})
	if err != nil {
		c.b.Fatal(err)
	}
	defer w.Stop()
	var mu sync.Mutex
	began, took := map[string]time.Time{}, map[string]time.Duration{}
	next := make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	var creating sync.WaitGroup
	for range 16 {
		creating.Go(func() {
			for i := range next {
				pod := startedPod(name, i)
				mu.Lock()
				began[pod.Name] = time.Now()
				mu.Unlock()
				if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
					c.b.Error(err)
					cancel()
				}
			}
		})
	}
	for ev := range w.ResultChan() {
		pod, ok := ev.Object.(*corev1.Pod)
		if !ok {
			c.b.Fatalf("watch: %v", ev.Object)
		}
		if _, seen := took[pod.Name]; !seen && isReady(pod) {
			mu.Lock()
			took[pod.Name] = time.Since(began[pod.Name])
			mu.Unlock()
		}
		if len(took) == n {
			break
		}
	}
	creating.Wait()
	if len(took) < n {
		c.b.Fatalf("%d of %d pods are Ready", len(took), n)
	}
	const check = `test "$(cat "$MINIKCTL_ROOT/settings/key" 2>/dev/null || cat /settings/key)" = value && test -n "$SHOP_SERVICE_HOST$STOCK_SERVICE_HOST"`
	c.minikctl("exec", name+"-0", "--", "sh", "-c", check)
	if remove {
		c.minikctl("delete", "pods", "-l", "app="+name, "--grace-period", "1")
	}
	var out []time.Duration
	for _, d := range took {
		out = append(out, d)
	}
	return out
}

func startedPod(name string, i int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, i), Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(1)),
			Volumes: []corev1.Volume{
				{Name: "settings", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}},
				{Name: "self", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
					{Path: "name", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}},
				}}}},
				{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
			Containers: []corev1.Container{{
				Name: "c", Image: "minikctl.dev/pause",
				VolumeMounts: []corev1.VolumeMount{{Name: "settings", MountPath: "/settings"}, {Name: "self", MountPath: "/self"}, {Name: "scratch", MountPath: "/scratch"}},
			}},
		},
	}
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// spreadOf describes times.
func spreadOf(times []time.Duration) string {
	slices.Sort(times)
	at := func(percent int) time.Duration {
		return times[(len(times)-1)*percent/100].Round(100 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %s, p99 %s, the last %s", at(50), at(99), at(100))
}

// usage is the memory in KiB and the processor time of some processes. A page that many processes have mapped counts for each of them in part.
type usage struct {
	memory int
	cpu    time.Duration
}

// usage returns what the daemon, the supervisor with its keeper, and the containers' processes use.
func (c *cluster) usage() map[string]usage {
	c.b.Helper()
	directories, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		c.b.Fatal(err)
	}
	out := map[string]usage{}
	for _, directory := range directories {
		part := c.part(directory)
		rollup, err := os.ReadFile(directory + "/smaps_rollup")
		stat, failed := os.ReadFile(directory + "/stat")
		if part == "" || err != nil || failed != nil { // the process has ended, or is another user's
			continue
		}
		_, rest, _ := strings.Cut(string(rollup), "\nPss:")
		u := out[part]
		u.memory += integer(c.b, strings.Fields(rest)[0])
		const tick = 10 * time.Millisecond
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		u.cpu += time.Duration(integer(c.b, fields[11])+integer(c.b, fields[12])) * tick // of user and system
		out[part] = u
	}
	return out
}

func integer(b testing.TB, text string) int {
	b.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// part returns the part of the cluster that a process with a directory in /proc belongs to; "": none.
func (c *cluster) part(directory string) string {
	line, _ := os.ReadFile(directory + "/cmdline")
	env, _ := os.ReadFile(directory + "/environ")
	switch {
	case bytes.HasPrefix(line, []byte("minikctl: ")) && bytes.Contains(line, []byte("\x00"+c.home+"/")):
		return "supervisor"
	case bytes.Contains(env, []byte("MINIKCTL_ROOT="+c.home+"/")):
		return "pods"
	case bytes.Contains(env, []byte("HOME="+c.home+"\x00")):
		return "daemon"
	}
	return ""
}
