package process_test

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/miekg/dns"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/network/addr"
)

// addressed returns a machine whose pods have their own addresses.
func addressed(t *testing.T) *machine {
	m := newMachine(t)
	for _, f := range m.rt.Features() {
		if f.Name == "PodAddresses" && !f.OK {
			t.Skip(f.Message)
		}
	}
	return m
}

func TestPodReachesItself(t *testing.T) {
	m := addressed(t)
	if want, got := strings.Repeat(m.pod.IP+":18081\n", 4), m.run(act("self", "18081")); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPodReachesTheHost(t *testing.T) {
	m := addressed(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := m.run(act("dial", l.Addr().String())); got != "127.0.0.1\n" {
		t.Errorf("got %q", got)
	}
}

func TestPodReachesAnother(t *testing.T) {
	m := addressed(t)
	other, err := m.rt.StartPod(t.Context(), kubelet.PodSpec{UID: "other"})
	if err != nil {
		t.Fatal(err)
	}
	id := m.start("other", act("listen", ":18082"))
	// Go listens on both families with one socket, and prints the socket's address.
	m.wait("the server", func() bool { return m.output(id) == other.IP+":18082\n" })
	if got := m.run(act("dial", other.IP+":18082")); got != m.pod.IP+"\n" {
		t.Errorf("it is called by %q, want %s", got, m.pod.IP)
	}
}

// TestLowPort serves a port below 1024 as any user, and reaches it from the pod itself, from another one and from the host.
func TestLowPort(t *testing.T) {
	m := addressed(t)
	other, err := m.rt.StartPod(t.Context(), kubelet.PodSpec{UID: "other"})
	if err != nil {
		t.Fatal(err)
	}
	id := m.start("other", act("listen", ":89"))
	m.wait("the server", func() bool { return strings.HasPrefix(m.output(id), other.IP+":") })
	if got := m.run(act("dial", other.IP+":89")); got != m.pod.IP+"\n" {
		t.Errorf("another pod: got %q, want %s", got, m.pod.IP)
	}
	if conn, err := addr.Dial(&net.Dialer{})(t.Context(), "tcp", other.IP+":89"); err != nil {
		t.Error(err)
	} else {
		conn.Close()
	}
}

// TestLowPortAsAnotherUser runs TestLowPort as an ordinary user. On most machines such a user may not bind the port.
func TestLowPortAsAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	rerun(t, "^(TestLowPort|TestPodReachesItself|TestPodReachesAnother)$", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}})
}

// TestResolverWithoutNamespaces runs TestResolver where a container can't have a resolv.conf of its own.
func TestResolverWithoutNamespaces(t *testing.T) {
	attr := &syscall.SysProcAttr{}
	if os.Getuid() == 0 {
		attr.Credential = &syscall.Credential{Uid: 12345, Gid: 12345}
	}
	rerun(t, "^TestResolver$", attr, actVariable+"=confine")
}

// TestResolver sends what programs ask the machine's DNS servers to the pod's resolver, which completes names, and not to the pod's
// siblings.
func TestResolver(t *testing.T) {
	m := addressed(t)
	for _, f := range m.rt.Features() {
		if f.Name == "FileSystems" && f.OK {
			t.Skip("containers have a resolv.conf of their own")
		}
	}
	n := netip.MustParseAddr(m.pod.IP).As4()
	server := addr.Range(n[1]).Own(53)
	var asked atomic.Value
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, req *dns.Msg) {
		asked.Store(w.RemoteAddr().String())
		reply := new(dns.Msg).SetReply(req)
		q := req.Question[0]
		if name := strings.TrimSuffix(q.Name, "."); name != "web.default.svc.cluster.local" && name != "web" {
			reply.Rcode = dns.RcodeNameError
		} else if q.Qtype == dns.TypeA {
			reply.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET}, A: net.IPv4(192, 0, 2, 9)}}
		}
		_ = w.WriteMsg(reply)
	})
	port, ok := addr.Unprivileged(53)
	if os.Getuid() == 0 || !ok {
		port = 53
	}
	for _, network := range []string{"udp", "tcp"} {
		s := &dns.Server{Addr: netip.AddrPortFrom(server, port).String(), Net: network, Handler: handler}
		started := make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		failed := make(chan error, 1)
		go func() { failed <- s.ListenAndServe() }()
		select {
		case <-started:
		case err := <-failed:
			t.Fatal(err)
		}
		defer func() { _ = s.Shutdown() }()
	}
	run := func(spec kubelet.ContainerSpec) string {
		spec.Resolver = &kubelet.Resolver{Server: server, Searches: []string{"default.svc.cluster.local", "svc.cluster.local"}, Options: []string{"ndots:5"}}
		asked.Store("")
		out := m.run(spec)
		if from, _ := asked.Load().(string); !strings.HasPrefix(from, m.pod.IP+":") {
			t.Errorf("%v: the resolver was asked by %q, want the pod's address", spec.Command, from)
		}
		return out
	}
	if got := run(act("resolve", "web")); got != "192.0.2.9\n" {
		t.Errorf("Go's resolver: got %q", got)
	}
	if getent, err := exec.LookPath("getent"); err != nil {
		t.Log("the C library's resolver is not tested: " + err.Error())
	} else if got := run(kubelet.ContainerSpec{Command: []string{getent, "ahostsv4", "web"}}); !strings.HasPrefix(got, "192.0.2.9 ") {
		t.Errorf("the C library's resolver: got %q", got)
	}
}

func TestPodsShareAPort(t *testing.T) {
	m := addressed(t)
	got := m.run(act("twins", "18083"))
	if !strings.HasPrefix(got, "tcp4 "+m.pod.IP+":18083\ntcp6 ") {
		t.Errorf("got %q", got)
	}
}

func TestUDP(t *testing.T) {
	m := addressed(t)
	if got := m.run(act("udp", "18084")); got != m.pod.IP+":18084\nhello\n" && got != "["+"::ffff:"+m.pod.IP+"]:18084\nhello\n" {
		t.Errorf("got %q", got)
	}
}

func TestBindPortInUse(t *testing.T) {
	m := addressed(t)
	if got := m.run(act("twice", "18085")); got != "in use\n" {
		t.Errorf("got %q", got)
	}
}

func TestSignalsDuringBind(t *testing.T) {
	m := addressed(t)
	m.run(act("storm", "23"))
}

func TestHostNetwork(t *testing.T) {
	m := addressed(t)
	if _, err := m.rt.StartPod(t.Context(), kubelet.PodSpec{UID: "host", HostNetwork: true}); err != nil {
		t.Fatal(err)
	}
	id := m.start("host", act("listen", "127.0.0.1:18086"))
	m.wait("the server", func() bool { return m.output(id) == "127.0.0.1:18086\n" })
}

// TestListenAfterSupervisorKilled lets a container listen after the supervisor was replaced, after the daemon was as well,
// after the keeper was replaced, and after a keeper has started the supervisor.
func TestListenAfterSupervisorKilled(t *testing.T) {
	replaceSupervisor := func(m *machine) {
		old := m.supervisor()
		m.killSupervisor()
		m.wait("a new supervisor", func() bool { return m.supervisor() != old })
	}
	for name, kill := range map[string]func(*machine){
		"supervisor": replaceSupervisor,
		"daemon and supervisor": func(m *machine) {
			m.closeAndKill(true)
			m.open()
		},
		"keeper and supervisor": func(m *machine) {
			old := m.keeper()
			if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
				m.Fatal(err)
			}
			m.wait("a new keeper", func() bool { now := m.keeper(); return now != 0 && now != old })
			// The listening container is not yet on the new keeper: the next one starts after it was passed.
			if err := m.rt.Stop(m.Context(), m.shell("exec sleep 1000"), 0); err != nil {
				m.Fatal(err)
			}
			replaceSupervisor(m)
		},
		"daemon and supervisor for long": func(m *machine) {
			lock := filepath.Join(m.root, "runtime", "run", "supervisor.lock")
			m.closeAndKill(true)
			before, err := os.ReadFile(lock)
			if err != nil {
				m.Fatal(err)
			}
			m.wait("a supervisor that the keeper starts", func() bool {
				now, err := os.ReadFile(lock)
				return err == nil && len(now) > 0 && string(now) != string(before)
			})
			m.open()
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := addressed(t)
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			id := m.start("pod", kubelet.ContainerSpec{Command: []string{
				"/bin/sh", "-c", m.loop("go", "echo; "+actVariable+"=listen exec "+self+" :18087"),
			}})
			kill(m)
			m.touch("go")
			m.wait("the server", func() bool { return strings.HasSuffix(m.output(id), "\n"+m.pod.IP+":18087\n") })
		})
	}
}

// TestContainerHasNoNotifyDescriptor looks for the notify descriptor, over which calls are answered, in a container.
func TestContainerHasNoNotifyDescriptor(t *testing.T) {
	m := addressed(t)
	id := m.shell("exec sleep 1000")
	directory := "/proc/" + strconv.Itoa(m.find(id).PID) + "/fd"
	entries, err := os.ReadDir(directory)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if link, err := os.Readlink(directory + "/" + e.Name()); err == nil && strings.Contains(link, "seccomp") {
			t.Errorf("descriptor %s is %s", e.Name(), link)
		}
	}
}

// TestSupervisorKilledInCalls kills the supervisor again and again while the threads of a container connect all the time. No
// thread may stay in a call that the killed supervisor had received.
func TestSupervisorKilledInCalls(t *testing.T) {
	const threads, kills = 8, 5
	m := addressed(t)
	counts := m.root + "/counts"
	m.start("pod", act("knocks", strconv.Itoa(threads), counts))
	var last [threads]int
	progress := func() bool {
		b, err := os.ReadFile(counts)
		if err != nil {
			return false
		}
		f := strings.Fields(string(b))
		if len(f) != threads {
			return false
		}
		for i, s := range f {
			if n, err := strconv.Atoi(s); err != nil || n < last[i]+3 {
				return false
			}
		}
		for i, s := range f {
			last[i], _ = strconv.Atoi(s) // see above
		}
		return true
	}
	m.wait("progress of all threads", progress)
	for range kills {
		old := m.supervisor()
		m.killSupervisor()
		m.wait("a new supervisor", func() bool { return m.supervisor() != old })
		m.wait("progress of all threads", progress)
	}
}

// TestExecListens runs a command in a container that listens on the pod's address.
func TestExecListens(t *testing.T) {
	m := addressed(t)
	id := m.shell("exec sleep 1000")
	spec := act("twice", "18088")
	var out strings.Builder
	code, err := m.rt.Exec(t.Context(), id, slices.Concat([]string{"env"}, spec.Env, spec.Command), kubelet.Streams{Out: &out})
	if err != nil || code != 0 || out.String() != "in use\n" {
		t.Errorf("got %d, %v, %q", code, err, out.String())
	}
}

// TestTwoHosts runs two hosts at the same time.
func TestTwoHosts(t *testing.T) {
	a, b := newMachine(t), newMachine(t)
	if a.pod.IP == b.pod.IP && a.pod.IP != "127.0.0.1" { // the address of all pods where they can't have their own
		t.Errorf("the pods of both have the address %s", a.pod.IP)
	}
	x, y := a.shell("exec sleep 1000"), b.shell("exec sleep 1000")
	if err := a.rt.StopPod(t.Context(), "pod"); err != nil {
		t.Fatal(err)
	}
	if c := b.find(y); !c.Running || x != y && c.PID == 0 {
		t.Errorf("got %+v", c)
	}
}

func BenchmarkConnect(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	for _, c := range []struct {
		name string
		host bool
	}{{"host", true}, {"pod", false}} {
		b.Run(c.name, func(b *testing.B) {
			root := b.TempDir()
			h, err := open(root)
			if err != nil {
				b.Fatal(err)
			}
			defer purge(h, root)
			rt := h.Runtime("node")
			uid := types.UID("pod")
			if _, err := rt.StartPod(b.Context(), kubelet.PodSpec{UID: uid, HostNetwork: c.host}); err != nil {
				b.Fatal(err)
			}
			spec := act("connect", l.Addr().String(), strconv.Itoa(max(b.N, 100)))
			spec.Name, spec.LogPath = "main", root+"/log"
			if _, err := rt.Start(b.Context(), uid, spec); err != nil {
				b.Fatal(err)
			}
			for {
				pods, err := rt.Pods(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				if !pods[0].Containers[0].Running {
					break
				}
				<-rt.Changed()
			}
			out, err := os.ReadFile(spec.LogPath)
			if err != nil {
				b.Fatal(err)
			}
			f := strings.Fields(string(out))
			us, err := strconv.ParseFloat(f[len(f)-1], 64)
			if err != nil {
				b.Fatalf("%s", out)
			}
			b.ReportMetric(us, "µs/connect")
		})
	}
}

// TestPrivilegedPort lets pods bind a privileged port, with root's capabilities and as an ordinary user.
func TestPrivilegedPort(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the kernel checks the supervisor's own privileges")
	}
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start")
	if err != nil || strings.TrimSpace(string(b)) == "0" {
		t.Skip("every user may bind every port here")
	}
	m := addressed(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := sharedDir(t) + "/test"
	copyFile(t, self, program)
	bind := func(uid *int64, network string) string {
		spec := act("bind", network, ":80")
		spec.Command[0], spec.User = program, uid
		return m.run(spec)
	}
	ordinary := int64(12345)
	for _, network := range []string{"tcp4", "tcp", "udp4"} {
		if got := bind(&ordinary, network); got != "permission denied\n" {
			t.Errorf("%s as user %d: got %q", network, ordinary, got)
		}
		if got := bind(nil, network); got != "bound\n" {
			t.Errorf("%s as root: got %q", network, got)
		}
	}
}

// TestFullBacklog connects many threads to a server of the pod that does not accept. They must wait without threads of the
// supervisor, and must not delay the pod's other calls.
func TestFullBacklog(t *testing.T) {
	const waiting = 64
	m := addressed(t)
	tasks := func() int {
		all, err := os.ReadDir("/proc/" + strconv.Itoa(m.supervisor()) + "/task")
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	before := tasks()
	id := m.start("pod", act("backlog", strconv.Itoa(waiting), m.root+"/accept"))
	m.wait("the connections", func() bool { return m.output(id) != "" })
	if got := m.output(id); got != "waiting\n" {
		t.Fatalf("got %q", got)
	}
	if now := tasks(); now > before+waiting/4 {
		t.Errorf("the supervisor has %d threads, and had %d before", now, before)
	}
	m.touch("accept")
	if c := m.ended(id); c.ExitCode != 0 {
		t.Errorf("exit code %d: %s", c.ExitCode, m.output(id))
	}
}
