package process_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// actBind binds an address, and prints the result.
func actBind(args []string) error {
	var l interface{ Close() error }
	var err error
	if strings.HasPrefix(args[0], "udp") {
		l, err = net.ListenPacket(args[0], args[1])
	} else {
		l, err = net.Listen(args[0], args[1])
	}
	if errors.Is(err, syscall.EACCES) {
		fmt.Println("permission denied")
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Println("bound")
	return l.Close()
}

// actBacklog connects args[0] threads to its own server, which accepts as soon as the file args[1] exists. It prints
// "waiting" when all threads wait for the server.
func actBacklog(args []string) error {
	var n int
	if _, err := fmt.Sscan(args[0], &n); err != nil {
		return err
	}
	server, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	if err := syscall.Bind(server, &syscall.SockaddrInet4{Port: 18090}); err != nil {
		return err
	}
	if err := syscall.Listen(server, 0); err != nil {
		return err
	}
	var connected atomic.Int64
	results := make(chan error, n)
	for range n {
		go func() {
			err := connectBlocking(18090)
			connected.Add(1)
			results <- err
		}()
	}
	for {
		sent, err := connecting(18090)
		if err != nil {
			return err
		}
		if sent+int(connected.Load()) >= n {
			break
		}
		time.Sleep(time.Millisecond)
	}
	other, err := new(net.ListenConfig).Listen(context.Background(), "tcp", ":18091") // is handled meanwhile
	if err != nil {
		return err
	}
	defer other.Close()
	fmt.Println("waiting")
	for _, err := os.Stat(args[1]); err != nil; _, err = os.Stat(args[1]) {
		time.Sleep(time.Millisecond)
	}
	if err := syscall.Listen(server, n); err != nil { // room for the next attempt of every client
		return err
	}
	for range n {
		if _, _, err := syscall.Accept(server); err != nil {
			return err
		}
	}
	for range n {
		if err := <-results; err != nil {
			return err
		}
	}
	return nil
}

// connectBlocking connects a blocking socket to a port of this pod, and leaves it open.
func connectBlocking(port int) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	if err := syscall.Connect(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	mode, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFL, 0)
	if errno != 0 || mode&syscall.O_NONBLOCK != 0 {
		return fmt.Errorf("the socket has the mode %#x: %w", mode, errno)
	}
	if _, err := syscall.Getpeername(fd); err != nil {
		return fmt.Errorf("getpeername: %w", err)
	}
	return nil
}

// connecting returns the number of sockets that wait for a connection to a port.
func connecting(port int) (int, error) {
	b, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return 0, err
	}
	const synSent = "02"
	n := 0
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) > 3 && strings.HasSuffix(f[2], fmt.Sprintf(":%04X", port)) && f[3] == synSent {
			n++
		}
	}
	return n, nil
}
