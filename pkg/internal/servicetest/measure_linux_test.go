package servicetest

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/internal/measured"
	"github.com/minikctl/minikctl/pkg/kubelet"
	servicedns "github.com/minikctl/minikctl/pkg/network/dns"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// time carries out an operation often, and returns how long each has taken.
func (a *agent) time(c command) result {
	workers := max(c.Workers, 1)
	times := make([]time.Duration, c.Count)
	failures := make([]error, workers)
	var running sync.WaitGroup
	began := time.Now()
	for w := range workers {
		running.Go(func() {
			do, end, err := a.operation(c)
			if err != nil {
				failures[w] = err
				return
			}
			defer end()
			for i := w; i < c.Count; i += workers {
				start := time.Now()
				if err := do(); err != nil {
					failures[w] = err
					return
				}
				times[i] = time.Since(start)
			}
		})
	}
	running.Wait()
	r := result{Times: times, Took: time.Since(began)}
	for _, err := range failures {
		if err != nil {
			r.Err = err.Error()
		}
	}
	return r
}

// operation returns what time carries out, without the runtime of Go where that would add calls of its own.
func (a *agent) operation(c command) (do func() error, end func(), err error) {
	if c.What == "open" {
		return func() error {
			fd, err := syscall.Open(c.Address, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			return syscall.Close(fd)
		}, func() {}, nil
	}
	at := netip.MustParseAddrPort(c.Address)
	to := &syscall.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
	none := func() {}
	socket := func(use func(fd int) error) func() error {
		return func() error {
			fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer syscall.Close(fd)
			return use(fd)
		}
	}
	switch c.What {
	case "socket":
		return socket(func(int) error { return nil }), none, nil
	case "connect":
		return socket(func(fd int) error { return syscall.Connect(fd, to) }), none, nil
	case "bind":
		return socket(func(fd int) error { return syscall.Bind(fd, &syscall.SockaddrInet4{Port: int(at.Port())}) }), none, nil
	case "peer":
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err == nil {
			err = syscall.Connect(fd, to)
		}
		return func() error { _, err := syscall.Getpeername(fd); return err }, func() { syscall.Close(fd) }, err
	case "sendmsg":
		fd, end, err := drained()
		if err != nil {
			return nil, none, err
		}
		b := make([]byte, c.Size)
		return func() error { _, err := syscall.SendmsgN(fd, b, nil, nil, 0); return err }, end, nil
	case "transfer":
		conn, err := net.Dial("tcp4", c.Address)
		if err != nil {
			return nil, none, err
		}
		line := make([]byte, 256)
		_, err = conn.Read(line)
		b := make([]byte, c.Size)
		return func() error {
			go func() { _, _ = conn.Write(make([]byte, c.Size)) }()
			_, err := io.ReadFull(conn, b)
			return err
		}, func() { conn.Close() }, err
	case "name":
		server := &dns.Client{Timeout: patience}
		conn, err := server.Dial(c.Address)
		if err != nil {
			return nil, none, err
		}
		return func() error {
			got, _, err := server.ExchangeWithConn(new(dns.Msg).SetQuestion(c.Network, dns.TypeA), conn)
			if err == nil && len(got.Answer) != 1 {
				err = fmt.Errorf("%s: %d answers", c.Network, len(got.Answer))
			}
			return err
		}, func() { conn.Close() }, nil
	}
	return nil, none, fmt.Errorf("unknown operation %q", c.What)
}

// drained returns a socket of a TCP connection whose other end reads all.
func drained() (fd int, end func(), err error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return -1, nil, err
	}
	defer l.Close()
	conn, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		return -1, nil, err
	}
	defer conn.Close()
	other, err := l.Accept()
	if err != nil {
		return -1, nil, err
	}
	go func() { _, _ = io.Copy(io.Discard, other) }()
	f, err := conn.(*net.TCPConn).File()
	if err != nil {
		return -1, nil, err
	}
	if err := syscall.SetNonblock(int(f.Fd()), false); err != nil {
		return -1, nil, err
	}
	return int(f.Fd()), func() { f.Close(); other.Close() }, nil
}

// percentiles returns the median and the 99th percentile.
func percentiles(times []time.Duration) (p50, p99 time.Duration) {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2], sorted[len(sorted)*99/100]
}

// TestMeasure prints the figures of docs/benchmarks.md. It fails only if a figure does not depend on the machine.
func TestMeasure(t *testing.T) {
	measured.Only(t)
	t.Run("with routes", func(t *testing.T) { measure(newFixture(t, ways[0])) })
	t.Run("with the proxy", func(t *testing.T) { measure(newFixture(t, ways[1])) })
	t.Run("outside pods", func(t *testing.T) { measureOutside(newFixture(t, ways[0])) })
	t.Run("Services off loopback", func(t *testing.T) { measureOffLoopback(newFixture(t, ways[0])) })
	t.Run("many Services", func(t *testing.T) { measureMany(newFixture(t, ways[0])) })
	t.Run("names", func(t *testing.T) { measureNames(newFixture(t, ways[0])) })
}

func (f *fixture) timed(i int, c command) result {
	f.Helper()
	c.Op = "time"
	r := f.do(i, c)[0]
	if r.Err != "" {
		f.Fatalf("%s %s: %s", c.What, c.Address, r.Err)
	}
	return r
}

const repeats = 5

func measure(f *fixture) {
	svc := f.service(nil, tcp(8080))
	f.serve("tcp", 8001, 0, 1, 2)
	f.endpoints(svc, svc.Spec.Ports[0], 8001, 0, 1, 2)
	address, direct := at(svc.Spec.ClusterIP, 8080), at(f.ips[0], 8001)
	f.untilServed(3, "tcp", address, 0, 1, 2)
	const connections = 10_000
	got := f.spread(3, connections, "tcp", address)
	f.Logf("spread of %d connections over 3 pods: %v", connections, slices.Sorted(maps.Values(got)))
	for name, n := range got {
		if share := float64(n) * 3 / connections; share < 0.9 || share > 1.1 {
			f.Errorf("%s has %.2f of an even share", name, share)
		}
	}
	measureChanges(f, svc, "after 10,000 connections")
	f.endpoints(svc, svc.Spec.Ports[0], 8001, 0) // the same pod both ways
	f.untilServed(3, "tcp", address, 0)
	for range repeats {
		const count = 2000
		began := processTime(f, f.supervisor())
		d50, d99 := percentiles(f.timed(3, command{What: "connect", Address: direct, Count: count}).Times)
		middle := processTime(f, f.supervisor())
		s50, s99 := percentiles(f.timed(3, command{What: "connect", Address: address, Count: count}).Times)
		end := processTime(f, f.supervisor())
		f.Logf("connect, p50/p99: to a pod %s/%s, to a Service %s/%s: %.2f times the median; the supervisor's processor time %s and %s",
			d50, d99, s50, s99, float64(s50)/float64(d50), (middle-began)/count, (end-middle)/count)
	}
	for range repeats {
		const size, count = 1 << 20, 100
		d := f.timed(3, command{What: "transfer", Address: direct, Count: count, Size: size}).Took
		s := f.timed(3, command{What: "transfer", Address: address, Count: count, Size: size}).Took
		f.Logf("echoed: to a pod %.0f MiB/s, to a Service %.0f MiB/s", count/d.Seconds(), count/s.Seconds())
	}
	for range repeats {
		r := f.timed(3, command{What: "connect", Address: address, Count: 20_000, Workers: 16})
		f.Logf("connections of 16 threads: %.0f per s", 20_000/r.Took.Seconds())
	}
	measureChanges(f, svc, "after 100,000 connections")
}

// measureChanges measures when a change of endpoints is visible to a new connection.
func measureChanges(f *fixture, svc *corev1.Service, when string) {
	address := at(svc.Spec.ClusterIP, 8080)
	var changes []time.Duration
	for i := range 60 {
		pod := i % 2
		f.endpoints(svc, svc.Spec.Ports[0], 8001, pod)
		began := time.Now()
		for f.dial(3, "tcp", address).Server != podName(pod) {
		}
		changes = append(changes, time.Since(began))
	}
	p50, p99 := percentiles(changes)
	f.Logf("a change of endpoints %s is visible to a new connection after, p50/p99: %s/%s, with the connection itself", when, p50, p99)
}

// measureOutside compares calls in a pod with those of a process without a filter.
func measureOutside(f *fixture) {
	f.serve("tcp", 8001, 0)
	outside := &agent{}
	for _, c := range []command{
		{What: "open", Address: "/etc/hosts"}, // with close
		{What: "socket", Address: "127.0.0.1:0"},
		{What: "connect", Address: at(f.ips[0], 8001)},
		{What: "bind", Address: "0.0.0.0:8099"},
		{What: "peer", Address: at(f.ips[0], 8001)},
	} {
		c.Count = 2000
		for range repeats {
			in50, in99 := percentiles(f.timed(3, c).Times)
			r := outside.time(c)
			if r.Err != "" {
				f.Fatal(r.Err)
			}
			out50, out99 := percentiles(r.Times)
			f.Logf("%s, p50/p99: in a pod %s/%s, outside %s/%s", c.What, in50, in99, out50, out99)
		}
	}
}

// measureOffLoopback compares sendmsg on a TCP connection in a pod from before the cluster had addresses off loopback, in one from then, and
// outside pods.
func measureOffLoopback(f *fixture) {
	f.addRange("off-loopback", serviceRange)
	f.ips = append(f.ips, f.startAgent(kubelet.PodSpec{Name: "late"}, node(0)))
	outside := &agent{}
	for _, size := range []int{1, 16 << 10} {
		c := command{What: "sendmsg", Address: at(f.ips[0], 8001), Count: 5000, Size: size}
		for range repeats {
			early50, early99 := percentiles(f.timed(0, c).Times)
			began := processTime(f, f.supervisor())
			late50, late99 := percentiles(f.timed(pods, c).Times)
			took := (processTime(f, f.supervisor()) - began) / time.Duration(c.Count)
			r := outside.time(c)
			if r.Err != "" {
				f.Fatal(r.Err)
			}
			out50, out99 := percentiles(r.Times)
			f.Logf("sendmsg of %d bytes, p50/p99: before %s/%s, in a later pod %s/%s and %s of the supervisor, outside %s/%s",
				size, early50, early99, late50, late99, took, out50, out99)
		}
	}
}

// measureMany syncs 2,000 Services of 10 endpoints each.
func measureMany(f *fixture) {
	f.stop()
	const services, endpoints = 2000, 10
	var last *corev1.Service
	f.serve("tcp", 8001, 0)
	for range services {
		last = f.service(nil, tcp(8080))
		for n := range int32(endpoints) { // of one pod
			if n > 0 {
				n += 8100
			} else {
				n = 8001
			}
			f.endpoints(last, last.Spec.Ports[0], n, 0)
		}
	}
	supervisor := f.supervisor()
	memory, cpu := residentMemory(f, supervisor), processTime(f, supervisor)
	own := ownTime()
	f.startProxy()
	f.until("the last Service", func() bool { return f.dial(3, "tcp", at(last.Spec.ClusterIP, 8080)).Server == podName(0) })
	f.Logf("%d Services of %d endpoints: the daemon's part takes %s of processor time, with caches and listening", services, endpoints, ownTime()-own)
	f.Logf("the supervisor: %s of processor time, memory %d → %d KiB", processTime(f, supervisor)-cpu, memory, residentMemory(f, supervisor))
	own, cpu = ownTime(), processTime(f, supervisor)
	const changes = 200
	for i := range changes {
		f.endpoints(last, last.Spec.Ports[0], 8001, i%pods)
	}
	f.until("the last change", func() bool { return f.dial(3, "tcp", at(last.Spec.ClusterIP, 8080)).Err == "" })
	f.Logf("%d changes of one of them: %s, with the API server's part, and %s", changes, ownTime()-own, processTime(f, supervisor)-cpu)
	p50, p99 := percentiles(f.timed(3, command{What: "connect", Address: at(f.ips[0], 8001), Count: 2000}).Times)
	f.Logf("connect to a pod with that table, p50/p99: %s/%s", p50, p99)
}

// measureNames resolves names of Services from a pod.
func measureNames(f *fixture) {
	svc := f.service(nil, tcp(8080))
	caches := client.NewCaches(f.Client, clock.Real())
	const port = 10053
	at := netip.AddrPortFrom(f.hosts.Own(53), port)
	s, err := servicedns.New(servicedns.Config{Caches: caches, Domain: "cluster.local", Listen: at})
	if err != nil {
		f.Fatal(err)
	}
	for _, run := range []func() error{func() error { return caches.Run(f.Context()) }, func() error { return s.Run(f.Context()) }} {
		go func() { _ = run() }()
	}
	c := command{What: "name", Network: svc.Name + ".default.svc.cluster.local.", Address: at.String()}
	c.Count = 100
	f.timed(3, c)
	for range repeats {
		c.Count, c.Workers = 2000, 1
		p50, p99 := percentiles(f.timed(3, c).Times)
		c.Count, c.Workers = 10_000, 8
		f.Logf("a name, p50/p99: %s/%s; of 8 sockets: %.0f per s", p50, p99, 10_000/f.timed(3, c).Took.Seconds())
	}
}

func (f *fixture) supervisor() int {
	f.Helper()
	b, err := os.ReadFile(f.root + "/runtime/" + wire.LockFile)
	if err != nil {
		f.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		f.Fatal(err)
	}
	return pid
}

// residentMemory returns the memory of a process in KiB.
func residentMemory(f *fixture, pid int) int {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		f.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		f.Fatal(err)
	}
	return n
}

// processTime returns the processor time of a process.
func processTime(f *fixture, pid int) time.Duration {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		f.Fatal(err)
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	const tick = 10 * time.Millisecond
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * tick
}

func ownTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
