package bench

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/minikctl/minikctl/pkg/internal/measured"
)

var update = flag.Bool("update", false, "write the figures that are measured as the ones to hold")

// startup holds the figures that must not grow by more than a tenth: allocations of package init functions, and the
// resident memory of an idle cluster with one node. The time of init is only printed: it depends on the machine's load.
type startup struct {
	InitBytes  float64 `json:"initBytes"`
	InitAllocs float64 `json:"initAllocs"`
	RSS        float64 `json:"rssMiB"`
	Anonymous  float64 `json:"rssAnonMiB"`
}

const figures = "testdata/startup.json"

var initLine = regexp.MustCompile(`(?m)^init (\S+) @\S+ ms, (\S+) ms clock, (\d+) bytes, (\d+) allocs`)

func TestStartup(t *testing.T) {
	measured.Only(t)
	got := startup{}
	c := newCluster(t)
	evict(t, program)
	took := 0.0
	for range 5 { // the minimum is used: goroutines of init functions add to it as they happen to run
		ms, bytes, allocs := initCost(t, c.home)
		if got.InitAllocs == 0 || allocs < got.InitAllocs {
			took, got.InitBytes, got.InitAllocs = ms, bytes, allocs
		}
	}
	c.up()
	for range 3 { // the minimum is used: other load only adds to it
		time.Sleep(3 * time.Second)
		if rss, anon := c.memory(); got.RSS == 0 || rss < got.RSS {
			got.RSS, got.Anonymous = rss, anon
		}
	}
	c.purge()
	t.Logf("init: %.1f ms, %.0f bytes, %.0f allocations; idle: %.1f MiB, %.1f of them anonymous", took, got.InitBytes, got.InitAllocs, got.RSS, got.Anonymous)
	hold(t, got)
}

// initCost returns what the package init functions of one start cost: milliseconds, bytes and allocations.
func initCost(t *testing.T, home string) (ms, bytes, allocs float64) {
	t.Helper()
	cmd := exec.Command(program, "status")
	cmd.Env = append(os.Environ(), "HOME="+home, "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, m := range initLine.FindAllStringSubmatch(string(out), -1) {
		ms += number(t, m[2])
		bytes += number(t, m[3])
		allocs += number(t, m[4])
	}
	return ms, bytes, allocs
}

// evict writes a file to disk and evicts it from the page cache. The cached form of a newly linked file
// differs between runs, and with it, by tens of MiB, the file-backed memory of a process.
func evict(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := errors.Join(f.Sync(), dropCache(f)); err != nil {
		t.Fatal(err)
	}
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func hold(t *testing.T, got startup) {
	if *update {
		b, err := json.MarshalIndent(got, "", "  ")
		if err == nil {
			err = os.WriteFile(figures, append(b, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	b, err := os.ReadFile(figures)
	if err != nil {
		t.Fatal(err)
	}
	var want startup
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	for _, f := range []struct {
		name      string
		got, want float64
	}{
		{"init's bytes", got.InitBytes, want.InitBytes}, {"init's allocations", got.InitAllocs, want.InitAllocs},
		{"idle memory, MiB", got.RSS, want.RSS},
	} {
		if f.got > 1.1*f.want {
			t.Errorf("%s: %.1f, more than a tenth above %.1f; if that is meant, run with -update", f.name, f.got, f.want)
		}
	}
}
