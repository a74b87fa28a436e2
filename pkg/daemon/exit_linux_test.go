package daemon

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// TestStopWaitsForTheExit stops a process that exits some time after it has released the lock.
func TestStopWaitsForTheExit(t *testing.T) {
	home(t)
	p := PathsOf("dev")
	if os.Getenv("STOPPED_DAEMON") != "" {
		stoppedDaemon(t, PathsIn("dev", os.Getenv("STOPPED_DAEMON")))
		return
	}
	if err := os.MkdirAll(p.Data, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestStopWaitsForTheExit$")
	cmd.Env = append(os.Environ(), "STOPPED_DAEMON="+p.Data)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	await := func(want string) {
		for lines.Scan() {
			if lines.Text() == want {
				return
			}
		}
		t.Fatalf("the process ended before it was %s", want)
	}
	await("locked")
	if err := writeState(p, State{PID: cmd.Process.Pid}); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- stop(t.Context(), p, false) }()
	await("unlocked")
	select {
	case err := <-stopped:
		in.Close()
		t.Fatalf("stop returned before the process has exited: %v", err)
	case <-time.After(100 * time.Millisecond): // a stop that does not wait returns after 5 ms
	}
	in.Close()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// stoppedDaemon holds the lock until SIGTERM, and exits when its input ends.
func stoppedDaemon(t *testing.T, p Paths) {
	held, err := lock(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	fmt.Println("locked")
	<-term
	held.Close()
	fmt.Println("unlocked")
	_, _ = io.Copy(io.Discard, os.Stdin)
}
