package apiserver_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"net/http"
	"os"
	"regexp"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/bodies"
	"github.com/minikctl/minikctl/pkg/internal/measured"
)

// The bounds of one request's cost.
const (
	maxCPU  = time.Second
	maxLive = 100 << 20 // bytes
)

var (
	costsEvery = flag.Int("costs.every", 1, "TestCosts sends every n-th case")
	costsOnly  = flag.String("costs.only", "", "TestCosts sends the cases that match, and logs all")
	costsSize  = flag.Int("costs.size", 3<<20-1024, "the size of TestCosts' largest bodies")
	costsFor   = flag.Duration("costs.for", 24*time.Hour, "TestCosts begins no case after this time")
	costsDone  = flag.String("costs.results", "", "a file to which TestCosts adds the result of each case; it skips those that the file has")
)

// TestCosts sends requests whose bodies cost more to handle than to send: every shape of value, at every place of some
// kinds, with every verb. It bounds the CPU time and the live memory of one request. The order is shuffled, always in the same way,
// so that a part of the cases is a sample of all. docs/reliability.md has the figures.
func TestCosts(t *testing.T) {
	measured.Only(t)
	only, err := regexp.Compile(*costsOnly)
	if err != nil {
		t.Fatal(err)
	}
	f := newCosts(t)
	done := f.results(t)
	deadline := time.Now().Add(*costsFor)
	n, left := 0, 0
	for i, c := range shuffled(costCases()) {
		switch {
		case i%*costsEvery != 0 || !only.MatchString(c.name) || done[c.name]:
		case time.Now().After(deadline):
			left++
		default:
			n++
			f.run(t, c)
		}
	}
	t.Logf("%d cases, %d had a result before, %d are left; the largest CPU time %v, the largest live memory %d MB", n, len(done), left, f.most.cpu, f.most.live>>20)
}

// shuffled orders the cases by a hash of their names.
func shuffled(cases []costCase) []costCase {
	hash := func(c costCase) uint64 {
		h := fnv.New64a()
		_, _ = io.WriteString(h, c.name)
		return h.Sum64() * 0x9e3779b97f4a7c15 // FNV's high bits depend little on the end of a name
	}
	slices.SortStableFunc(cases, func(a, b costCase) int {
		if hash(a) < hash(b) {
			return -1
		}
		return 1
	})
	return cases
}

// costs measures the requests to one server.
type costs struct {
	e       *apiservertest.Env
	hc      *http.Client
	names   int
	most    cost
	refused map[string]bool // the verbs whose refusal of a body that weighs too much has been measured
	out     io.Writer       // of the results
	remove  func()          // what the last request may have created
}

type cost struct {
	cpu       time.Duration
	live      int64
	allocated int64
}

// add sets c to the greater of c and other.
func (c *cost) add(other cost) {
	*c = cost{max(c.cpu, other.cpu), max(c.live, other.live), max(c.allocated, other.allocated)}
}

func (c cost) within() bool { return c.cpu <= maxCPU && c.live <= maxLive }

func newCosts(t *testing.T) *costs {
	e := apiservertest.New(t)
	hc, err := rest.HTTPClientFor(e.AdminConfig)
	if err != nil {
		t.Fatal(err)
	}
	f := &costs{e: e, hc: hc, refused: map[string]bool{}, out: io.Discard, remove: func() {}}
	if code, answer, _ := f.send(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/json", thingsCRD); code != http.StatusCreated {
		t.Fatalf("%d %s", code, answer)
	}
	const account = `{"metadata":{"name":"default"}}` // for pods
	if code, answer, _ := f.send(http.MethodPost, "/api/v1/namespaces/default/serviceaccounts", "application/json", account); code != http.StatusCreated {
		t.Fatalf("%d %s", code, answer)
	}
	return f
}

// results returns the cases that the file of results has, and opens it.
func (f *costs) results(t *testing.T) map[string]bool {
	done := map[string]bool{}
	if *costsDone == "" {
		return done
	}
	file, err := os.OpenFile(*costsDone, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	f.out = file
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name, _, ok := strings.Cut(lines.Text(), "\t"); ok {
			done[name] = true
		}
	}
	return done
}

func (f *costs) send(method, path, media, body string) (int, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, f.e.URL+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	resp, err := f.hc.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	start := make([]byte, 200)
	n, _ := io.ReadFull(resp.Body, start)
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, string(start[:n]), err
}

// run sends a case at a thirtieth of the size, which ends the cases whose cost grows faster than their size, and at the full size. If
// the server refuses that by its weight before it decodes it, run sends the largest body that is not too heavy. Only the first
// refusal of each verb is measured.
func (f *costs) run(t *testing.T, c costCase) {
	fits := c.largest(*costsSize)
	sizes := []int{fits / 30, fits}
	if verb, _, _ := strings.Cut(c.name, " "); fits < *costsSize && !f.refused[verb] {
		f.refused[verb] = true
		sizes = append(sizes, *costsSize)
	}
	var most cost
	answer := ""
	for _, size := range sizes {
		took, got := f.measure(t, c, size)
		if took.cpu > most.cpu || took.live > most.live || answer == "" {
			answer = fmt.Sprintf("%d KB: %s", size>>10, got)
		}
		if most.add(took); !most.within() {
			break
		}
	}
	f.most.add(most)
	line := fmt.Sprintf("%s\t%v CPU, %d MB live, %d MB allocated, %s", c.name, most.cpu.Round(time.Millisecond), most.live>>20, most.allocated>>20, answer)
	fmt.Fprintln(f.out, line)
	switch {
	case !most.within():
		t.Errorf("%s", line)
	case most.cpu > maxCPU/2 || most.live > maxLive/2 || *costsOnly != "":
		t.Logf("%s", line)
	}
}

// largest returns size, or the size of the largest body of the case that is not too heavy.
func (c costCase) largest(size int) int {
	for {
		body := []byte(c.body(size))
		if c.method == http.MethodGet || c.media == "application/vnd.kubernetes.protobuf" || !bodies.LooksLikeJSON(body) {
			return size
		}
		weight := bodies.Weight(body)
		if weight <= bodies.MaxWeight {
			return size
		}
		size = int(float64(size) * bodies.MaxWeight / float64(weight) * 0.99)
	}
}

// measure sends a case at a size. The live memory grows by at most what is allocated, so that it is measured only if that is beyond
// the bound. The CPU time is measured again, without the garbage of the requests before, if it is near the bound.
func (f *costs) measure(t *testing.T, c costCase, size int) (took cost, answer string) {
	body := c.body(size)
	took.cpu, took.allocated = cpuOf(f.prepare(t, c, body, &answer))
	if took.cpu > maxCPU/2 && took.cpu < 4*maxCPU {
		again := f.prepare(t, c, body, &answer)
		debug.FreeOSMemory()
		cpu, _ := cpuOf(again)
		took.cpu = min(took.cpu, cpu)
	}
	if took.allocated > maxLive && took.cpu < 4*maxCPU { // else the request only takes time
		took.live = liveOf(f.prepare(t, c, body, &answer))
	}
	return took, answer
}

// prepare creates the object that a case needs and returns what sends its request. The object of the previous request is removed.
func (f *costs) prepare(t *testing.T, c costCase, body string, answer *string) (send func()) {
	f.remove()
	f.names++
	name := fmt.Sprint("n", f.names)
	fix := func(s string) string { return strings.ReplaceAll(s, "NAME", name) }
	at := c.beforePath
	if at == "" {
		at = c.path
	}
	f.remove = func() { f.delete(fix(at), name) }
	if c.before != "" {
		if code, start, err := f.send(http.MethodPost, fix(at), "application/json", fix(c.before)); code != http.StatusCreated {
			t.Errorf("%s: before it: %d %s %v", c.name, code, start, err)
		}
	}
	path, body := fix(c.path), fix(body)
	if c.method == http.MethodGet {
		path, body = path+body, ""
	}
	return func() {
		code, start, err := f.send(c.method, path, c.media, body)
		*answer = fmt.Sprintf("%d %.100q", code, start)
		if err != nil {
			*answer += " " + err.Error()
		}
	}
}

// delete deletes an object that may have finalizers.
func (f *costs) delete(path, name string) {
	if strings.Contains(path, "customresourcedefinitions") {
		name += ".costs.example"
	}
	if code, _, _ := f.send(http.MethodDelete, path+"/"+name+"?gracePeriodSeconds=0", "", ""); code != http.StatusNotFound {
		_, _, _ = f.send(http.MethodPatch, path+"/"+name, "application/merge-patch+json", `{"metadata":{"finalizers":null}}`)
	}
}

// cpuOf returns the CPU time of the process while f runs, and the bytes that it allocates. Little else runs in a test.
func cpuOf(f func()) (time.Duration, int64) {
	allocated := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(allocated)
	before, bytes := cpuTime(), allocated[0].Value.Uint64()
	f()
	took := cpuTime() - before
	metrics.Read(allocated)
	return took, int64(allocated[0].Value.Uint64() - bytes)
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// liveOf returns how much the live memory grows while f runs. A small GC percent makes the collector look often.
func liveOf(f func()) int64 {
	debug.FreeOSMemory()
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	read := func() int64 {
		metrics.Read(live)
		return int64(live[0].Value.Uint64())
	}
	before, most := read(), int64(0)
	ended, seen := make(chan struct{}), make(chan int64)
	go func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				most = max(most, read()-before)
			case <-ended:
				seen <- max(most, read()-before)
				return
			}
		}
	}()
	f()
	close(ended)
	return <-seen
}
