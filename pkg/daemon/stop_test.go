package daemon

import (
	"os"
	"os/exec"
	"testing"
)

// TestPurgeEndsStoppingDaemon purges while another down waits for the shutdown of the nodes.
func TestPurgeEndsStoppingDaemon(t *testing.T) {
	home(t)
	p := PathsOf("dev")
	held, err := lock(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	daemon := exec.CommandContext(t.Context(), "/bin/sh", "-c", "trap '' TERM; echo started; exec 0<&3; read x")
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	daemon.ExtraFiles = []*os.File{read}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	read.Close()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = daemon.Wait() // a signal ends it
		held.Close()
	}()
	if err := writeState(p, State{PID: daemon.Process.Pid, Stopping: true}); err != nil {
		t.Fatal(err)
	}
	if ran, err := Down(t.Context(), p, DownOptions{Purge: true}); !ran || err != nil {
		t.Errorf("got %v, %v", ran, err)
	}
}
