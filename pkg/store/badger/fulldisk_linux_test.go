package badger_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/badger"
)

const (
	diskSize    = 400 << 20
	diskReserve = 128 << 20 // the default, the most that compactions take
)

// mountSmallDisk mounts a small disk, and unmounts it after the test.
func mountSmallDisk(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("fills a disk")
	}
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, fmt.Sprintf("size=%d", diskSize)); err != nil {
		t.Skipf("mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// inProcess runs a part of TestFullDisk in another process. It reports whether the process ended by SIGBUS, as it does if the disk is
// filled while Badger moves tables. Then everything that was acknowledged must be there once the disk has room.
func inProcess(t *testing.T, part, dir string) (fault bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestFullDiskPart$", "-test.v")
	cmd.Env = append(os.Environ(), fullPart+"="+part, fullDir+"="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil && bytes.Contains(out, []byte("SIGBUS")) && part != "after a fault" {
		if err := os.Remove(filepath.Join(dir, "foreign")); err != nil {
			t.Fatalf("%s: SIGBUS without a full disk: %v\n%s", part, err, out)
		}
		inProcess(t, "after a fault", dir)
		return true
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", part, err, out)
	}
	return false
}

// The variables that name the part that a copy of the test binary runs, and its directory.
const (
	fullPart = "MINIKCTL_TEST_FULL_PART"
	fullDir  = "MINIKCTL_TEST_FULL_DIR"
)

// fillDisk fills the disk to the last byte, as other programs may do.
func fillDisk(t *testing.T, dir string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "foreign"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}

func openSmall(t *testing.T, dir string) *badger.Store {
	t.Helper()
	s, err := badger.Open(badger.Config{Dir: filepath.Join(dir, "store")})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// hasBallast waits until the ballast exists, or does not.
func hasBallast(t *testing.T, dir string, want bool) {
	t.Helper()
	path := filepath.Join(dir, "store", "ballast")
	deadline := time.Now().Add(time.Minute)
	for {
		info, err := os.Stat(path)
		if want && err == nil && info.Size() == diskReserve/2 || !want && errors.Is(err, os.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the ballast: %v, want it there: %v", err, want)
		}
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // polls files that another goroutine writes
	}
}

// waitQuiet waits until the store's files no longer change.
func waitQuiet(t *testing.T, dir string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for last, same := "", 0; same < 50; same++ {
		files, err := filepath.Glob(filepath.Join(dir, "store", "badger", "*"))
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the files still change: %v", err)
		}
		if now := strings.Join(files, " "); now != last {
			last, same = now, 0
		}
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // polls files that another goroutine writes
	}
}

// page is the value that fills the disk.
var page = bytes.Repeat([]byte("0123456789abcdef"), 40<<6)

func mustHave(t *testing.T, s *badger.Store, from, n int) {
	t.Helper()
	got, err := s.List(t.Context(), "k/", store.ListOptions{})
	if err != nil || len(got.Entries) != n-from {
		t.Fatalf("%d entries, want %d: %v", len(got.Entries), n-from, err)
	}
	for _, e := range got.Entries {
		if !bytes.Equal(e.Value, page) {
			t.Fatalf("%s is damaged", e.Key)
		}
	}
}

func key(i int) string { return fmt.Sprintf("k/%06d", i) }

func remove(t *testing.T, s *badger.Store, i int) {
	t.Helper()
	if _, err := s.Write(t.Context(), store.Op{Key: key(i)}); err != nil {
		t.Fatalf("a deletion on a full disk: %v", err)
	}
}

// TestFullDisk fills a small disk with the store's own writes and with those of other programs, while the store runs and while it
// does not.
func TestFullDisk(t *testing.T) {
	dir := mountSmallDisk(t)
	for _, part := range []string{"own", "others", "restart", "too full"} {
		if inProcess(t, part, dir) {
			t.Skipf("%s: the disk was full while Badger moved tables; nothing was lost", part)
		}
	}
	if err := os.Remove(filepath.Join(dir, "foreign")); err != nil {
		t.Fatal(err)
	}
	inProcess(t, "room again", dir)
}

// TestFullDiskPart runs one part of TestFullDisk, in a separate process.
func TestFullDiskPart(t *testing.T) {
	dir := os.Getenv(fullDir)
	written := filepath.Join(dir, "written")
	var n int
	if b, err := os.ReadFile(written); err == nil {
		fmt.Sscan(string(b), &n)
	}
	switch os.Getenv(fullPart) {
	case "own": // the store stops before the space that other programs need
		s := openSmall(t, dir)
		hasBallast(t, dir, true)
		for {
			_, err := s.Write(t.Context(), store.Op{Key: key(n), Value: page})
			if errors.Is(err, store.ErrNoSpace) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n < 100 {
			t.Errorf("room for %d values only", n)
		}
		if err := os.WriteFile(written, fmt.Append(nil, n), 0o600); err != nil {
			t.Fatal(err)
		}
		mustHave(t, s, 0, n)
		remove(t, s, 0)
		mustHave(t, s, 1, n)
		hasBallast(t, dir, true)
		_ = s.Close() // nothing is left to write
	case "others": // fill the disk while the store runs
		s := openSmall(t, dir)
		waitQuiet(t, dir) // a full disk ends Badger while it moves tables; the next start finds every acknowledged write
		fillDisk(t, dir)
		mustHave(t, s, 1, n)
		remove(t, s, 1)
		hasBallast(t, dir, false)
		mustHave(t, s, 2, n)
		if _, err := s.Write(t.Context(), store.Op{Key: "k/new", Value: page}); !errors.Is(err, store.ErrNoSpace) {
			t.Errorf("a write on a full disk: %v", err)
		}
		if _, err := s.Write(t.Context()); !errors.Is(err, store.ErrNoSpace) {
			t.Errorf("write without ops: got %v, want %v", err, store.ErrNoSpace)
		}
		if err := os.Remove(filepath.Join(dir, "foreign")); err != nil {
			t.Fatal(err)
		}
		_ = s.Close()
	case "restart": // on a disk that was filled meanwhile: removes the ballast
		if err := os.WriteFile(filepath.Join(dir, "store", "ballast"), make([]byte, diskReserve/2), 0o600); err != nil {
			t.Fatal(err)
		}
		fillDisk(t, dir)
		s := openSmall(t, dir)
		hasBallast(t, dir, false)
		remove(t, s, 2)
		mustHave(t, s, 3, n)
		if err := os.WriteFile(written, fmt.Append(nil, n), 0o600); err != nil {
			t.Fatal(err)
		}
		// The store is not closed, as when the machine loses power.
	case "too full": // the ballast is gone: the error names the reserve
		fillDisk(t, dir)
		_, err := badger.Open(badger.Config{Dir: filepath.Join(dir, "store")})
		if !errors.Is(err, store.ErrNoSpace) || !strings.Contains(err.Error(), "kept in reserve") {
			t.Errorf("got %v", err)
		}
	case "after a fault": // nothing is lost; the first three values may have been removed
		s := openSmall(t, dir)
		got, err := s.List(t.Context(), "k/", store.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		have := map[string]bool{}
		for _, e := range got.Entries {
			have[e.Key] = bytes.Equal(e.Value, page)
		}
		for i := 3; i < n; i++ {
			if !have[key(i)] {
				t.Errorf("%s is lost or damaged", key(i))
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	case "room again": // nothing is lost
		s := openSmall(t, dir)
		mustHave(t, s, 3, n)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	default:
		t.Skip("a part of TestFullDisk")
	}
}
