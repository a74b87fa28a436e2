package process_test

import (
	"net"
	"os"
	"testing"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// TestHeldSockets: the supervisor keeps the sockets of a daemon that has ended, with what clients send meanwhile, and so does the next supervisor.
func TestHeldSockets(t *testing.T) {
	m := newMachine(t)
	m.shell("sleep 1000") // the supervisor stays
	if files, err := m.host.HeldSockets(); err != nil || len(files) > 0 {
		t.Errorf("before: got %v, %v", files, err)
	}
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	m.host.KeepSockets(func() ([]*os.File, error) {
		f, err := socket.(*net.UDPConn).File()
		return []*os.File{f}, err
	})
	held := func() []*os.File {
		files, err := m.host.HeldSockets()
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	keeps := func() bool {
		files := held()
		wire.CloseFiles(files)
		return len(files) == 1
	}
	m.wait("the supervisor keeps the socket", keeps)
	m.killSupervisor()
	m.wait("the next supervisor keeps it", func() bool { return m.supervisor() > 0 && keeps() })
	if err := m.host.Close(); err != nil {
		t.Fatal(err)
	}
	socket.Close()
	client, err := net.Dial("udp4", socket.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for range 2 { // a second packet would be refused after a first one that no socket receives
		if _, err := client.Write([]byte("question")); err != nil {
			t.Fatal(err)
		}
	}
	m.open()
	files := held()
	defer wire.CloseFiles(files)
	next, err := net.FilePacketConn(files[0])
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	b := make([]byte, 100)
	if n, _, err := next.ReadFrom(b); err != nil || string(b[:n]) != "question" {
		t.Errorf("got %q, %v", b[:n], err)
	}
}
