package apiserver_test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd/get"
	"k8s.io/kubectl/pkg/cmd/top"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/apiserver/pki"
)

// kubectlHere runs a verb of kubectl in this process, against e.
func kubectlHere(t *testing.T, e *apiservertest.Env, verb string, args ...string) string {
	t.Helper()
	pair, err := e.PKI.Admin()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(e.Dir, "kubeconfig")
	if err := pki.WriteKubeconfig(file, pki.Kubeconfig(pki.Access{Server: e.URL, CA: e.PKI.CA(), Cluster: "t", Context: "t", User: "t", Client: pair})); err != nil {
		t.Fatal(err)
	}
	flags := genericclioptions.NewConfigFlags(true)
	cache := t.TempDir()
	flags.KubeConfig, flags.CacheDir = &file, &cache
	var out strings.Builder
	f, streams := cmdutil.NewFactory(flags), genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out}
	cmd := get.NewCmdGet("kubectl", f, streams)
	if verb == "top" {
		cmd = top.NewCmdTop(f, streams)
	}
	cmdutil.BehaviorOnFatal(func(text string, _ int) { t.Fatalf("kubectl %s %v: %s", verb, args, text) })
	defer cmdutil.DefaultBehaviorOnFatal()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("kubectl %s %v: %v\n%s", verb, args, err, out.String())
	}
	return out.String()
}

// TestTopThroughExtension runs kubectl top against an extension server for metrics.
func TestTopThroughExtension(t *testing.T) {
	e := apiservertest.New(t)
	verbs := metav1.Verbs{"get", "list"}
	x := &extension{group: "metrics.k8s.io", version: "v1beta1", name: "metrics-server", resources: []metav1.APIResource{
		{Name: "nodes", Kind: "NodeMetrics", Verbs: verbs}, {Name: "pods", Namespaced: true, Kind: "PodMetrics", Verbs: verbs},
	}}
	x.serve = func(w http.ResponseWriter, r *http.Request) {
		const usage = `"timestamp":"2026-01-02T03:04:05Z","window":"10s"`
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/nodes") {
			_, _ = fmt.Fprintf(w, `{"kind":"NodeMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":[{"metadata":{"name":"n1"},%s,"usage":{"cpu":"250m","memory":"512Mi"}}]}`, usage)
			return
		}
		_, _ = io.WriteString(w, `{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":[{"metadata":{"name":"web","namespace":"default"},`+usage+
			`,"containers":[{"name":"c","usage":{"cpu":"7m","memory":"64Mi"}}]}]}`)
	}
	x.start(t, e)
	x.service(t, true)
	x.register(t, 100, 100)
	x.expect(t, "True", "Passed", "")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	if node, err := x.cs.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	} else if node.Status.Allocatable = quantities("cpu", "1", "memory", "1Gi"); true {
		if _, err := x.cs.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		want [][]string // the words of each line
	}{
		{[]string{"pods"}, [][]string{{"NAME", "CPU(cores)", "MEMORY(bytes)"}, {"web", "7m", "64Mi"}}},
		{[]string{"pods", "-A", "--containers"}, [][]string{{"NAMESPACE", "POD", "NAME", "CPU(cores)", "MEMORY(bytes)"}, {"default", "web", "c", "7m", "64Mi"}}},
		{[]string{"nodes"}, [][]string{{"NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"}, {"n1", "250m", "25%", "512Mi", "50%"}}},
	} {
		out := kubectlHere(t, e, "top", c.args...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		for i, want := range c.want {
			if i >= len(lines) || strings.Join(strings.Fields(lines[i]), " ") != strings.Join(want, " ") {
				t.Errorf("kubectl top %v: got\n%s\nwant %v", c.args, out, c.want)
				break
			}
		}
	}
}

// TestGetThroughExtension runs kubectl get with the resource names of an extension server.
func TestGetThroughExtension(t *testing.T) {
	e := apiservertest.New(t)
	x := newThings(t, e, "example.org")
	x.service(t, true)
	x.register(t, 1000, 15)
	x.expect(t, "True", "Passed", "")
	for _, name := range []string{"things", "thing/a", "th", "things.v1.example.org"} {
		if out := kubectlHere(t, e, "get", name); !strings.Contains(out, "NAME") || !strings.Contains(out, "\na ") {
			t.Errorf("kubectl get %s: %s", name, out)
		}
	}
	if out := kubectlHere(t, e, "get", "apiservices", "v1.example.org", "v1.apps"); !strings.Contains(out, "v1.example.org   default/things   True") || !strings.Contains(out, "v1.apps          Local            True") {
		t.Errorf("kubectl get apiservices: %s", out)
	}
}
