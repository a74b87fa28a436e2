package linear

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/pki"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects/builtin"
	"github.com/minikctl/minikctl/pkg/store/badger"
)

var kills = flag.Int("kills", 8, "how often the API server's process is killed")

// serverDir is the variable that makes a copy of the test binary the API server that is killed.
const serverDir = "MINIKCTL_TEST_SERVER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(serverDir); dir != "" {
		if err := serve(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func socket(dir string) string { return filepath.Join(dir, "s", "api.sock") }

// serve is the API server: its store has small tables, which are flushed and compacted all the time. It prints a line when it is ready.
func serve(dir string) error {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	s, err := badger.Open(badger.Config{Dir: filepath.Join(dir, "store"), MemTableBytes: 256 << 10, ReserveBytes: 1 << 20})
	if err != nil {
		return err
	}
	keys, err := pki.Open(filepath.Join(dir, "pki"), clock.Real())
	if err != nil {
		return err
	}
	server, err := apiserver.New(apiserver.Config{
		Store: s, Resources: builtin.Resources(), Clock: clock.Real(), Source: clock.RandomSource(), PKI: keys, Socket: socket(dir),
	})
	if err != nil {
		return err
	}
	go func() {
		<-server.Ready()
		fmt.Println("ready")
	}()
	return server.Run(context.Background())
}

// cluster is an API server that is killed and started again.
type cluster struct {
	t     *testing.T
	dir   string
	began time.Time

	mu sync.Mutex
	up chan struct{} // closed while the server is ready
}

// ready returns a channel that is closed once the server is ready. A killed server gets another channel before it is killed.
func (c *cluster) ready() chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.up
}

func (c *cluster) now() int64 { return int64(time.Since(c.began)) }

// run starts the server, kills it some time after it is ready, and waits for its end.
func (c *cluster) run(alive func()) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverDir+"="+c.dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		c.t.Fatalf("the server has ended: %v", errors.Join(err, cmd.Wait()))
	}
	close(c.ready())
	alive()
	c.mu.Lock()
	c.up = make(chan struct{})
	c.mu.Unlock()
	if err := cmd.Process.Kill(); err != nil {
		c.t.Error(err)
	}
	_ = cmd.Wait() // killed
}

// client returns an HTTP client with a connection of its own.
func (c *cluster) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket(c.dir))
	}}}
}

const configMaps = "http://local/api/v1/namespaces/default/configmaps"

// object is what the test reads of a ConfigMap, and of a Status.
type object struct {
	Kind     string            `json:"kind"`
	Reason   string            `json:"reason,omitempty"`
	Message  string            `json:"message,omitempty"`
	Metadata metadata          `json:"metadata"`
	Data     map[string]string `json:"data,omitempty"`
	Items    []object          `json:"items,omitempty"`
}

type metadata struct {
	Name            string `json:"name,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// do sends a request and decodes the answer. An error means that it is unknown whether the request was carried out.
func do(ctx context.Context, hc *http.Client, method, path string, body any) (code int, got object, err error) {
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return 0, got, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, configMaps+path, bytes.NewReader(text))
	if err != nil {
		return 0, got, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := hc.Do(req)
	if err != nil {
		return 0, got, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(answer, &got)
	}
	return resp.StatusCode, got, err
}

// TestKillServer kills the API server while eight clients write and 50 watches read. Requests that were in flight may have been carried
// out or not; with that, the whole history is linearizable, and all watches show the same changes as the history.
func TestKillServer(t *testing.T) {
	const clients, watches = 8, 50
	dir, err := os.MkdirTemp("", "linear") // the path of the test's own directory may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := &cluster{t: t, dir: dir, began: time.Now(), up: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log := &changes{last: make(chan struct{})}
	c.run(func() { log.from = c.first(ctx) })
	var reading, writing sync.WaitGroup
	for i := range watches {
		reading.Go(func() { c.watch(ctx, i, log) })
	}
	h := &history{}
	writers, stop := context.WithCancel(ctx)
	defer stop()
	for i := range clients {
		writing.Go(func() { c.write(writers, i, h) })
	}
	for n := range *kills {
		if n%killsPerBatch == 0 {
			h.batch.Add(1)
		}
		c.run(func() { time.Sleep(time.Duration(rand.IntN(150)) * time.Millisecond) })
	}
	c.run(func() {
		stop()
		writing.Wait()
		c.finish(ctx, log, h)
	})
	cancel()
	reading.Wait()
	h.check(t)
	t.Logf("%d kills, %d operations (%d of unknown result), %d changes seen by %d watches", *kills+2, len(h.operations), h.unknown(), len(log.all), watches)
}

// first writes an object and returns its revision, from which all watches begin.
func (c *cluster) first(ctx context.Context) uint64 {
	hc := c.client()
	defer hc.CloseIdleConnections()
	code, got, err := do(ctx, hc, http.MethodPost, "", newObject(firstName, "first", ""))
	if err != nil || code != http.StatusCreated {
		c.t.Fatalf("create: %d, %s, %v", code, got.Message, err)
	}
	return revision(got)
}

// finish writes a last object, waits until all watches have seen it, and compares the changes with the history and a list.
func (c *cluster) finish(ctx context.Context, log *changes, h *history) {
	hc := c.client()
	defer hc.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, list, err := do(ctx, hc, http.MethodGet, "", nil)
	if err != nil {
		c.t.Error(err)
		return
	}
	log.expect(50)
	if code, got, err := do(ctx, hc, http.MethodPost, "", newObject(lastName, "last", "")); err != nil || code != http.StatusCreated {
		c.t.Errorf("create: %d, %s, %v", code, got.Message, err)
	}
	select {
	case <-log.last:
	case <-ctx.Done():
		c.t.Errorf("only %d watches have seen the last change", log.seenLast())
	}
	if err := log.compare(h.acknowledged(), list.Items); err != nil {
		c.t.Error(err)
	}
}
