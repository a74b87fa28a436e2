package daemon

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestSocketsOfOthersAreNotAsked(t *testing.T) {
	p := PathsIn("x", t.TempDir())
	p.Socket = filepath.Join(t.TempDir(), "d", "s")
	if err := checkSocket(p); err != nil {
		t.Errorf("a folder that is not there yet: %v", err)
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
		t.Fatal("our own socket is not asked")
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if Running(p) {
		t.Error("a socket is asked that anybody could have put there")
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if p.Socket = filepath.Join(link, "s"); Running(p) {
		t.Error("a socket is asked behind a link")
	}
}
