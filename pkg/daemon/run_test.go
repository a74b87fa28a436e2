package daemon

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// TestFailedUpLeavesNoFiles starts a cluster for the first time on a port that is in use.
func TestFailedUpLeavesNoFiles(t *testing.T) {
	home(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cfg := &Config{Name: "dev", DataDir: filepath.Join(Home(), "dev"), Listen: l.Addr().String(), Only: []string{"apiserver"}}
	if err := cfg.complete(); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), cfg, func(State) {}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Fatalf("got error %v, want one that the address is in use", err)
	}
	if exists(cfg.DataDir) {
		t.Error("the data folder is still there")
	}
}
