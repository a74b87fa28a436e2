package badger_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/badger"
)

var kills = flag.Int("kills", 12, "how often the store's process is killed")

// writerDir is the variable that makes a copy of the test binary the process that is killed.
const writerDir = "MINIKCTL_TEST_WRITER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerDir); dir != "" {
		write(dir)
		return
	}
	os.Exit(m.Run())
}

// write puts and deletes until it is killed, and prints each acknowledged write after it was acknowledged.
func write(dir string) {
	s, err := badger.Open(badger.Config{Dir: dir})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	var out sync.Mutex
	for w := range 16 {
		go func() {
			rng := rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(w)))
			for i := 0; ; i++ {
				key := fmt.Sprintf("k/%d/%d", w, rng.IntN(50))
				op := store.Op{Key: key}
				if rng.IntN(10) > 0 {
					op.Value = value(rng)
				}
				revs, err := s.Write(context.Background(), op)
				if err != nil {
					fmt.Println("error", err)
					os.Exit(1)
				}
				out.Lock()
				fmt.Println("ack", key, revs[0], sum(op.Value))
				out.Unlock()
			}
		}()
	}
	select {}
}

func value(rng *rand.Rand) []byte {
	n := 100 + rng.IntN(2000)
	if rng.IntN(200) == 0 {
		n = 200 << 10
	}
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func sum(b []byte) string {
	if b == nil {
		return "-"
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:8])
}

// acked is the newest acknowledged write of a key.
type acked struct {
	revision store.Revision
	sum      string
}

// TestKill kills the process that writes, again and again, and checks each time that no acknowledged write is lost, torn, or older
// than it was.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	want := map[string]acked{}
	total := 0
	for i := range *kills {
		total += killOnce(t, dir, want, time.Duration(rand.IntN(250))*time.Millisecond)
		check(t, dir, want)
		if t.Failed() {
			t.Fatalf("after kill %d, %d acknowledged writes", i+1, total)
		}
	}
	t.Logf("%d kills, %d acknowledged writes, nothing lost", *kills, total)
}

func killOnce(t *testing.T, dir string, want map[string]acked, after time.Duration) int {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), writerDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	n := 0
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if n == 0 {
			time.AfterFunc(after, func() { cmd.Process.Kill() })
		}
		if note(t, want, lines.Text()) {
			n++
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the writer ended by itself")
	}
	return n
}

func note(t *testing.T, want map[string]acked, line string) bool {
	f := strings.Fields(line)
	if len(f) > 0 && f[0] == "error" {
		t.Fatal(line)
	}
	if len(f) != 4 || len(f[3]) != 16 && f[3] != "-" {
		return false // cut off by the kill
	}
	var rev store.Revision
	if _, err := fmt.Sscan(f[2], &rev); err != nil {
		t.Fatal(err)
	}
	if rev > want[f[1]].revision {
		want[f[1]] = acked{rev, f[3]}
	}
	return true
}

func check(t *testing.T, dir string, want map[string]acked) {
	s, err := badger.Open(badger.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	head, err := s.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for key, w := range want {
		if head < w.revision {
			t.Errorf("head is %d, but %s was acknowledged at %d", head, key, w.revision)
		}
		got, err := s.Get(t.Context(), key, w.revision)
		switch {
		case w.sum == "-" && errors.Is(err, store.ErrNotFound):
		case err != nil:
			t.Errorf("%s at %d: %v", key, w.revision, err)
		case sum(got.Value) != w.sum || got.Modified != w.revision:
			t.Errorf("%s at %d: got revision %d, %s, want %s", key, w.revision, got.Modified, sum(got.Value), w.sum)
		}
	}
}
