package daemon

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestCheckSocket(t *testing.T) {
	p := PathsIn("x", t.TempDir())
	p.Socket = filepath.Join(t.TempDir(), "d", "s")
	if err := checkSocket(p); err != nil {
		t.Errorf("a directory that does not exist: %v", err)
	}
	dir := filepath.Dir(p.Socket)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", p.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if !Running(p) {
		t.Fatal("Running ignores the own socket")
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if Running(p) {
		t.Error("Running uses a socket in a directory that other users can write to")
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if p.Socket = filepath.Join(link, "s"); Running(p) {
		t.Error("Running uses a socket behind a link")
	}
}
