package runtimetest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/kubelet"
)

// The environment variables of a test program that the suite starts again.
const (
	roleVariable = "MINIKCTL_RUNTIMETEST_ROLE"
	argument     = "MINIKCTL_RUNTIMETEST_ARGUMENT"
	serverRole   = "server" // listens on the argument, and writes to each connection its addresses
	driverRole   = "driver" // opens the driver over the argument, starts a container, and waits to be killed
)

// Main runs a driver's tests, or the role with which the suite has started the test program again. TestMain returns after it.
func Main(m *testing.M, d Driver) {
	switch os.Getenv(roleVariable) {
	case serverRole:
		fail(serve(os.Getenv(argument)))
	case driverRole:
		fail(drive(d, os.Getenv(argument)))
	default:
		m.Run() // its result becomes the exit code when TestMain returns
	}
}

// StartedBySuite reports whether the suite has started this process with a role. Such a process runs no tests.
func StartedBySuite() bool { return os.Getenv(roleVariable) != "" }

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func serve(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintln(c, c.LocalAddr(), c.RemoteAddr())
		c.Close()
	}
}

const drivenPod types.UID = "11111111-1111-4111-8111-111111111111"

// drive starts a container, prints its ID, and does not return.
func drive(d Driver, root string) error {
	ctx := context.Background()
	rt, _, err := d.New(root)
	if err != nil {
		return err
	}
	if _, err := rt.StartPod(ctx, kubelet.PodSpec{UID: drivenPod, Namespace: "default", Name: "driven"}); err != nil {
		return err
	}
	id, err := rt.Start(ctx, drivenPod, kubelet.ContainerSpec{
		Name: "main", LogPath: root + "/driven.log", Env: []string{"PATH=" + os.Getenv("PATH")},
		Command: []string{"/bin/sh", "-c", "i=0; until [ -e '" + root + "/go' ]; do i=$((i+1)); echo $i; sleep 0.001; done; echo $((i+1)); exit 21"},
	})
	if err != nil {
		return err
	}
	fmt.Println(id)
	_, err = os.Stdin.Read(make([]byte, 1)) // blocks until the process is killed
	return err
}

// killedDriver kills a process with an open driver, and checks that a new driver has its container.
func killedDriver(f *fixture) {
	f.close()
	self, err := os.Executable()
	if err != nil {
		f.Fatal(err)
	}
	cmd := exec.CommandContext(f.ctx, self)
	cmd.Env = append(os.Environ(), roleVariable+"="+driverRole, argument+"="+f.root)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		f.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		f.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		f.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		f.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		f.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	f.open()
	id := kubelet.ContainerID(strings.TrimSpace(line))
	c, ok := f.find(id)
	if !ok || !c.Running || !alive(c.PID) {
		f.Fatalf("got %+v, %v", c, ok)
	}
	f.touch("go")
	if c := f.ended(id); c.ExitCode != 21 {
		f.Errorf("got %+v", c)
	}
	b, err := os.ReadFile(f.root + "/driven.log")
	if err != nil {
		f.Fatal(err)
	}
	i := 0
	for line := range strings.Lines(texts(string(b))) {
		if i++; line != fmt.Sprintln(i) {
			f.Fatalf("log line %d is %q", i, line)
		}
	}
	if i == 0 {
		f.Error("the log is empty")
	}
}
