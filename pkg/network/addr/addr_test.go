package addr

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func TestPool(t *testing.T) {
	p := NewPool(7)
	seen := map[netip.Addr]bool{}
	for {
		a, err := p.Allocate()
		if errors.Is(err, ErrExhausted) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		b := a.As4()
		if b[0] != 127 || b[1] != 7 || b[2] == 0 || b[2] > 126 || b[3] == 0 || b[3] == 255 {
			t.Fatalf("%s is no pod address", a)
		}
		if seen[a] {
			t.Fatalf("%s was handed out twice", a)
		}
		seen[a] = true
	}
	if want := 126 * 254; len(seen) != want {
		t.Errorf("got %d addresses, want %d", len(seen), want)
	}
	back := netip.MustParseAddr("127.7.9.9")
	p.Release(back)
	if a, err := p.Allocate(); err != nil || a != back {
		t.Errorf("after a release: got %v, %v", a, err)
	}
}

func TestPoolDoesNotReuseAddressAtOnce(t *testing.T) {
	p := NewPool(7)
	first, _ := p.Allocate()
	p.Release(first)
	if second, _ := p.Allocate(); second == first {
		t.Errorf("%s was used again at once", first)
	}
}

func TestReserve(t *testing.T) {
	p := NewPool(7)
	for _, c := range []struct {
		addr string
		want bool
	}{
		{"127.7.3.4", true},
		{"127.7.3.4", false}, // taken
		{"127.8.3.4", false}, // another range
		{"127.7.0.4", false}, // not a pod's
		{"127.7.126.255", false},
		{"127.7.127.1", false},  // a load balancer's
		{"127.7.128.1", false},  // a Service's
		{"127.7.126.254", true}, // the last one
	} {
		if got := p.Reserve(netip.MustParseAddr(c.addr)); got != c.want {
			t.Errorf("Reserve(%s) = %v, want %v", c.addr, got, c.want)
		}
	}
	a, err := p.Allocate()
	if err != nil || a.String() != "127.7.1.1" {
		t.Errorf("after the last one: got %v, %v", a, err)
	}
}

func TestClaim(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "minikctl", "ranges")
	a, b := t.TempDir(), t.TempDir()
	ra := claim(t, directory, a)
	rb := claim(t, directory, b)
	if ra == rb {
		t.Fatalf("both have %d", ra)
	}
	if again := claim(t, directory, a); again != ra {
		t.Errorf("claimed again: got %d, want %d", again, ra)
	}
	if err := os.Remove(b); err != nil {
		t.Fatal(err)
	}
	claim(t, directory, t.TempDir())
	if owner, err := os.ReadFile(claimFile(directory, rb)); err == nil && string(owner) == b+"\n" {
		t.Errorf("the claim of an owner that has ended is kept")
	}
	if err := Release(directory, a); err != nil {
		t.Fatal(err)
	}
	if err := Release(directory, a); err != nil {
		t.Errorf("second release: %v", err)
	}
	if _, err := os.Stat(claimFile(directory, ra)); !os.IsNotExist(err) {
		t.Errorf("claim is there after the release: %v", err)
	}
}

func TestReleaseOfLastClaimRemovesDir(t *testing.T) {
	parent := t.TempDir()
	directory := filepath.Join(parent, "minikctl", "ranges")
	owner := t.TempDir()
	claim(t, directory, owner)
	if err := Release(directory, owner); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(parent); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestConcurrentClaims(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "minikctl", "ranges")
	var mu sync.Mutex
	seen := map[Range]int{}
	var wg sync.WaitGroup
	for range 20 {
		owner := t.TempDir()
		wg.Go(func() {
			r, err := Claim(directory, owner)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			seen[r]++
		})
	}
	wg.Wait()
	if len(seen) != 20 {
		t.Errorf("20 daemons share %d ranges: %v", len(seen), seen)
	}
}

func TestRangeOfSocketLine(t *testing.T) {
	for line, want := range map[string]Range{
		"  sl  local_address rem_address   st": 0,
		"   0: 0100007F:1F90 00000000:0000 0A": 0,
		"   1: 0501237F:1F90 00000000:0000 0A": 35,
		"   2: 00000000:0016 00000000:0000 0A": 0,
		"":                                     0,
	} {
		if got, ok := rangeOfLine(line); ok != (want != 0) || ok && got != want {
			t.Errorf("rangeOfLine(%q) = %d, %v, want %d", line, got, ok, want)
		}
	}
}

func claim(t *testing.T, directory, owner string) Range {
	t.Helper()
	r, err := Claim(directory, owner)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Valid() {
		t.Fatalf("got range %d", r)
	}
	return r
}

func TestClaimDirOfAnotherUserIsRefused(t *testing.T) {
	victim := filepath.Join(t.TempDir(), "victim")
	for name, prepare := range map[string]func(t *testing.T, parent string) error{
		"others may write": func(t *testing.T, parent string) error {
			return errors.Join(os.MkdirAll(filepath.Join(parent, "ranges"), 0o700), os.Chmod(parent, 0o777))
		},
		"a link": func(t *testing.T, parent string) error { return os.Symlink(t.TempDir(), parent) },
		"another user's": func(t *testing.T, parent string) error {
			if os.Getuid() != 0 {
				t.Skip("only root can give directories away")
			}
			return errors.Join(os.Mkdir(parent, 0o700), os.Chown(parent, 12345, 12345))
		},
	} {
		t.Run(name, func(t *testing.T) {
			parent := filepath.Join(t.TempDir(), "minikctl-0")
			if err := prepare(t, parent); err != nil {
				t.Fatal(err)
			}
			if r, err := Claim(filepath.Join(parent, "ranges"), victim); err == nil {
				t.Errorf("got %v in a directory in which others can put links", r)
			}
		})
	}
}

// TestClaimWhileDirsAreRemoved claims ranges while another process removes the empty directories.
func TestClaimWhileDirsAreRemoved(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "minikctl", "ranges")
	owner := t.TempDir()
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				_, _ = os.Remove(directory), os.Remove(filepath.Dir(directory)) // fail while a claim is in them
			}
		}
	})
	for range 30 {
		claim(t, directory, owner)
		if err := Release(directory, owner); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	wg.Wait()
}

func TestServices(t *testing.T) {
	if got := Range(7).LoadBalancers().String(); got != "127.7.127.0/24" {
		t.Errorf("got %s", got)
	}
	if got := Range(7).Services().String(); got != "127.7.128.0/17" {
		t.Errorf("got %s", got)
	}
	for port, want := range map[uint16]uint16{1: 64513, 80: 64592, 1023: 65535, 1024: 0, 64592: 0} {
		if got, ok := Unprivileged(port); got != want || ok != (want != 0) {
			t.Errorf("%d: got %d, %t", port, got, ok)
		}
	}
}

// TestDial connects to a port below 1024 of a pod that has another one in its place.
func TestDial(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems have one loopback address only")
	}
	directory, owner := filepath.Join(t.TempDir(), "minikctl", "ranges"), t.TempDir()
	at := claim(t, directory, owner).Own(9)
	moved, _ := Unprivileged(7)
	l, err := net.Listen("tcp4", netip.AddrPortFrom(at, moved).String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dial := Dial(&net.Dialer{})
	conn, err := dial(t.Context(), "tcp", netip.AddrPortFrom(at, 7).String())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if _, err := dial(t.Context(), "tcp", netip.AddrPortFrom(at, 8).String()); err == nil || !strings.Contains(err.Error(), ":8:") {
		t.Errorf("got %v", err)
	}
}
