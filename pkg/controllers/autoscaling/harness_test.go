package autoscaling_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/controllers/controllertest"
	"github.com/minikctl/minikctl/pkg/objects/metrics"
)

var (
	hpas         = autoscalingv2.SchemeGroupVersion.WithResource("horizontalpodautoscalers")
	apiServices  = apiregistrationv1.SchemeGroupVersion.WithResource("apiservices")
	endpoints    = discoveryv1.SchemeGroupVersion.WithResource("endpointslices")
	targetPolicy = metav1.DeletePropagationBackground
)

// cluster is a cluster with one node, whose kubelet reports what the test sets. Time passes in steps of the autoscaler's period.
type cluster struct {
	*controllertest.Cluster
	clock *testclock.FakeClock

	mu   sync.Mutex
	used corev1.ResourceList // of each container; nil: unknown
}

// both runs a test with the controllers in the server's process, and once more with the controllers in another.
func both(t *testing.T, test func(c *cluster)) {
	for name, start := range map[string]func(testing.TB, *testclock.FakeClock) *controllertest.Cluster{
		"in process": func(t testing.TB, clk *testclock.FakeClock) *controllertest.Cluster {
			return controllertest.Start(t, clk)
		},
		"over HTTP": func(t testing.TB, clk *testclock.FakeClock) *controllertest.Cluster {
			return controllertest.StartRemoteOn(t, clk)
		},
	} {
		t.Run(name, func(t *testing.T) {
			clk := testclock.NewFakeClock(time.Now()) //nolint:forbidigo // near the server's
			c := &cluster{Cluster: start(t, clk), clock: clk}
			c.addNode()
			test(c)
		})
	}
}

// addNode adds the node with its kubelet.
func (c *cluster) addNode() {
	kubelet := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != metrics.ReportedPods {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(metrics.Report{Pods: c.report(r.URL.Query().Get("namespace"))})
	}))
	kubelet.Config.ErrorLog = log.New(io.Discard, "", 0) // of connections that end with the test
	kubelet.StartTLS()
	c.Cleanup(kubelet.Close)
	address := kubelet.Listener.Addr().(*net.TCPAddr)
	controllertest.Create(c.Cluster, client.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	controllertest.Create(c.Cluster, client.Leases, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n", Namespace: "kube-node-lease"}})
	c.Merge(client.Target{Resource: client.Nodes, Name: "n", Subresource: "status"}, fmt.Sprintf(
		`{"status":{"addresses":[{"type":"InternalIP","address":"127.0.0.1"}],"daemonEndpoints":{"kubeletEndpoint":{"Port":%d}},
		"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","message":"kubelet is posting ready status"}]}}`, address.Port))
}

// report returns what the pods of a namespace use.
func (c *cluster) report(namespace string) (out []v1beta1.PodMetrics) {
	c.mu.Lock()
	used := c.used
	c.mu.Unlock()
	if used == nil {
		return nil
	}
	for _, p := range c.Caches.Pods().List(namespace, nil) {
		m := v1beta1.PodMetrics{
			ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace},
			Timestamp:  metav1.NewTime(c.clock.Now()), Window: metav1.Duration{Duration: 15 * time.Second},
		}
		for _, container := range p.Spec.Containers {
			m.Containers = append(m.Containers, v1beta1.ContainerMetrics{Name: container.Name, Usage: used})
		}
		out = append(out, m)
	}
	return out
}

// use sets what each container uses.
func (c *cluster) use(cpu, memory string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// pass lets periods pass until a condition holds. Pods become ready, and have been so for long; the node stays healthy.
func (c *cluster) pass(what string, holds func() bool) {
	c.Helper()
	c.Until(what, func() bool {
		c.runPods()
		if holds() {
			return true
		}
		c.Merge(controllertest.At(client.Leases, "kube-node-lease/n"),
			fmt.Sprintf(`{"spec":{"renewTime":%q}}`, c.clock.Now().UTC().Format(metav1.RFC3339Micro)))
		c.clock.Step(15 * time.Second)
		return false
	})
}

// runPods makes pending pods ready, since nine minutes.
func (c *cluster) runPods() {
	c.Helper()
	for _, p := range controllertest.List[*corev1.Pod](c.Cluster, client.Pods) {
		if p.Status.Phase != corev1.PodPending || p.DeletionTimestamp != nil {
			continue
		}
		start := c.clock.Now().Add(-10 * time.Minute)
		c.Merge(controllertest.At(client.Pods, p.Name).Sub("status"), fmt.Sprintf(
			`{"status":{"phase":"Running","startTime":%q,"conditions":[{"type":"Ready","status":"True","lastTransitionTime":%q}]}}`,
			start.UTC().Format(time.RFC3339), start.Add(time.Minute).UTC().Format(time.RFC3339)))
	}
}

// app is the name of the Deployment that the autoscaler of a name scales. It differs because the recorders of two controllers give Events
// about objects of one name the same name while the clock stands.
func app(name string) string { return "app-" + name }

// deploy creates a Deployment whose containers request 100m and run on the node.
func (c *cluster) deploy(name string, replicas int32) {
	c.Helper()
	labels := map[string]string{"app": name}
	limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	controllertest.Create(c.Cluster, client.Deployments, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: app(name), Namespace: "default"},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{
				{Name: "c", Image: "nginx", Resources: corev1.ResourceRequirements{Requests: limits}},
				{Name: "d", Image: "nginx", Resources: corev1.ResourceRequirements{Requests: limits}},
			}},
		}},
	})
	c.Until("pods", func() bool {
		c.runPods()
		d, _ := controllertest.Get[*appsv1.Deployment](c.Cluster, client.Deployments, app(name))
		return d.Status.ReadyReplicas == replicas
	})
}

// autoscale creates an autoscaler of its Deployment with a spec in YAML.
func (c *cluster) autoscale(name, spec string) {
	c.Helper()
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	if err := yaml.UnmarshalStrict([]byte(spec), &h.Spec); err != nil {
		c.Fatal(err)
	}
	if h.Spec.ScaleTargetRef.Kind == "" {
		h.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: app(name)}
	}
	controllertest.Create(c.Cluster, hpas, h)
}

func (c *cluster) hpa(name string) *autoscalingv2.HorizontalPodAutoscaler {
	c.Helper()
	h, ok := controllertest.Get[*autoscalingv2.HorizontalPodAutoscaler](c.Cluster, hpas, name)
	if !ok {
		c.Fatalf("no autoscaler %s", name)
	}
	return h
}

// replicas returns those of a Deployment's spec.
func (c *cluster) replicas(name string) int32 {
	c.Helper()
	d, _ := controllertest.Get[*appsv1.Deployment](c.Cluster, client.Deployments, app(name))
	return *d.Spec.Replicas
}

// conditions returns "TYPE STATUS REASON" of each condition.
func (c *cluster) conditions(name string) string {
	c.Helper()
	var out []string
	for _, x := range c.hpa(name).Status.Conditions {
		out = append(out, fmt.Sprintf("%s %s %s", x.Type, x.Status, x.Reason))
	}
	return strings.Join(out, ", ")
}

// event waits for an Event about an object. The recorder pauses for milliseconds of the clock.
func (c *cluster) event(name, want string) {
	c.Helper()
	defer func() {
		if c.Failed() {
			c.Logf("Events: %q", c.EventsOf(name))
		}
	}()
	c.Until(want, func() bool {
		c.clock.Step(10 * time.Millisecond)
		return slices.Contains(c.EventsOf(name), want)
	})
}

// defineLamps defines a custom resource that has a scale without a selector.
func (c *cluster) defineLamps() schema.GroupVersionResource {
	c.Helper()
	lamps := schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "lamps"}
	c.Define("Lamp", lamps, apiextensionsv1.NamespaceScoped)
	scale := client.Patch{Type: types.JSONPatchType, Data: []byte(`[{"op": "add", "path": "/spec/versions/0/subresources",
		"value": {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}}]`)}
	at := controllertest.At(controller.CustomResourceDefinitions, "/lamps.example.org")
	if _, err := c.Patch(c.Context(), at, scale, metav1.PatchOptions{}); err != nil {
		c.Fatal(err)
	}
	return lamps
}

// extend registers an extension server for the custom and the external metrics: 11 requests a second of each pod, 115 hits of the
// Ingress main, and two queues with 300 entries together.
func (c *cluster) extend() {
	c.Helper()
	l, err := net.Listen("tcp", "127.77.0.2:0")
	if err != nil {
		c.Skipf("no address for the extension server: %v", err)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(c.serveMetrics))
	srv.Listener.Close()
	srv.Listener = l
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	c.Cleanup(srv.Close)
	controllertest.Create(c.Cluster, client.Services, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "adapter", Namespace: "default"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443}}},
	})
	controllertest.Create(c.Cluster, endpoints, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "adapter", Namespace: "default", Labels: map[string]string{discoveryv1.LabelServiceName: "adapter"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new("https"), Port: new(int32(l.Addr().(*net.TCPAddr).Port))}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"127.77.0.2"}}},
	})
	for _, gv := range [][2]string{{"custom.metrics.k8s.io", "v1beta2"}, {"external.metrics.k8s.io", "v1beta1"}} {
		controllertest.Create(c.Cluster, apiServices, &apiregistrationv1.APIService{
			ObjectMeta: metav1.ObjectMeta{Name: gv[1] + "." + gv[0]},
			Spec: apiregistrationv1.APIServiceSpec{Group: gv[0], Version: gv[1], GroupPriorityMinimum: 100, VersionPriority: 100, InsecureSkipTLSVerify: true,
				Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "adapter"}},
		})
	}
}

func (c *cluster) serveMetrics(w http.ResponseWriter, r *http.Request) {
	custom, external := "/apis/custom.metrics.k8s.io/v1beta2", "/apis/external.metrics.k8s.io/v1beta1"
	value := func(kind, name, value string) string {
		return fmt.Sprintf(`{"describedObject":{"kind":%q,"namespace":"default","name":%q},"metric":{"name":"m"},"timestamp":"2026-01-01T00:00:00Z","value":%q}`, kind, name, value)
	}
	list := func(version, kind string, items ...string) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"apiVersion":%q,"kind":%q,"metadata":{},"items":[%s]}`, version, kind, strings.Join(items, ","))
	}
	switch path := r.URL.Path; {
	case path == custom || path == external:
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"apiVersion":"v1","kind":"APIResourceList","groupVersion":%q,"resources":[]}`, strings.TrimPrefix(path, "/apis/"))
	case path == custom+"/namespaces/default/pods/*/rps" && r.URL.Query().Get("labelSelector") == "app=web":
		var items []string
		for _, p := range c.Caches.Pods().List("default", nil) {
			items = append(items, value("Pod", p.Name, "11"))
		}
		list("custom.metrics.k8s.io/v1beta2", "MetricValueList", items...)
	case path == custom+"/namespaces/default/ingresses.networking.k8s.io/main/hits":
		list("custom.metrics.k8s.io/v1beta2", "MetricValueList", value("Ingress", "main", "115"))
	case path == external+"/namespaces/default/queue" && r.URL.Query().Get("labelSelector") == "q=a":
		one := `{"metricName":"queue","metricLabels":{"q":"a"},"timestamp":"2026-01-01T00:00:00Z","value":"150"}`
		list("external.metrics.k8s.io/v1beta1", "ExternalMetricValueList", one, one)
	default:
		http.NotFound(w, r)
	}
}
