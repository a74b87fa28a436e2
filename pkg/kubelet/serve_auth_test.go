package kubelet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/health"
)

// verified returns a connection with the client certificate of a user.
func verified(user string, groups ...string) *tls.ConnectionState {
	cert := &x509.Certificate{Subject: pkix.Name{CommonName: user, Organization: groups}}
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}, VerifiedChains: [][]*x509.Certificate{{cert}}}
}

var asAPIServer = verified("kube-apiserver-kubelet-client")

// call makes a request of the kubelet's server. The host is the name of a node, or an address.
func (r *rig) call(method, host, path string, conn *tls.ConnectionState, token string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, path, nil)
	req.Host, req.TLS = host, conn
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	(&Server{host: r.host}).Handler().ServeHTTP(w, req)
	return w
}

// grant gives a user a verb on a subresource of nodes, of all or of those with names.
func (r *rig) grant(user, verb, subresource string, names ...string) {
	r.t.Helper()
	group := rbacv1.SchemeGroupVersion
	name := strings.Join(append([]string{user, verb, subresource}, names...), "-")
	r.create(client.Target{Resource: group.WithResource("clusterroles")}, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{verb}, APIGroups: []string{""}, Resources: []string{"nodes/" + subresource}, ResourceNames: names},
	}})
	r.create(client.Target{Resource: group.WithResource("clusterrolebindings")}, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: []rbacv1.Subject{{APIGroup: group.Group, Kind: "User", Name: user}},
		RoleRef: rbacv1.RoleRef{APIGroup: group.Group, Kind: "ClusterRole", Name: name},
	})
}

// TestServerAccess: clients show a certificate or a token, and need a right to the subresource of the node.
func TestServerAccess(t *testing.T) {
	r := newRig(t)
	unverified := verified("kube-apiserver-kubelet-client")
	unverified.VerifiedChains = nil
	plain := &tls.ConnectionState{}
	const alice, bob = apiservertest.AliceToken, apiservertest.BobToken
	r.grant("alice", "get", "metrics")
	r.grant("bob", "get", "pods", "n1")
	r.grant("carol", "create", "checkpoint")
	for _, c := range []struct {
		name, method, host, path string
		conn                     *tls.ConnectionState
		token                    string
		code                     int
		body                     string
	}{
		{"the API server", "GET", "n1", "/pods", asAPIServer, "", 200, "PodList"},
		{"an administrator", "GET", "n1", "/stats/summary", verified("me", "system:masters"), "", 200, `"nodeName":"n1"`},
		{"another node", "GET", "n1", "/healthz", verified("system:node:n2", "system:nodes"), "", 403, "Forbidden (user=system:node:n2, verb=get, resource=nodes, subresource(s)=[healthz proxy])\n\n"},
		{"an unverified certificate", "GET", "n1", "/healthz", unverified, "", 401, "Unauthorized\n"},
		{"no encryption", "GET", "n1", "/healthz", nil, alice, 401, "Unauthorized\n"},
		{"no credentials", "GET", "n1", "/healthz", plain, "", 401, "Unauthorized\n"},
		{"an unknown token", "GET", "n1", "/healthz", plain, "nobody", 401, "Unauthorized\n"},
		{"a path that does not exist", "GET", "n1", "/other", plain, alice, 403, "Forbidden (user=alice, verb=get, resource=nodes, subresource(s)=[proxy])\n\n"},
		{"metrics", "GET", "n1", "/metrics", plain, alice, 200, "kubelet_node_name"},
		{"metrics of resources", "GET", "127.0.0.1:10250", "/metrics/resource", plain, alice, 200, "scrape_error 0"},
		{"statistics without the right", "GET", "n1", "/stats/summary", plain, alice, 403, "Forbidden (user=alice, verb=get, resource=nodes, subresource(s)=[stats])\n\n"},
		{"pods of the node", "GET", "n1", "/pods", plain, bob, 200, "PodList"},
		{"health", "GET", "n1", "/healthz?verbose", asAPIServer, "", 200, "[+]ping ok\n[+]log ok\n[+]syncloop ok\nhealthz check passed\n"},
		{"one check", "GET", "n1", "/healthz/syncloop", asAPIServer, "", 200, "ok"},
		{"results of checks", "GET", "n1", "/metrics/slis", plain, alice, 200, ""},
		{"state", "GET", "n1", "/statusz", asAPIServer, "", 200, "\nPaths: /checkpoint /configz /flagz /healthz /metrics /pods /stats /statusz\n"},
		{"state without the right", "GET", "n1", "/statusz", plain, alice, 403, "Forbidden (user=alice, verb=get, resource=nodes, subresource(s)=[statusz])\n\n"},
		{"flags", "GET", "n1", "/flagz", asAPIServer, "", 200, "\nkubelet flagz\n"},
		{"flags without the right", "GET", "n1", "/flagz", plain, alice, 403, "Forbidden (user=alice, verb=get, resource=nodes, subresource(s)=[configz])\n\n"},
		{"the configuration", "GET", "n1", "/configz", asAPIServer, "", 200, `"kubeletconfig":{"apiVersion":"kubelet.config.k8s.io/v1beta1"`},
		{"the configuration without the right", "GET", "n1", "/configz", plain, alice, 403, "Forbidden (user=alice, verb=get, resource=nodes, subresource(s)=[configz proxy])\n\n"},
		{"the verbosity of the log", "GET", "n1", "/debug/flags/v", asAPIServer, "", 406, ""},
		{"a verbosity that is no number", "PUT", "n1", "/debug/flags/v", asAPIServer, "", 400, ""},
		{"the verbosity without the right", "PUT", "n1", "/debug/flags/v", plain, alice, 403, "Forbidden (user=alice, verb=update, resource=nodes, subresource(s)=[proxy])\n\n"},
		{"exec", "POST", "n1", "/exec/default/p/c", plain, alice, 403, "Forbidden (user=alice, verb=create, resource=nodes, subresource(s)=[proxy])\n\n"},
		{"checkpoint of no pod", "POST", "n1", "/checkpoint/default/none/c", verified("carol"), "", 404, "not found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var w *httptest.ResponseRecorder
			r.until("the rights are there", func() string {
				if w = r.call(c.method, c.host, c.path, c.conn, c.token); w.Code == c.code {
					return ""
				}
				return w.Body.String()
			})
			if got := w.Body.String(); c.code < 400 && !strings.Contains(got, c.body) || c.code == 401 && got != c.body || c.code == 403 && got != c.body {
				t.Errorf("got %q, want %q", got, c.body)
			}
		})
	}
}

// TestStalledSyncLoop: the kubelet is unhealthy while an iteration of its sync loop takes too long.
func TestStalledSyncLoop(t *testing.T) {
	r := newRig(t)
	k := &Kubelet{host: r.host} // which does not run
	for _, c := range []struct {
		since time.Duration
		code  int
	}{{maxIteration - time.Minute, http.StatusOK}, {maxIteration + time.Minute, http.StatusInternalServerError}} {
		k.iterating.Store(time.Now().Add(-c.since).UnixNano())
		w := httptest.NewRecorder()
		health.NewServer().Serve(w, httptest.NewRequest("GET", "/healthz", nil), checksOf([]*Kubelet{k}))
		if w.Code != c.code {
			t.Errorf("after %s: %d %s", c.since, w.Code, w.Body)
		}
	}
}

// TestServerOfSeveralNodes: a request is about the node that is its host. One about a single node is refused without a name, and a right to one node is
// none to all.
func TestServerOfSeveralNodes(t *testing.T) {
	r := newRig(t)
	second, err := New(Config{Node: NodeConfig{Name: "n2", Tier: processTier}, Host: r.host, Client: r.api, Runtime: r.runtime})
	if err != nil {
		t.Fatal(err)
	}
	r.host.add(second)
	defer r.host.drop(second)
	r.grant("bob", "get", "pods", "n1")
	plain := &tls.ConnectionState{}
	r.until("the right to one node", func() string {
		if w := r.call("GET", "n1:10250", "/pods", plain, apiservertest.BobToken); w.Code != http.StatusOK {
			return w.Body.String()
		}
		return ""
	})
	for _, host := range []string{"n2", "127.0.0.1:10250"} {
		if w := r.call("GET", host, "/pods", plain, apiservertest.BobToken); w.Code != http.StatusForbidden {
			t.Errorf("host %s: %d", host, w.Code)
		}
	}
	r.pod("p", corev1.PodSpec{})
	r.waitSummary("p", "Running c:running+started+ready")
	for host, want := range map[string]int{"n1": http.StatusInternalServerError, "n2": http.StatusNotFound, "127.0.0.1": http.StatusInternalServerError} {
		if w := r.call("POST", host, "/checkpoint/default/p/c", asAPIServer, ""); w.Code != want {
			t.Errorf("a pod of n1, host %s: %d, want %d", host, w.Code, want)
		}
	}
	if w := r.call("GET", "127.0.0.1", "/stats/summary", asAPIServer, ""); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "2 nodes share this address") {
		t.Errorf("without a name: %d %s", w.Code, w.Body)
	}
	var s stats.Summary
	if w := r.call("GET", "n2", "/stats/summary", asAPIServer, ""); json.Unmarshal(w.Body.Bytes(), &s) != nil || s.Node.NodeName != "n2" {
		t.Errorf("n2: %d %s", w.Code, w.Body)
	}
}

// metered is a runtime whose containers use what the test says.
type metered struct {
	*fakeRuntime
	cpu    time.Duration
	memory int64
}

func (m *metered) Usage(_ context.Context, pods []Pod) (map[ContainerID]Usage, error) {
	out := map[ContainerID]Usage{}
	for _, p := range pods {
		for _, c := range p.Containers {
			out[c.ID] = Usage{Time: m.clock.Now(), Window: time.Second, CPUTime: m.cpu, Resources: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: *resource.NewQuantity(m.memory, resource.BinarySI),
			}}
		}
	}
	return out, nil
}

// TestSummary: the Summary API and the metrics of a running pod. The CPU time of the node does not fall when a container ends.
func TestSummary(t *testing.T) {
	m := &metered{cpu: 3 * time.Second, memory: 1 << 20}
	r := newRig(t, func(_ *HostConfig, c *Config) {
		m.fakeRuntime = c.Runtime.(*fakeRuntime)
		c.Runtime = m
	})
	limits := corev1.ResourceRequirements{Limits: corev1.ResourceList{
		corev1.ResourceMemory: resource.MustParse("3Mi"), corev1.ResourceCPU: resource.MustParse("500m"),
	}}
	pod := r.pod("p", corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Resources: limits}},
		Volumes:    []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	})
	r.waitSummary("p", "Running c:running+started+ready")
	read := func(query string) (s stats.Summary) {
		w := r.call("GET", "n1", "/stats/summary"+query, asAPIServer, "")
		if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
			t.Fatalf("%v: %s", err, w.Body)
		}
		return s
	}
	s := read("")
	if len(s.Pods) != 1 || len(s.Pods[0].Containers) != 1 {
		t.Fatalf("got %+v", s)
	}
	p := s.Pods[0]
	c := p.Containers[0]
	if p.PodRef != (stats.PodReference{Name: "p", Namespace: "default", UID: string(pod.UID)}) || c.Name != "c" {
		t.Errorf("got the pod %+v and the container %s", p.PodRef, c.Name)
	}
	for name, got := range map[string]*stats.CPUStats{"container": c.CPU, "pod": p.CPU, "node": s.Node.CPU} {
		if got == nil || *got.UsageNanoCores != 250e6 || *got.UsageCoreNanoSeconds != 3e9 {
			t.Errorf("CPU of the %s: %+v", name, got)
		}
	}
	if *c.Memory.WorkingSetBytes != 1<<20 || *c.Memory.AvailableBytes != 2<<20 || *s.Node.Memory.WorkingSetBytes != 1<<20 {
		t.Errorf("memory: %+v of the container, %+v of the node", c.Memory, s.Node.Memory)
	}
	if len(p.VolumeStats) != 1 || p.VolumeStats[0].Name != "v" || p.EphemeralStorage == nil || c.Logs == nil || s.Node.Fs == nil {
		t.Errorf("files: %+v, %+v, %+v, %+v", p.VolumeStats, p.EphemeralStorage, c.Logs, s.Node.Fs)
	}
	if s := read("?only_cpu_and_memory=true"); len(s.Pods[0].VolumeStats) != 0 || s.Node.Fs != nil || s.Pods[0].CPU == nil {
		t.Errorf("without files: %+v", s)
	}
	r.metrics("/metrics/resource", `container_cpu_usage_seconds_total{container="c",namespace="default",pod="p"} 3 `,
		`container_memory_working_set_bytes{container="c",namespace="default",pod="p"} 1.048576e+06 `,
		`pod_cpu_usage_seconds_total{namespace="default",pod="p"} 3 `, "node_cpu_usage_seconds_total 3 ", "resource_scrape_error 0\n")
	r.metrics("/metrics/cadvisor", `container_spec_cpu_quota{container="c",id="/kubepods/pod`, `container_spec_memory_limit_bytes{container="c",`,
		`container_cpu_usage_seconds_total{container="",cpu="total",id="/kubepods/pod`+string(pod.UID)+`",image="",name="",namespace="default",pod="p"} 3 `)
	r.metrics("/metrics", `kubelet_node_name{node="n1"} 1`, "kubelet_running_pods 1", `kubelet_running_containers{container_state="running"} 1`, "go_goroutines")
	r.exit(pod, "c", 1)
	m.cpu = time.Second
	r.waitSummary("p", "Running c:running<Error=1#1+started+ready")
	if s := read(""); *s.Node.CPU.UsageCoreNanoSeconds != 4e9 || *s.Pods[0].Containers[0].CPU.UsageCoreNanoSeconds != 1e9 {
		t.Errorf("after a restart: %d of the node, %d of the container", *s.Node.CPU.UsageCoreNanoSeconds, *s.Pods[0].Containers[0].CPU.UsageCoreNanoSeconds)
	}
	if w := r.call("POST", "n1", "/checkpoint/default/p/c", asAPIServer, ""); w.Code != http.StatusInternalServerError ||
		!strings.Contains(w.Body.String(), "checkpointing of default/p/c failed") {
		t.Errorf("checkpoint: %d %s", w.Code, w.Body)
	}
}

// metrics checks that the metrics of a path have lines with these texts.
func (r *rig) metrics(path string, want ...string) {
	r.t.Helper()
	w := r.call("GET", "n1", path, asAPIServer, "")
	for _, text := range want {
		if !strings.Contains(w.Body.String(), text) {
			r.t.Errorf("%s: no %s among\n%s", path, text, w.Body)
		}
	}
}

// TestProbeMetrics: the checks of probes are counted by their results, and their series end with the pod.
func TestProbeMetrics(t *testing.T) {
	r := newRig(t)
	r.runtime.exec = func(_ ContainerID, cmd []string, _ Streams) (int, error) {
		if cmd[0] == "fail" {
			return 1, nil
		}
		return 0, nil
	}
	probe := func(cmd string) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{cmd}}}, FailureThreshold: 1000}
	}
	r.pod("p", corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(0)), Containers: []corev1.Container{{Name: "c", LivenessProbe: probe("true"), ReadinessProbe: probe("fail")}}})
	r.waitSummary("p", "Running c:running+started")
	r.until("both probes are counted", func() string {
		r.advance(time.Second)
		body := r.call("GET", "n1", "/metrics/probes", asAPIServer, "").Body.String()
		for _, text := range []string{
			`prober_probe_total{container="c",namespace="default",pod="p",pod_uid="`, `probe_type="Liveness",result="successful"} `,
			`probe_type="Readiness",result="failed"} `, `prober_probe_duration_seconds_count{container="c",namespace="default",pod="p",probe_type="Liveness"} `,
		} {
			if !strings.Contains(body, text) {
				return text + " is not among\n" + body
			}
		}
		return ""
	})
	r.delete("p")
	r.until("the series have ended", func() string {
		r.advance(time.Second)
		return r.call("GET", "n1", "/metrics/probes", asAPIServer, "").Body.String()
	})
}
