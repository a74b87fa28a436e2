// Package servicetest tests what clients see of Services, with each way that leads to them: the routes of the supervisor, by which pods
// connect to an endpoint, and the proxy, for pods on machines without them and for clients outside pods.
package servicetest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	_ "github.com/minikctl/minikctl/pkg/early"
	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/kubelet/process"
	"github.com/minikctl/minikctl/pkg/network/addr"
	"github.com/minikctl/minikctl/pkg/network/proxy"
	"github.com/minikctl/minikctl/pkg/supervisor/role"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

func TestMain(m *testing.M) {
	runAgent()
	enterNetwork()
	m.Run()
}

// way is how clients reach Services.
type way struct {
	name   string
	routes bool // the supervisor has routes
	inPods bool // the clients are in pods
}

var ways = []way{
	{name: "routes", routes: true, inPods: true},
	{name: "proxy", inPods: true},
	{name: "proxy, outside pods"},
}

// pods is how many pods there are, on two nodes in turn.
const pods = 4

// fixture is a proxy and pods beside an API server, without controllers: the test makes the EndpointSlices.
type fixture struct {
	*testing.T
	client.Client
	way
	env   *apiservertest.Env
	hosts addr.Range
	host  *process.Host
	root  string
	ips   []string // of the pods
	stop  func()   // ends the proxy

	outside map[int]*agent // the clients outside pods
	names   int            // of Services
}

func newFixture(t *testing.T, w way) *fixture {
	owner := t.TempDir()
	r, err := addr.Claim(addr.Dir(), owner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := addr.Release(addr.Dir(), owner); err != nil {
			t.Error(err)
		}
	})
	f := &fixture{T: t, way: w, hosts: r, root: owner, outside: map[int]*agent{}}
	f.env = apiservertest.New(t, func(c *apiserver.Config) { c.ServiceAddresses = r.Services() })
	f.Client = f.env.Client("service-test")
	account := client.Target{Resource: client.ServiceAccounts, Namespace: "default"}
	if _, err := f.Create(t.Context(), account, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.openHost()
	t.Cleanup(f.purge)
	for i := range pods {
		f.startPod(i)
	}
	f.startProxy()
	t.Cleanup(func() { f.stop() })
	return f
}

func (f *fixture) openHost() {
	f.Helper()
	var err error
	if f.host, err = process.Open(f.Context(), process.Config{Root: filepath.Join(f.root, "runtime"), Range: f.hosts}); err != nil {
		f.Fatal(err)
	}
	for _, feature := range f.host.Runtime(node(0)).Features() {
		if feature.Name == "PodAddresses" && !feature.OK {
			_ = f.host.Close()
			f.Skip(feature.Message)
		}
	}
}

func (f *fixture) killSupervisor() {
	f.Helper()
	if err := syscall.Kill(f.supervisor(), syscall.SIGKILL); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) purge() {
	if err := f.host.Purge(context.WithoutCancel(f.Context())); err != nil {
		f.Error(err)
	}
}

func node(pod int) string { return "node-" + strconv.Itoa(pod%2+1) }

func podName(i int) string { return "pod-" + strconv.Itoa(i) }

// startAgent starts a pod with an agent, which it returns the address of, and records it in the API.
func (f *fixture) startAgent(spec kubelet.PodSpec, node string) (ip string) {
	f.Helper()
	self, err := os.Executable()
	if err != nil {
		f.Fatal(err)
	}
	obj := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: spec.Name},
		Spec:       corev1.PodSpec{NodeName: node, HostNetwork: spec.HostNetwork, Containers: []corev1.Container{{Name: "agent", Image: "agent"}}},
	}
	t := client.Target{Resource: client.Pods, Namespace: "default"}
	made, err := f.Create(f.Context(), t, obj, metav1.CreateOptions{})
	if err != nil {
		f.Fatal(err)
	}
	obj = made.(*corev1.Pod).DeepCopy()
	spec.UID, spec.Namespace = obj.UID, obj.Namespace
	rt := f.host.Runtime(node)
	pod, err := rt.StartPod(f.Context(), spec)
	if err != nil {
		f.Fatal(err)
	}
	ip = pod.IP
	env := append([]string{agentVariable + "=" + spec.Name}, role.Inherited()...)
	if spec.HostNetwork {
		ip = f.hosts.Own(8).String()
		env = append(env, addressVariable+"="+ip)
	}
	_, err = rt.Start(f.Context(), pod.UID, kubelet.ContainerSpec{
		Name: "agent", Command: []string{self}, Env: env, LogPath: filepath.Join(f.root, spec.Name+".log"),
	})
	if err != nil {
		f.Fatal(err)
	}
	f.until("the agent of a pod", func() bool {
		_, err := ask(ip, command{Op: "none"})
		return err == nil
	})
	obj.Status.Phase, obj.Status.PodIP, obj.Status.PodIPs = corev1.PodRunning, ip, []corev1.PodIP{{IP: ip}}
	t.Name, t.Subresource = obj.Name, "status"
	if _, err := f.Update(f.Context(), t, obj, metav1.UpdateOptions{}); err != nil {
		f.Fatal(err)
	}
	return ip
}

func (f *fixture) startPod(i int) {
	f.Helper()
	f.ips = append(f.ips, f.startAgent(kubelet.PodSpec{Name: podName(i)}, node(i)))
}

func (f *fixture) startProxy() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.Context()))
	caches := client.NewCaches(f.Client, clock.Real())
	events := client.NewRecorder(f.Client, clock.Real(), clock.NewSource(1), "kube-proxy", "")
	cfg := proxy.Config{Caches: caches, Events: events, Clock: clock.Real(), Range: f.hosts, NodeIPs: []netip.Addr{f.hosts.Own(7)}}
	if f.routes {
		cfg.Routers = []proxy.Router{f.host}
	}
	p := proxy.New(cfg)
	ended := make(chan error, 3)
	for _, run := range []func(context.Context) error{caches.Run, events.Run, p.Run} {
		go func() { ended <- run(ctx) }()
	}
	stopped := false
	f.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		for range 3 {
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
				f.Error(err)
			}
		}
	}
}

// do has client i carry out a command.
func (f *fixture) do(i int, c command) []result {
	f.Helper()
	if !f.inPods {
		if f.outside[i] == nil {
			f.outside[i] = &agent{name: "outside", source: f.clientIP(i)}
		}
		return f.outside[i].do(c)
	}
	return f.inPod(i, c)
}

func (f *fixture) inPod(i int, c command) []result {
	f.Helper()
	all, err := ask(f.ips[i], c)
	if err != nil {
		f.Fatalf("pod %d: %v", i, err)
	}
	return all
}

// clientIP is the source of the connections of a client.
func (f *fixture) clientIP(i int) netip.Addr {
	if f.inPods {
		return netip.MustParseAddr(f.ips[i])
	}
	return f.hosts.Own(uint8(20 + i))
}

// dial has client i connect once.
func (f *fixture) dial(i int, network, address string) result {
	f.Helper()
	return f.do(i, command{Op: "dial", Network: network, Address: address})[0]
}

// spread has client i connect often, and returns how often each server has answered.
func (f *fixture) spread(i, n int, network, address string) map[string]int {
	f.Helper()
	got := map[string]int{}
	for _, r := range f.do(i, command{Op: "dial", Network: network, Address: address, Count: n}) {
		if r.Err != "" {
			f.Errorf("%s %s: %s", network, address, r.Err)
		}
		got[r.Server]++
	}
	return got
}

// serve has pods listen.
func (f *fixture) serve(network string, port int, in ...int) {
	f.Helper()
	for _, i := range in {
		if r := f.inPod(i, command{Op: "listen", Network: network, Address: ":" + strconv.Itoa(port)})[0]; r.Err != "" {
			f.Fatalf("pod %d listens on %d: %s", i, port, r.Err)
		}
	}
}

// service creates a Service with the ports.
func (f *fixture) service(change func(*corev1.ServiceSpec), ports ...corev1.ServicePort) *corev1.Service {
	f.Helper()
	f.names++
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("svc-%d", f.names)}, Spec: corev1.ServiceSpec{Ports: ports}}
	if change != nil {
		change(&svc.Spec)
	}
	return f.create(svc)
}

func (f *fixture) create(svc *corev1.Service) *corev1.Service {
	f.Helper()
	obj, err := f.Create(f.Context(), client.Target{Resource: client.Services, Namespace: "default"}, svc, metav1.CreateOptions{})
	if err != nil {
		f.Fatal(err)
	}
	return obj.(*corev1.Service)
}

// update changes a Service.
func (f *fixture) update(svc *corev1.Service, change func(*corev1.Service)) *corev1.Service {
	f.Helper()
	t := client.Target{Resource: client.Services, Namespace: "default", Name: svc.Name}
	for {
		obj, err := f.Get(f.Context(), t, metav1.GetOptions{})
		if err != nil {
			f.Fatal(err)
		}
		now := obj.(*corev1.Service).DeepCopy()
		change(now)
		updated, err := f.Update(f.Context(), t, now, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			continue
		}
		if err != nil {
			f.Fatal(err)
		}
		return updated.(*corev1.Service)
	}
}

// addRange creates a ServiceCIDR whose addresses Services may have.
func (f *fixture) addRange(name, cidr string) {
	f.Helper()
	t := client.Target{Resource: networkingv1.SchemeGroupVersion.WithResource("servicecidrs")}
	made, err := f.Create(f.Context(), t, &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{cidr}},
	}, metav1.CreateOptions{})
	if err != nil {
		f.Fatal(err)
	}
	now := made.(*networkingv1.ServiceCIDR).DeepCopy()
	now.Status.Conditions = []metav1.Condition{{Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.Now()}}
	t.Name, t.Subresource = name, "status"
	if _, err := f.Update(f.Context(), t, now, metav1.UpdateOptions{}); err != nil {
		f.Fatal(err)
	}
	f.until("the supervisor knows "+cidr, func() bool { // until then packets for it would leave the machine
		b, err := os.ReadFile(f.root + "/runtime/" + wire.RangesFile)
		return !f.routes || err == nil && strings.Contains(string(b), cidr)
	})
}

// setIngress gives a Service an address at a load balancer.
func (f *fixture) setIngress(svc *corev1.Service, ip string) {
	f.Helper()
	now := svc.DeepCopy()
	now.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip, IPMode: new(corev1.LoadBalancerIPModeVIP)}}
	t := client.Target{Resource: client.Services, Namespace: "default", Name: svc.Name, Subresource: "status"}
	if _, err := f.Update(f.Context(), t, now, metav1.UpdateOptions{}); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) delete(svc *corev1.Service) {
	f.Helper()
	t := client.Target{Resource: client.Services, Namespace: "default", Name: svc.Name}
	if _, err := f.Delete(f.Context(), t, metav1.DeleteOptions{}); err != nil {
		f.Fatal(err)
	}
}

func tcp(port int32) corev1.ServicePort {
	return corev1.ServicePort{Protocol: corev1.ProtocolTCP, Port: port, TargetPort: intstr.FromInt32(port)}
}

func udp(port int32) corev1.ServicePort {
	return corev1.ServicePort{Protocol: corev1.ProtocolUDP, Port: port, TargetPort: intstr.FromInt32(port)}
}

func named(name string, p corev1.ServicePort) corev1.ServicePort {
	p.Name = name
	return p
}

// endpoints makes pods the endpoints of a port of a Service, in a slice of its own. number is that of the port in the pods.
func (f *fixture) endpoints(svc *corev1.Service, port corev1.ServicePort, number int32, in ...int) {
	f.Helper()
	f.conditions(svc, port, number, discoveryv1.EndpointConditions{}, in...)
}

// conditions is endpoints with conditions.
func (f *fixture) conditions(svc *corev1.Service, port corev1.ServicePort, number int32, c discoveryv1.EndpointConditions, in ...int) {
	f.Helper()
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%s%d", svc.Name, port.Name, number), Labels: map[string]string{discoveryv1.LabelServiceName: svc.Name},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &port.Name, Port: &number, Protocol: &port.Protocol}},
	}
	for _, i := range in {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{f.ips[i]}, NodeName: new(node(i)), Conditions: c})
	}
	t := client.Target{Resource: client.EndpointSlices, Namespace: "default"}
	_, err := f.Create(f.Context(), t, s.DeepCopy(), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		t.Name = s.Name
		_, err = f.Update(f.Context(), t, s, metav1.UpdateOptions{})
	}
	if err != nil {
		f.Fatal(err)
	}
}

func at(ip string, port int32) string { return ip + ":" + strconv.Itoa(int(port)) }

// until repeats check until it returns true.
func (f *fixture) until(what string, check func() bool) {
	f.Helper()
	for end := time.Now().Add(time.Minute); !check(); <-time.After(2 * time.Millisecond) {
		if time.Now().After(end) {
			f.Fatalf("no sign of %s", what)
		}
	}
}

// untilServed waits until exactly these pods answer client i.
func (f *fixture) untilServed(i int, network, address string, by ...int) {
	f.Helper()
	var want []string
	for _, pod := range by {
		want = append(want, podName(pod))
	}
	var got []string
	var last result
	defer func() {
		if f.Failed() {
			f.Logf("the last answer: %+v", last)
		}
	}()
	f.until(fmt.Sprintf("%v behind %s %s", want, network, address), func() bool {
		got = nil
		for _, r := range f.do(i, command{Op: "dial", Network: network, Address: address, Count: 3 * len(by)}) {
			if last = r; r.Err != "" {
				return false
			}
			if !slices.Contains(got, r.Server) {
				got = append(got, r.Server)
			}
		}
		slices.Sort(got)
		return slices.Equal(got, want)
	})
}

// hold has client i open a connection for later uses. With routes it is one that no proxy is part of: until the supervisor has got the
// routes, connections go through the proxy.
func (f *fixture) hold(i int, address string) {
	f.Helper()
	f.until("a direct connection to "+address, func() bool {
		r := f.do(i, command{Op: "hold", Network: "tcp", Address: address})[0]
		return r.Err == "" && (r.Direct || !f.routes)
	})
}

// untilRefused waits until client i is refused.
func (f *fixture) untilRefused(i int, network, address string) {
	f.Helper()
	f.until("a refusal at "+address, func() bool { return f.dial(i, network, address).Refused })
}
