// Package stocktest drives a real daemon with third-party clients: controller-runtime's manager, Helm, and the client
// libraries of other languages. It is a separate module, so that their dependencies stay out of the product's go.mod. It
// uses none of the product's packages: it runs the program. "make clients" runs it.
package stocktest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// program is the path of minikctl, and shared a directory for what several tests use.
var program, shared string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	if testing.Verbose() {
		log.SetLogger(zap.New(zap.UseDevMode(true)))
	} else {
		log.SetLogger(logr.Discard())
	}
	var err error
	if shared, err = os.MkdirTemp("", "minikctl-clients-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(shared)
	if program = os.Getenv("MINIKCTL"); program == "" {
		program = filepath.Join(shared, "minikctl")
		build := exec.Command("go", "build", "-C", "../../..", "-o", program, "./cmd/minikctl")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build minikctl: %v\n%s", err, out)
			return 1
		}
	}
	return m.Run()
}

// cluster is a daemon with its own home directory. It ends with the test.
type cluster struct {
	home, kubeconfig string
	config           *rest.Config
}

// newCluster starts a daemon with one node on which the image nginx is the built-in web server.
func newCluster(t *testing.T) cluster {
	t.Helper()
	return newClusterWith(t, "")
}

// newClusterWith starts a daemon that has more images, each a line of the config's map.
func newClusterWith(t *testing.T, images string) cluster {
	t.Helper()
	c := cluster{home: t.TempDir()}
	c.kubeconfig = filepath.Join(c.home, "kubeconfig")
	file := filepath.Join(c.home, "config.yaml")
	if err := os.WriteFile(file, []byte("images:\n  nginx: minikctl.dev/web\n"+images), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(c.home, ".minikctl", "minikctl", "daemon.log"))
			t.Logf("log of the daemon:\n%s", log)
		}
		if out, err := c.command("down", "--purge").CombinedOutput(); err != nil {
			t.Errorf("down: %v\n%s", err, out)
		}
	})
	if out, err := c.command("up", "-d", "--config", file, "--write-kubeconfig", c.kubeconfig).CombinedOutput(); err != nil {
		t.Fatalf("up: %v\n%s", err, out)
	}
	var err error
	if c.config, err = clientcmd.BuildConfigFromFlags("", c.kubeconfig); err != nil {
		t.Fatal(err)
	}
	c.config.QPS = -1 // no client-side rate limit
	return c
}

// command returns a minikctl command in the cluster's home directory.
func (c cluster) command(args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "HOME=") && !strings.HasPrefix(v, "KUBECONFIG=") && !strings.HasPrefix(v, "MINIKCTL") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "HOME="+c.home)
	return cmd
}

// eventually polls until cond returns nil; a failure reports cond's last error.
func eventually(t *testing.T, what string, cond func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := cond(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not in time: %s: %v", what, err)
		case <-tick.C:
		}
	}
}
