package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// home gives the test its own Home.
func home(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(real(t.TempDir()), "h")
	t.Setenv("MINIKCTL_HOME", dir)
	return dir
}

func TestCheckName(t *testing.T) {
	for name, ok := range map[string]bool{
		"minikctl": true, "dev-2": true, "a_b.c": true, "A": true, "": false, "..": false, ".x": false, "a/b": false, "../x": false, "-x": false, "a b": false,
		strings.Repeat("x", 63): true, strings.Repeat("x", 64): false,
	} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestSocketPath(t *testing.T) {
	short, long := "/data/dev", "/data/"+strings.Repeat("x", 100)
	if got, want := PathsIn("dev", short).Socket, short+"/run/api.sock"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	a, b := PathsIn("dev", long).Socket, PathsIn("dev", long+"y").Socket
	for _, s := range []string{a, b} {
		if len(s) > maxSocketPath || !strings.HasPrefix(s, "/tmp/minikctl-") {
			t.Errorf("a long path makes the socket %s", s)
		}
	}
	if a == b {
		t.Errorf("two data directories share the socket %s", a)
	}
	t.Setenv("TMPDIR", "/elsewhere")
	if again := PathsIn("dev", long).Socket; again != a {
		t.Errorf("the socket depends on TMPDIR: %s and %s", a, again)
	}
}

func TestHome(t *testing.T) {
	t.Setenv("MINIKCTL_HOME", "")
	t.Setenv("HOME", "/users/x")
	if got := Home(); got != "/users/x/.minikctl" {
		t.Errorf("got %s", got)
	}
	t.Setenv("MINIKCTL_HOME", "/elsewhere")
	if got := PathsOf("dev").Data; got != "/elsewhere/dev" {
		t.Errorf("got %s", got)
	}
	if got := DefaultName(); got != "minikctl" {
		t.Errorf("default name: %s", got)
	}
	t.Setenv("MINIKCTL_NAME", "dev")
	if got := DefaultName(); got != "dev" {
		t.Errorf("name of MINIKCTL_NAME: %s", got)
	}
}

// TestDataOutsideHome checks that PathsOf finds a daemon whose data directory is outside Home, whether the last start named the
// directory directly or through a symbolic link.
func TestDataOutsideHome(t *testing.T) {
	dir := home(t)
	data := filepath.Join(real(t.TempDir()), "data")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Dir(data), link); err != nil {
		t.Fatal(err)
	}
	for _, named := range []string{data, filepath.Join(link, "data"), data} {
		p := PathsIn("dev", named)
		if err := os.MkdirAll(p.Data, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := linkHome(p); err != nil {
			t.Fatalf("%s: %v", named, err)
		}
		if got := PathsOf("dev"); got != p || got.Data != data {
			t.Errorf("%s: got %+v\nwant %+v", named, got, p)
		}
	}
	// The data moves.
	moved := PathsIn("dev", filepath.Join(real(t.TempDir()), "moved"))
	if err := os.MkdirAll(moved.Data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := linkHome(moved); err != nil || PathsOf("dev") != moved {
		t.Errorf("moved: %v, %s", err, PathsOf("dev").Data)
	}
	// A link to a running daemon stays, and so does a data directory in Home.
	held, err := lock(t.Context(), moved)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := writeState(moved, State{PID: os.Getpid()}); err != nil {
		t.Fatal(err)
	}
	if err := linkHome(PathsIn("dev", data)); err == nil || !strings.Contains(err.Error(), `daemon "dev" has its data elsewhere already`) {
		t.Errorf("taken from a running daemon: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "own"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := linkHome(PathsIn("own", data)); err == nil {
		t.Error("linked over a data directory")
	}
	if err := linkHome(PathsOf("own")); err != nil {
		t.Errorf("data in Home: %v", err)
	}
}
