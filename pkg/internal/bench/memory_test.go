package bench

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/minikctl/minikctl/pkg/internal/measured"
)

// idleAfterLoad is the goal of the resident memory of an idle daemon, in MiB, two minutes after any load.
const idleAfterLoad = 120

// The loads: so many cycles in which pods are created and deleted.
var (
	cycles = flag.Int("cycles", 12, "cycles of TestMemoryAfterLoad")
	pods   = flag.Int("pods", 1000, "pods of each cycle of TestMemoryAfterLoad")
)

// TestMemoryAfterLoad creates and deletes pods in cycles, and measures the daemon after two idle minutes. The directory HEAP_PROFILES, if it
// is set, gets heap profiles from before and after them.
func TestMemoryAfterLoad(t *testing.T) {
	measured.Only(t)
	c := newCluster(t)
	c.up("--sim-nodes", "10")
	defer c.purge()
	clients := c.clients()
	c.awaitNodes(clients, 10)
	total, anon := c.memory()
	t.Logf("before: %.1f MiB, %.1f of them anonymous", total, anon)
	peak := 0.0
	for i := range *cycles {
		name := fmt.Sprint("load-", i)
		_, ready := c.deploy(clients, name, int32(*pods), "nginx")
		c.remove(clients, name)
		total, anon = c.memory()
		peak = max(peak, total)
		if i < 12 || i == *cycles-1 {
			t.Logf("cycle %d: Ready after %v; %.1f MiB, %.1f of them anonymous", i, ready, total, anon)
		}
	}
	c.heapProfile(clients, "load")
	for range 4 {
		time.Sleep(30 * time.Second)
		total, anon = c.memory()
		t.Logf("idle: %.1f MiB, %.1f of them anonymous", total, anon)
	}
	c.heapProfile(clients, "idle")
	events, err := clients.CoreV1().Events("").List(t.Context(), metav1.ListOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d Events; at most %.1f MiB after a cycle", len(events.Items)+int(remaining(events.RemainingItemCount)), peak)
	if total > idleAfterLoad {
		t.Errorf("%.1f MiB after two idle minutes, more than %d", total, idleAfterLoad)
	}
}

func remaining(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// heapProfile writes the daemon's heap profile, after a garbage collection, into the directory HEAP_PROFILES.
func (c *cluster) heapProfile(clients kubernetes.Interface, name string) {
	c.b.Helper()
	dir := os.Getenv("HEAP_PROFILES")
	if dir == "" {
		return
	}
	b, err := clients.CoreV1().RESTClient().Get().AbsPath("/debug/pprof/heap").Param("gc", "1").DoRaw(c.b.Context())
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".pprof"), b, 0o600)
	}
	if err != nil {
		c.b.Fatal(err)
	}
}
