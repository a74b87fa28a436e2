package kubelet_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/remotecommand"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/apiserver/pki"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/images"
	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/kubelet/process"
	"github.com/minikctl/minikctl/pkg/network/addr"
)

const testTimeout = time.Minute

// cluster is a node of real processes against a real API server, which reaches the node's kubelet over HTTPS.
type cluster struct {
	t    *testing.T
	env  *apiservertest.Env
	api  kubernetes.Interface
	dir  string
	stop func() // ends the kubelet and its runtime; the processes run on

	processes *process.Host
}

func newWhole(t *testing.T) *cluster {
	t.Helper()
	env := apiservertest.New(t)
	api, err := kubernetes.NewForConfig(env.AdminConfig)
	if err != nil {
		t.Fatal(err)
	}
	w := &cluster{t: t, env: env, api: api, dir: t.TempDir()}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := api.CoreV1().ServiceAccounts("default").Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	root := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kube-root-ca.crt"}, Data: map[string]string{"ca.crt": string(env.PKI.CA())}}
	if _, err := api.CoreV1().ConfigMaps("default").Create(t.Context(), root, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.start()
	t.Cleanup(func() {
		w.stop()
		if err := errors.Join(w.processes.Purge(context.Background()), addr.Release(addr.Dir(), w.dir)); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *cluster) start() {
	t := w.t
	// Each test claims a range, so that pods of concurrent tests have different addresses.
	r, err := addr.Claim(addr.Dir(), w.dir)
	if err != nil {
		t.Fatal(err)
	}
	processes, err := process.Open(t.Context(), process.Config{Root: filepath.Join(w.dir, "runtime"), Range: r})
	if err != nil {
		t.Fatal(err)
	}
	directory := filepath.Join(w.dir, "image")
	if err := os.MkdirAll(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	store, err := images.New(images.Config{Map: map[string]images.Source{"nginx": {Image: "minikctl.dev/web"}, "tools": {Root: directory}}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ca := x509.NewCertPool()
	ca.AppendCertsFromPEM(w.env.PKI.CA())
	cfg, err := pki.SelfSignedKubeletTLS("n1", []string{"127.0.0.1"}, ca, clock.Real())
	if err != nil {
		t.Fatal(err)
	}
	server, err := kubelet.NewServer(l, cfg)
	if err != nil {
		t.Fatal(err)
	}
	caches := client.NewCaches(w.env.Client("kubelet"), clock.Real())
	host, err := kubelet.NewHost(kubelet.HostConfig{
		Caches: caches, Images: store, Clock: clock.Real(), Source: clock.NewSource(1), Dir: filepath.Join(w.dir, "kubelet"), Server: server,
	})
	if err != nil {
		t.Fatal(err)
	}
	node, err := kubelet.New(kubelet.Config{
		Node: kubelet.NodeConfig{Name: "n1", Tier: process.Tier}, Host: host, Client: w.env.Client("kubelet"), Runtime: processes.Runtime("n1"),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, run := range []func(context.Context) error{caches.Run, server.Run, host.Run, node.Run} {
		wg.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	w.stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		if err := processes.Close(); err != nil {
			t.Error(err)
		}
	})
	w.processes = processes
}

func (w *cluster) create(pod *corev1.Pod) {
	w.t.Helper()
	pod.Spec.NodeName = "n1"
	if _, err := w.api.CoreV1().Pods("default").Create(w.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// until waits for a condition. check returns what is missing, or "" when the condition holds.
func (w *cluster) until(what string, check func() string) {
	w.t.Helper()
	missing := ""
	for end := time.Now().Add(testTimeout); time.Now().Before(end); {
		if missing = check(); missing == "" {
			return
		}
		select {
		case <-w.t.Context().Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
	w.t.Fatalf("%s: %s", what, missing)
}

func (w *cluster) ready(name string) *corev1.Pod {
	w.t.Helper()
	var pod *corev1.Pod
	w.until(name+" is ready", func() string {
		var err error
		if pod, err = w.api.CoreV1().Pods("default").Get(w.t.Context(), name, metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return ""
			}
		}
		return fmt.Sprintf("%+v", pod.Status)
	})
	return pod
}

func (w *cluster) delete(name string) {
	w.t.Helper()
	if err := w.api.CoreV1().Pods("default").Delete(w.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.until(name+" is gone", func() string {
		pod, err := w.api.CoreV1().Pods("default").Get(w.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return ""
		}
		return fmt.Sprintf("%+v", pod.Status)
	})
}

func (w *cluster) logs(name string, opts *corev1.PodLogOptions) string {
	w.t.Helper()
	b, err := w.api.CoreV1().Pods("default").GetLogs(name, opts).DoRaw(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

// web is a pod of the built-in web server, which is ready when it responds.
func web(name, image string) *corev1.Pod {
	c := corev1.Container{Name: "web", Image: image, ReadinessProbe: &corev1.Probe{PeriodSeconds: 1}}
	c.ReadinessProbe.HTTPGet = &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt(8080)}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}
}

func TestWebServersAsProcesses(t *testing.T) {
	w := newWhole(t)
	for _, name := range []string{"a", "b"} {
		w.create(web(name, "nginx:1.27"))
	}
	for _, name := range []string{"a", "b"} {
		pod := w.ready(name)
		resp, err := http.Get("http://" + net.JoinHostPort(pod.Status.PodIP, "8080") + "/hello")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		for _, want := range []string{"pod " + name, "n1", pod.Status.PodIP, "nginx:1.27"} {
			if !strings.Contains(string(body), want) {
				t.Errorf("%q is missing in %s", want, body)
			}
		}
		w.until("the log", func() string {
			if got := w.logs(name, &corev1.PodLogOptions{TailLines: new(int64(1))}); !strings.Contains(got, "GET /hello 200") {
				return fmt.Sprintf("got %q", got)
			}
			return ""
		})
	}
	w.delete("a")
	w.delete("b")
}

func shell(name, script string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(1)), RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{Name: "sh", Image: "host", Command: []string{"sh", "-c", script}}},
	}}
}

func TestServiceAccountVolume(t *testing.T) {
	w := newWhole(t)
	w.create(shell("p", `d=$MINIKCTL_ROOT/var/run/secrets/kubernetes.io/serviceaccount; ls $d; cat $d/namespace; wc -c <$d/token; head -1 $d/ca.crt; sleep 100`))
	w.ready("p")
	w.until("the log", func() string {
		got := w.logs("p", &corev1.PodLogOptions{})
		for _, want := range []string{"ca.crt\nnamespace\ntoken\n", "default", "BEGIN CERTIFICATE"} {
			if !strings.Contains(got, want) {
				return fmt.Sprintf("got %q", got)
			}
		}
		return ""
	})
	w.delete("p")
}

func TestFollowAndPrevious(t *testing.T) {
	w := newWhole(t)
	// The container ends only after the exec command that makes it end: the end of a container kills its execs.
	pod := shell("p", `cd $MINIKCTL_ROOT; echo start; until [ -e go ]; do sleep 0.02; done; while kill -0 $(cat go) 2>&-; do sleep 0.02; done; echo end; exit 3`)
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	w.create(pod)
	w.ready("p")
	stream, err := w.api.CoreV1().Pods("default").GetLogs("p", &corev1.PodLogOptions{Follow: true, Timestamps: true}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	buf := make([]byte, 200)
	n, err := stream.Read(buf)
	if err != nil || !strings.HasSuffix(string(buf[:n]), "Z start\n") {
		t.Fatalf("got %q and %v", buf[:n], err)
	}
	if out, _, err := w.exec("p", remotecommand.NewWebSocketExecutor, "", "sh", "-c", "cd $MINIKCTL_ROOT && echo $$ >going && mv going go && echo done"); err != nil || out != "done\n" {
		t.Fatalf("exec: got %q and %v", out, err)
	}
	rest, err := io.ReadAll(stream)
	if err != nil || !strings.HasSuffix(string(rest), "Z end\n") {
		t.Errorf("got %q and %v", rest, err)
	}
	w.until("the log before", func() string {
		b, err := w.api.CoreV1().Pods("default").GetLogs("p", &corev1.PodLogOptions{Previous: true}).DoRaw(t.Context())
		if err != nil || string(b) != "start\nend\n" {
			return fmt.Sprintf("got %q and %v", b, err)
		}
		return ""
	})
	w.delete("p")
}

func TestPodsSurviveKubeletRestart(t *testing.T) {
	w := newWhole(t)
	w.create(web("p", "nginx"))
	before := w.ready("p")
	w.stop()
	resp, err := http.Get("http://" + net.JoinHostPort(before.Status.PodIP, "8080") + "/between")
	if err != nil {
		t.Fatalf("the pod does not respond while its kubelet is away: %v", err)
	}
	resp.Body.Close()
	w.start()
	w.until("the log, from the next kubelet", func() string {
		b, err := w.api.CoreV1().Pods("default").GetLogs("p", &corev1.PodLogOptions{}).DoRaw(t.Context())
		if err != nil || !strings.Contains(string(b), "GET /between 200") {
			return fmt.Sprintf("got %q and %v", b, err)
		}
		return ""
	})
	after, err := w.api.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if after.ResourceVersion != before.ResourceVersion || after.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the pod has changed: %+v", after.Status)
	}
	w.delete("p")
}

func TestNodeConditionPodsCanReadKeys(t *testing.T) {
	w := newWhole(t)
	w.until("the condition KeysProtected", func() string {
		got, err := w.env.Client("test").Get(t.Context(), client.Target{Resource: client.Nodes, Name: "n1"}, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		for _, c := range got.(*corev1.Node).Status.Conditions {
			if c.Type == "KeysProtected" {
				if c.Status != corev1.ConditionFalse || c.Reason != "PodsRunAsDaemonUser" || !strings.Contains(c.Message, "the daemon's") {
					t.Errorf("got %+v", c)
				}
				return ""
			}
		}
		return "the node has none"
	})
}

// TestExecHandlersHaveMounts runs a postStart hook and a readiness probe from a volume, and a preStop hook from the image's
// directory. Each writes to a mounted volume.
func TestExecHandlersHaveMounts(t *testing.T) {
	w := newWhole(t)
	tool := filepath.Join(w.dir, "image", "tool.sh")
	if err := os.WriteFile(tool, []byte("#!/bin/sh\ntouch $MINIKCTL_ROOT/out/stopped\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	scripts := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "scripts"}, Data: map[string]string{
		"started.sh": "#!/bin/sh\ntouch $MINIKCTL_ROOT/out/started\n",
		"ready.sh":   "#!/bin/sh\ntest -e $MINIKCTL_ROOT/out/started\n",
	}}
	if _, err := w.api.CoreV1().ConfigMaps("default").Create(t.Context(), scripts, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	pod := shell("p", "sleep 1000")
	pod.Spec.TerminationGracePeriodSeconds = new(int64(60)) // for the hook: sleep ends at once
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "scripts", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "scripts"}, DefaultMode: new(int32(0o755)),
		}}},
		{Name: "out", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: out}}},
	}
	c := &pod.Spec.Containers[0]
	c.Image, c.Command = "tools", []string{"sleep", "1000"}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "scripts", MountPath: "/scripts"}, {Name: "out", MountPath: "/out"}}
	run := func(path string) *corev1.ExecAction { return &corev1.ExecAction{Command: []string{path}} }
	c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: run("/scripts/ready.sh")}, PeriodSeconds: 1}
	c.Lifecycle = &corev1.Lifecycle{
		PostStart: &corev1.LifecycleHandler{Exec: run("/scripts/started.sh")}, PreStop: &corev1.LifecycleHandler{Exec: run("/tool.sh")},
	}
	w.create(pod)
	w.ready("p")
	w.delete("p")
	for _, name := range []string{"started", "stopped"} {
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Error(err)
		}
	}
}
