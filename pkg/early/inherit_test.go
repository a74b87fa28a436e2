package early

import (
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

func TestKeepDescriptors(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	inherited, err := syscall.Dup(int(w.Fd())) // open across exec, as a descriptor that a shell has left open
	if err != nil {
		t.Fatal(err)
	}
	KeepDescriptors()
	cmd := exec.Command("sleep", "300")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	w.Close()
	syscall.Close(inherited)
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, r)
		ended <- err
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("a started process has inherited the descriptor")
	}
}
