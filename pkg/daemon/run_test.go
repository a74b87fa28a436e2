package daemon

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/minikctl/minikctl/pkg/schedplugins"
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
	if err := Run(t.Context(), cfg, nil, func(State) {}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Fatalf("got error %v, want one that the address is in use", err)
	}
	if exists(cfg.DataDir) {
		t.Error("the data directory is still there")
	}
}

// TestSchedulerServer starts a scheduler whose server has a port of its own, and one whose port is in use. The metrics of the first are also those of the
// API server in the same process.
func TestSchedulerServer(t *testing.T) {
	home(t)
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "kubeconfig"))
	used, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	for address, refusal := range map[string]string{"127.0.0.1:0": "", used.Addr().String(): "listen for the scheduler: "} {
		cfg := &Config{Name: "dev", DataDir: filepath.Join(Home(), "dev"), Store: "memory", Listen: "127.0.0.1:0", Only: []string{"apiserver", "scheduler"}, SchedulerListen: address}
		if err := cfg.complete(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		err := Run(ctx, cfg, schedplugins.Registry, func(State) {
			if body := read(t, "/metrics"); !strings.Contains(body, "\nscheduler_preemption_attempts_total 0\n") || !strings.Contains(body, "\ngo_goroutines ") {
				t.Errorf("metrics of the API server: %s", body)
			}
			cancel()
		})
		cancel()
		if refusal == "" && err != nil || refusal != "" && (err == nil || !strings.Contains(err.Error(), refusal)) {
			t.Errorf("%s: got error %v, want %q", address, err, refusal)
		}
	}
	if _, err := Down(t.Context(), PathsOf("dev"), DownOptions{Purge: true}); err != nil {
		t.Errorf("down --purge: %v", err)
	}
}

// read reads a path of the API server with the kubeconfig's credentials.
func read(t *testing.T, path string) string {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseIdleConnections()
	resp, err := c.Get(config.Host + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestUpIgnoresFilesOfOthers starts a cluster where another user has created a file in place of the directory for records of failed ups.
func TestUpIgnoresFilesOfOthers(t *testing.T) {
	home(t)
	temp := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", temp)
	t.Setenv("KUBECONFIG", filepath.Join(temp, "kubeconfig"))
	write(t, filepath.Join(temp, "minikctl-"+strconv.Itoa(os.Getuid())))
	cfg := &Config{Name: "dev", DataDir: filepath.Join(Home(), "dev"), Listen: "127.0.0.1:0", Only: []string{"apiserver"}}
	if err := cfg.complete(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ready := false
	if err := Run(ctx, cfg, nil, func(State) { ready = true; cancel() }); err != nil || !ready {
		t.Errorf("up: %v", err)
	}
	if _, err := Down(t.Context(), PathsOf("dev"), DownOptions{Purge: true}); err != nil {
		t.Errorf("down --purge: %v", err)
	}
}
