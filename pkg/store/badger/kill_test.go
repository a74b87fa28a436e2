package badger_test

import (
	"bufio"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

var kills = flag.Int("kills", 12, "how often the store's process is killed")

func TestMain(m *testing.M) {
	dir := os.Getenv(writerDir)
	switch {
	case dir == "":
		os.Exit(m.Run())
	case os.Getenv(observedEnv) != "":
		runFiltered()
	default:
		write(dir)
	}
}

// rounds returns how often a test starts the store's process: a quarter of n with -short, since the race detector slows it down.
func rounds(n int) int {
	if testing.Short() {
		return (n + 3) / 4
	}
	return n
}

// TestKill kills the process that writes and compacts, again and again, and checks each time that no acknowledged write is lost,
// torn, or older than it was.
func TestKill(t *testing.T) {
	dir, l := t.TempDir(), newLedger()
	kills := rounds(*kills)
	for i := range kills {
		l = killOnce(t, dir, l, time.Duration(rand.IntN(250))*time.Millisecond)
		if err := l.open(t.Context(), dir); err != nil {
			t.Fatalf("after kill %d, %d acknowledged writes: %v", i+1, l.acked, err)
		}
	}
	t.Logf("%d kills, %d acknowledged writes, nothing lost", kills, l.acked)
}

// killOnce returns the ledger of a process that is killed some time after it has opened the store.
func killOnce(t *testing.T, dir string, l *ledger, after time.Duration) *ledger {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), writerDir+"="+dir, writerStart+"="+l.starts())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() { cmd.Process.Kill() }
	if rand.IntN(5) == 0 {
		time.AfterFunc(after/5, kill) // while it opens the store
	}
	found, lines, opened := newHolding(), bufio.NewReader(out), false
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break // the kill may have cut a line off
		}
		if !opened {
			time.AfterFunc(after, kill)
			opened = true
		}
		if err := l.note(strings.TrimSuffix(line, "\n"), found); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the writer ended by itself")
	}
	return l.ended()
}
