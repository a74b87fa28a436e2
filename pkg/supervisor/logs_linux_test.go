package supervisor

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFullDiskForLogs: output that does not fit on the disk is lost, and the log goes on with whole entries once there is room. A limit of the size
// of files takes the place of a full disk.
func TestFullDiskForLogs(t *testing.T) {
	signal.Ignore(unix.SIGXFSZ)
	defer signal.Reset(unix.SIGXFSZ)
	path := filepath.Join(t.TempDir(), "log")
	file := logFile{path: path}
	file.create()
	s := stream{name: "stdout", file: &file}
	const entry = len("2006-01-02T15:04:05.000000000Z stdout F a\n")
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	limit := func(size uint64) {
		t.Helper()
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: old.Max}); err != nil {
			t.Fatal(err)
		}
	}
	limit(5 * uint64(entry) / 2)
	s.write([]byte("a\nb\nc\n")) // two and a half entries fit
	s.write([]byte("d\n"))
	limit(old.Cur)
	s.write([]byte("e\n"))
	file.close()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(b)) {
		if len(line) != entry {
			t.Errorf("the log has the line %q", line)
		}
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " stdout ")
		got = append(got, rest)
	}
	if want := []string{"F a", "F b", "F e"}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
