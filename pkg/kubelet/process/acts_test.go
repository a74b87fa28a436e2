package process_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/supervisor/role"
)

// actVariable selects one of acts: the programs that the tests run in containers.
const actVariable = "MINIKCTL_PROCESSTEST_ACT"

var acts = map[string]func(args []string) error{
	"self":    actSelf,
	"twins":   actDualStack,
	"udp":     actUDP,
	"dial":    actDial,
	"resolve": actResolve,
	"listen":  actListen,
	"twice":   actBindInUse,
	"storm":   actSignals,
	"connect": actConnect,
	"bind":    actBind,
	"backlog": actBacklog,
	"knocks":  actConnectLoop,
	"confine": actConfine,
	"forks":   actForks,
	"limit":   actLimit,
}

// act returns a container that runs one of acts.
func act(name string, args ...string) kubelet.ContainerSpec {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return kubelet.ContainerSpec{
		Command: append([]string{self}, args...), Env: append([]string{actVariable + "=" + name}, role.Inherited()...),
	}
}

// actSelf connects to its own server by the names of the machine, and prints the server's address of each connection.
func actSelf(args []string) error {
	l, err := net.Listen("tcp", ":"+args[0])
	if err != nil {
		return err
	}
	for _, host := range []string{"127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]"} {
		c, err := net.Dial("tcp", host+":"+args[0])
		if err != nil {
			return err
		}
		s, err := l.Accept()
		if err != nil {
			return err
		}
		fmt.Println(s.LocalAddr())
		c.Close()
		s.Close()
	}
	return nil
}

// actDualStack listens on one port with two sockets, one for IPv4 and one for IPv6, as some web servers do.
func actDualStack(args []string) error {
	for _, network := range []string{"tcp4", "tcp6"} {
		l, err := net.Listen(network, ":"+args[0])
		if err != nil {
			return err
		}
		fmt.Println(network, l.Addr())
	}
	return nil
}

func actUDP(args []string) error {
	l, err := net.ListenPacket("udp", ":"+args[0])
	if err != nil {
		return err
	}
	fmt.Println(l.LocalAddr())
	c, err := net.Dial("udp", "127.0.0.1:"+args[0])
	if err != nil {
		return err
	}
	if _, err := c.Write([]byte("hello")); err != nil {
		return err
	}
	b := make([]byte, 16)
	if err := l.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	n, _, err := l.ReadFrom(b)
	if err != nil {
		return err
	}
	fmt.Println(string(b[:n]))
	return nil
}

// actDial prints the local address of a connection to a server.
func actDial(args []string) error {
	c, err := net.Dial("tcp", args[0])
	if err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(c.LocalAddr().String())
	if err != nil {
		return err
	}
	fmt.Println(host)
	return nil
}

// actResolve prints the addresses of a name by Go's own resolver.
func actResolve(args []string) error {
	addrs, err := (&net.Resolver{PreferGo: true}).LookupHost(context.Background(), args[0])
	if err != nil {
		return err
	}
	fmt.Println(strings.Join(addrs, " "))
	return nil
}

// actListen prints its address and accepts connections.
func actListen(args []string) error {
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		c.Close()
	}
}

// actBindInUse binds a port twice. The second bind must fail with the kernel's error.
func actBindInUse(args []string) error {
	if _, err := net.Listen("tcp", ":"+args[0]); err != nil {
		return err
	}
	_, err := net.Listen("tcp", "127.0.0.1:"+args[0])
	if !errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("second listen: %w", err)
	}
	fmt.Println("in use")
	return nil
}

// actSignals binds and connects in many threads while signals arrive all the time.
func actSignals(args []string) error {
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = syscall.Kill(os.Getpid(), syscall.SIGURG)
				runtime.Gosched()
			}
		}
	}()
	var wg sync.WaitGroup
	errs := make(chan error, 1000)
	for i := range 8 {
		wg.Go(func() {
			for j := range 25 {
				if err := connectSelf(fmt.Sprintf(":%s%d%02d", args[0], i, j)); err != nil {
					errs <- err
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	close(errs)
	return <-errs
}

func connectSelf(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	defer l.Close()
	c, err := net.Dial("tcp", "127.0.0.1"+address)
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := l.Accept()
	if err != nil {
		return err
	}
	return s.Close()
}

// actConnectLoop connects args[0] threads to servers of their own all the time, and keeps their counts in the file args[1].
func actConnectLoop(args []string) error {
	var n int
	if _, err := fmt.Sscan(args[0], &n); err != nil {
		return err
	}
	counts := make([]atomic.Int64, n)
	errs := make(chan error, n)
	for i := range n {
		go func() {
			runtime.LockOSThread()
			for {
				switch err := connectSelf(fmt.Sprintf(":181%02d", i)); {
				case err == nil:
					counts[i].Add(1)
				case !errors.Is(err, syscall.EADDRINUSE): // a supervisor that is being killed may still have the last socket
					errs <- err
					return
				}
			}
		}()
	}
	for {
		select {
		case err := <-errs:
			return err
		case <-time.After(time.Millisecond):
		}
		var text strings.Builder
		for i := range counts {
			fmt.Fprintln(&text, counts[i].Load())
		}
		if err := os.WriteFile(args[1]+".new", []byte(text.String()), 0o600); err != nil {
			return err
		}
		if err := os.Rename(args[1]+".new", args[1]); err != nil {
			return err
		}
	}
}

// actConnect measures connections to an address: the mean of args[1] of them, in microseconds.
func actConnect(args []string) error {
	var n int
	if _, err := fmt.Sscan(args[1], &n); err != nil {
		return err
	}
	start := time.Now()
	for range n {
		c, err := net.Dial("tcp", args[0])
		if err != nil {
			return err
		}
		c.Close()
	}
	fmt.Println(time.Since(start).Microseconds() / int64(n))
	return nil
}
