package servicetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/internal/confined"
	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/objects"
)

// networkVariable selects what the process of the test becomes: "root" and the like in a network of its own, "entered" after that.
const networkVariable = "MINIKCTL_SERVICE_NETWORK"

// In that network every packet that would leave the machine arrives at the device sink.
const (
	ownAddress   = "198.51.100.2"
	serviceRange = "203.0.113.0/24"
	elsewhere    = "198.51.100.77:9"
)

// ordinaryUser is no user of the machine.
const ordinaryUser = 12345

// TestNothingLeaves runs TestOffLoopback in networks of its own: with root's privileges, as an ordinary user, and as one where creating a namespace fails.
func TestNothingLeaves(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can create a network without a user namespace")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, as := range []string{"root", "user", "confined"} {
		t.Run(as, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "minikctl-test-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			program := filepath.Join(dir, "test")
			b, err := os.ReadFile(self)
			if err == nil {
				err = errors.Join(os.WriteFile(program, b, 0o755), os.Chmod(dir, 0o777))
			}
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestOffLoopback$", "-test.v")
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), networkVariable+"="+as, "TMPDIR="+dir, "HOME="+dir, "XDG_RUNTIME_DIR=")
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
			out, err := cmd.CombinedOutput()
			switch {
			case errors.Is(err, syscall.EPERM) && cmd.Process == nil:
				t.Skip("root may not create networks here")
			case strings.Contains(string(out), "\n--- SKIP: "):
				t.Skip("skipped in a network of its own: ", string(out))
			case err != nil || !strings.Contains(string(out), "\nPASS\n"):
				t.Errorf("%v\n%s", err, out)
			default:
				t.Log(string(out))
			}
		})
	}
}

// enterNetwork prepares the network of this process, if it has been started for that, and executes it again as the user of the test.
func enterNetwork() {
	as := os.Getenv(networkVariable)
	if as == "" || as == "entered" {
		return
	}
	fmt.Println(enter(as))
	os.Exit(1)
}

func enter(as string) error {
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, args := range []string{
		"link set lo up",
		"link add out type veth peer name sink", "link set out arp off", "link set sink up", "link set out up",
		"addr add " + ownAddress + "/24 dev out", "route add default dev out",
	} {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			fmt.Printf("=== RUN\n--- SKIP: ip %s: %v: %s\n", args, err, out)
			return nil
		}
	}
	if err := os.Setenv(networkVariable, "entered"); err != nil {
		return err
	}
	if as != "root" {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(ordinaryUser), syscall.Setuid(ordinaryUser)); err != nil {
			return err
		}
	}
	if as == "confined" {
		return confined.Exec(os.Args)
	}
	return syscall.Exec(os.Args[0], os.Args, os.Environ())
}

// hasEvent reports whether an object has an Event with a reason.
func (f *fixture) hasEvent(name, reason string) bool {
	f.Helper()
	t := client.Target{Resource: client.Events, Namespace: "default"}
	list, err := f.List(f.Context(), t, metav1.ListOptions{})
	if err != nil {
		f.Fatal(err)
	}
	return slices.ContainsFunc(list.Items, func(obj objects.Object) bool {
		e, ok := obj.(*corev1.Event)
		return ok && e.InvolvedObject.Name == name && e.Reason == reason
	})
}

// left returns how many packets have left.
func (f *fixture) left() int {
	f.Helper()
	b, err := os.ReadFile("/proc/self/net/dev")
	if err != nil {
		f.Fatal(err)
	}
	_, line, _ := strings.Cut(string(b), " sink:")
	fields := strings.Fields(line)
	if len(fields) < 2 {
		f.Fatalf("no device sink: %s", b)
	}
	n, err := strconv.Atoi(fields[1])
	if err != nil {
		f.Fatal(err)
	}
	return n
}

// TestOffLoopback sends to Services whose addresses are not on loopback, by every way to send a datagram. It is a part of TestNothingLeaves.
func TestOffLoopback(t *testing.T) {
	if os.Getenv(networkVariable) == "" {
		t.Skip("TestNothingLeaves runs it in a network of its own")
	}
	f := newFixture(t, ways[0])
	f.addRange("off-loopback", serviceRange)
	for i := range pods {
		f.until("the Event of a pod that is older than the range", func() bool { return f.hasEvent(podName(i), "RestartNeeded") })
	}
	const ip = "203.0.113.10"
	svc := f.service(func(s *corev1.ServiceSpec) { s.ClusterIP = ip },
		named("t", tcp(8080)), named("u", udp(8080)), named("low", corev1.ServicePort{Protocol: corev1.ProtocolUDP, Port: 443, TargetPort: intstr.FromInt32(441)}))
	f.endpoints(svc, svc.Spec.Ports[0], 8001, 0)
	f.endpoints(svc, svc.Spec.Ports[1], 8001, 0)
	f.endpoints(svc, svc.Spec.Ports[2], 441, 1)
	onLoopback := f.service(nil, udp(443))
	f.endpoints(onLoopback, onLoopback.Spec.Ports[0], 8001, 2)
	f.serve("tcp", 8001, 0)
	f.serve("udp", 8001, 0, 2)
	f.serve("udp", 441, 1)
	f.until("the routes", func() bool { return f.dial(1, "tcp", at(ip, 8080)).Server == podName(0) })
	f.untilServed(1, "udp", at(onLoopback.Spec.ClusterIP, 443), 2)
	for _, pod := range []kubelet.PodSpec{{Name: "late"}, {Name: "host", HostNetwork: true}} {
		t.Run(pod.Name, func(t *testing.T) {
			one := *f
			one.T = t
			c := offLoopback{&one, one.startAgent(pod, node(0)), at(ip, 8080), at(ip, 443)}
			c.served()
			c.together(at(f.ips[2], 8001))
			c.refused(at(ip, 9090), "203.0.113.11:8080")
			c.otherCalls()
			if !pod.HostNetwork {
				c.answers("sendmsg", []string{at(onLoopback.Spec.ClusterIP, 443)}, podName(2))
				c.answers("sendmmsg", []string{at(onLoopback.Spec.ClusterIP, 443)}, podName(2))
			}
			if one.hasEvent(pod.Name, "RestartNeeded") {
				t.Error("a pod that is younger than the range has an Event")
			}
			if n := one.left(); n != 0 {
				t.Errorf("%d packets have left", n)
			}
		})
	}
	t.Run("without a daemon", func(t *testing.T) {
		one := *f
		one.T = t
		one.restartSupervisor(func() {
			if r := one.dial(1, "tcp", at(ip, 8080)); !r.Refused { // no route has been sent
				t.Errorf("got %+v, want a refusal", r)
			}
		})
		f.stop, f.host = one.stop, one.host
		if n := one.left(); n != 0 {
			t.Errorf("%d packets have left", n)
		}
	})
	before := f.left()
	f.do(1, command{Op: "unconnected", Address: elsewhere})
	if f.left() == before {
		t.Error("packets for other machines stay here, or are not counted")
	}
}

// restartSupervisor has pods wait for a supervisor that no daemon has sent routes to, and calls during before one does.
func (f *fixture) restartSupervisor(during func()) {
	f.Helper()
	f.stop()
	if err := f.host.Close(); err != nil {
		f.Fatal(err)
	}
	f.killSupervisor()
	during()
	f.openHost()
	f.startProxy()
}

// offLoopback is a client of a Service on an address that is not on loopback.
type offLoopback struct {
	*fixture
	client    string // where its agent is
	high, low string // the Service's ports: of pod 0, and of pod 1 by a port below 1024
}

func (c offLoopback) ask(what command) []result {
	c.Helper()
	all, err := ask(c.client, what)
	if err != nil {
		c.Fatal(err)
	}
	return all
}

// answers sends in one of the ways, and compares the servers that answer.
func (c offLoopback) answers(way string, to []string, want ...string) {
	c.Helper()
	for _, network := range []string{"udp4", "udp"} { // the socket of the latter is for IPv6, too
		if network == "udp" && strings.HasPrefix(way, "sendmmsg") {
			continue
		}
		all := c.ask(command{Op: "messages", What: way, Network: network, To: to})
		var got []string
		for _, r := range all {
			if r.Server != "" {
				got = append(got, r.Server)
			}
		}
		if all[0].Err != "" || !slices.Equal(got, want) {
			c.Errorf("%s by %s to %v: got %+v, want answers of %v", way, network, to, all, want)
		}
		for _, n := range all[0].Sent {
			if n != len(nameRequest) {
				c.Errorf("%s by %s to %v: got the lengths %v", way, network, to, all[0].Sent)
			}
		}
	}
}

func (c offLoopback) served() {
	c.Helper()
	for to, server := range map[string]string{c.high: podName(0), c.low: podName(1)} {
		for _, way := range []string{"sendmsg", "sendmmsg", "sendmmsg with a source"} {
			c.answers(way, []string{to}, server)
		}
		c.answers("segments", []string{to}, server, server)
		if _, err := exec.LookPath("python3"); err == nil {
			c.answers("python", []string{to}, server)
		}
		if r := c.ask(command{Op: "unconnected", Address: to})[0]; r.Server != server {
			c.Errorf("sendto %s: got %+v", to, r)
		}
		if r := c.ask(command{Op: "dial", Network: "udp", Address: to})[0]; r.Server != server || r.Peer != to {
			c.Errorf("connected to %s: got %+v", to, r)
		}
	}
	if r := c.ask(command{Op: "dial", Network: "tcp", Address: c.high})[0]; r.Server != podName(0) || r.Peer != c.high {
		c.Errorf("tcp: got %+v", r)
	}
	if r := c.ask(command{Op: "stream", Address: c.high})[0]; r.Err != "" {
		c.Errorf("tcp by sendmsg: %s", r.Err)
	}
}

// together sends to Services and to a pod in one call.
func (c offLoopback) together(pod string) {
	c.Helper()
	c.answers("sendmmsg", []string{pod, c.high, c.low}, podName(0), podName(1), podName(2))
	// As from the kernel, what follows a message that is refused is not sent.
	c.answers("sendmmsg", []string{pod, c.high, "203.0.113.11:8080", pod}, podName(0), podName(2))
	if r := c.ask(command{Op: "wrong", To: []string{pod, c.high}})[0]; r.Err != "" {
		c.Error(r.Err)
	}
}

func (c offLoopback) refused(addresses ...string) {
	c.Helper()
	for _, to := range addresses {
		for _, what := range []command{
			{Op: "messages", What: "sendmsg", Network: "udp4", To: []string{to}}, {Op: "messages", What: "sendmsg", Network: "udp", To: []string{to}},
			{Op: "messages", What: "sendmmsg", Network: "udp4", To: []string{to, c.high}},
			{Op: "unconnected", Address: to}, {Op: "dial", Network: "udp", Address: to}, {Op: "dial", Network: "tcp", Address: to},
		} {
			if r := c.ask(what)[0]; !r.Refused || r.Sent != nil {
				c.Errorf("%+v: got %+v, want a refusal", what, r)
			}
		}
	}
}

func (c offLoopback) otherCalls() {
	c.Helper()
	calls := map[string]string{"io_uring": syscall.EPERM.Error()}
	if os.Getuid() == 0 {
		calls["raw, connect"], calls["raw, sendto"] = syscall.ECONNREFUSED.Error(), syscall.ECONNREFUSED.Error()
	}
	for call, want := range calls {
		if r := c.ask(command{Op: "refused", What: call, Address: c.high})[0]; r.Err != want {
			c.Errorf("%s: got %+v, want %s", call, r, want)
		}
	}
}
