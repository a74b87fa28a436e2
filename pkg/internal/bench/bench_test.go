package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// program is the path of the built binary. The test binary itself would start differently.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "minikctl-bench")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "minikctl")
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func build(b testing.TB) {
	b.Helper()
	if _, err := os.Stat(program); err == nil {
		return
	}
	cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", program, "github.com/minikctl/minikctl/cmd/minikctl")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
}

// cluster is a daemon in its own home directory.
type cluster struct {
	b    testing.TB
	home string
}

func newCluster(b testing.TB) *cluster {
	build(b)
	return &cluster{b, b.TempDir()}
}

func (c *cluster) minikctl(args ...string) {
	c.b.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "HOME="+c.home, "KUBECONFIG=")
	if out, err := cmd.CombinedOutput(); err != nil {
		c.b.Fatalf("minikctl %v: %v\n%s", args, err, out)
	}
}

func (c *cluster) up(args ...string) { c.minikctl(append([]string{"up", "-d"}, args...)...) }
func (c *cluster) purge()            { c.minikctl("down", "--purge") }

func (c *cluster) clients() kubernetes.Interface {
	c.b.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.home, ".minikctl", "minikctl", "kubeconfig"))
	if err != nil {
		c.b.Fatal(err)
	}
	cfg.QPS = -1
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	clients, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		c.b.Fatal(err)
	}
	return clients
}

// deploy creates a Deployment and returns the times from the create until all its pods were bound and until all were Ready.
func (c *cluster) deploy(clients kubernetes.Interface, name string, replicas int32, image string) (bound, ready time.Duration) {
	c.b.Helper()
	ctx, cancel := context.WithTimeout(c.b.Context(), 2*time.Minute)
	defer cancel()
	labels := map[string]string{"app": name}
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
	began := time.Now()
	_, err = clients.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		c.b.Fatal(err)
	}
	isBound, isReady := map[string]bool{}, map[string]bool{}
	for ev := range w.ResultChan() {
		pod, ok := ev.Object.(*corev1.Pod)
		if !ok {
			c.b.Fatalf("watch: %v", ev.Object)
		}
		if pod.Spec.NodeName != "" {
			isBound[pod.Name] = true
		}
		for _, cond := range pod.Status.Conditions {
			if cond.Type == corev1.PodReady && cond.Status == corev1.ConditionTrue {
				isReady[pod.Name] = true
			}
		}
		if bound == 0 && len(isBound) == int(replicas) {
			bound = time.Since(began)
		}
		if len(isReady) == int(replicas) {
			return bound, time.Since(began)
		}
	}
	c.b.Fatalf("watch ended with %d of %d pods bound, %d ready", len(isBound), replicas, len(isReady))
	return 0, 0
}

// BenchmarkStart measures the time from the command to a daemon that responds.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		c := newCluster(b)
		b.StartTimer()
		c.up()
		b.StopTimer()
		c.purge()
		b.StartTimer()
	}
}

// BenchmarkFirstPod measures the time from the command to a Ready pod, a real process.
func BenchmarkFirstPod(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		c := newCluster(b)
		b.StartTimer()
		c.up()
		c.deploy(c.clients(), "first", 1, "minikctl.dev/web")
		b.StopTimer()
		c.purge()
		b.StartTimer()
	}
}

// BenchmarkIdleRSS reports the resident memory of an idle cluster with one node 30 s after its start, with and without file-backed
// pages.
func BenchmarkIdleRSS(b *testing.B) {
	for b.Loop() {
		c := newCluster(b)
		c.up()
		time.Sleep(30 * time.Second)
		total, anon := c.memory()
		b.ReportMetric(total, "MiB")
		b.ReportMetric(anon, "MiB-anon")
		c.purge()
	}
}

// memory returns the resident memory of the cluster's processes in MiB, those of its supervisor and keeper included.
func (c *cluster) memory() (total, anon float64) {
	envs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		c.b.Fatal(err)
	}
	for _, path := range envs {
		if !c.owns(filepath.Dir(path)) {
			continue
		}
		f, err := os.Open(filepath.Join(filepath.Dir(path), "status"))
		if err != nil {
			continue
		}
		for s := bufio.NewScanner(f); s.Scan(); {
			field := strings.Fields(s.Text())
			if len(field) < 2 {
				continue
			}
			kib, _ := strconv.ParseFloat(field[1], 64)
			switch field[0] {
			case "VmRSS:":
				total += kib / 1024
			case "RssAnon:":
				anon += kib / 1024
			}
		}
		f.Close()
	}
	return total, anon
}

// owns reports whether the process of a directory of /proc is the cluster's. The supervisor and the keeper have no HOME, but a title with the
// cluster's directory.
func (c *cluster) owns(proc string) bool {
	env, err := os.ReadFile(filepath.Join(proc, "environ"))
	if err != nil {
		return false
	}
	title, err := os.ReadFile(filepath.Join(proc, "cmdline"))
	if err != nil {
		return false
	}
	return bytes.Contains(env, []byte("HOME="+c.home+"\x00")) ||
		bytes.HasPrefix(title, []byte("minikctl: ")) && bytes.Contains(title, []byte("\x00"+c.home+"/"))
}

// BenchmarkFive measures "create deployment --replicas=5" until all are Ready, with real processes on a warm cluster.
func BenchmarkFive(b *testing.B) {
	c := newCluster(b)
	c.up("--nodes", "3")
	defer c.purge()
	clients := c.clients()
	i := 0
	for b.Loop() {
		i++
		name := fmt.Sprint("five-", i)
		_, ready := c.deploy(clients, name, 5, "minikctl.dev/web")
		b.ReportMetric(float64(ready.Microseconds())/1000, "ms-ready")
		b.StopTimer()
		c.remove(clients, name)
		b.StartTimer()
	}
}

// BenchmarkThousand measures 1,000 replicas on 100 simulated nodes until all are bound and Ready.
func BenchmarkThousand(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		c := newCluster(b)
		c.up("--sim-nodes", "100")
		clients := c.clients()
		c.awaitNodes(clients, 100)
		b.StartTimer()
		bound, ready := c.deploy(clients, "thousand", 1000, "nginx")
		b.StopTimer()
		b.ReportMetric(float64(bound.Milliseconds()), "ms-bound")
		b.ReportMetric(float64(ready.Milliseconds()), "ms-ready")
		events, err := clients.CoreV1().Events("default").List(b.Context(), metav1.ListOptions{})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(events.Items)), "events")
		c.purge()
		b.StartTimer()
	}
}

func (c *cluster) awaitNodes(clients kubernetes.Interface, n int) {
	c.b.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		list, err := clients.CoreV1().Nodes().List(c.b.Context(), metav1.ListOptions{})
		if err != nil {
			c.b.Fatal(err)
		}
		ready := 0
		for _, node := range list.Items {
			if len(node.Spec.Taints) == 0 {
				ready++
			}
		}
		if ready >= n {
			return
		}
	}
	c.b.Fatalf("not all of %d nodes became ready", n)
}

func (c *cluster) remove(clients kubernetes.Interface, name string) {
	c.b.Helper()
	if err := clients.AppsV1().Deployments("default").Delete(c.b.Context(), name, metav1.DeleteOptions{}); err != nil {
		c.b.Fatal(err)
	}
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		list, err := clients.CoreV1().Pods("default").List(c.b.Context(), metav1.ListOptions{LabelSelector: "app=" + name})
		if err != nil {
			c.b.Fatal(err)
		}
		if len(list.Items) == 0 {
			return
		}
	}
	c.b.Fatalf("the pods of %s are not gone", name)
}
