package apiserver_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/internal/measured"
	"github.com/minikctl/minikctl/pkg/store/badger"
)

// TestFlowHeaders compares the headers that name the FlowSchema and the priority level of a request with the objects, also after a
// FlowSchema was added.
func TestFlowHeaders(t *testing.T) {
	e := apiservertest.New(t)
	uid := func(path string) string {
		_, body := do(t, e, "GET", "/apis/flowcontrol.apiserver.k8s.io/v1/"+path, "")
		_, rest, _ := strings.Cut(body, `"uid":"`)
		id, _, _ := strings.Cut(rest, `"`)
		return id
	}
	check := func(token, path, schema, level string) {
		t.Helper()
		resp := request(t, e, token, "GET", path, "")
		if got, want := resp.Header.Get("X-Kubernetes-Pf-Flowschema-Uid"), uid("flowschemas/"+schema); got != want || got == "" {
			t.Errorf("%s: FlowSchema %q, want %q", path, got, want)
		}
		if got, want := resp.Header.Get("X-Kubernetes-Pf-Prioritylevel-Uid"), uid("prioritylevelconfigurations/"+level); got != want || got == "" {
			t.Errorf("%s: priority level %q, want %q", path, got, want)
		}
	}
	check(apiservertest.AdminToken, "/api/v1/pods", "exempt", "exempt")
	check(apiservertest.AliceToken, "/api/v1/pods", "global-default", "global-default")
	check(apiservertest.AliceToken, "/healthz", "probes", "exempt")
	const alice = `{"apiVersion":"flowcontrol.apiserver.k8s.io/v1","kind":"FlowSchema","metadata":{"name":"alice"},"spec":{"matchingPrecedence":100,` +
		`"priorityLevelConfiguration":{"name":"workload-high"},"rules":[{"subjects":[{"kind":"User","user":{"name":"alice"}}],` +
		`"resourceRules":[{"verbs":["list"],"apiGroups":[""],"resources":["pods"],"clusterScope":true}]}]}}`
	if resp, body := do(t, e, "POST", "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", alice, "Content-Type", "application/json"); resp.StatusCode != http.StatusCreated {
		t.Fatal(body)
	}
	check(apiservertest.AliceToken, "/api/v1/pods", "alice", "workload-high")
	check(apiservertest.AliceToken, "/api/v1/namespaces/default/pods", "global-default", "global-default")
}

// request sends a request with a token and reads the response.
func request(t testing.TB, e *apiservertest.Env, token, method, path, body string) *http.Response {
	t.Helper()
	hc, err := rest.HTTPClientFor(e.Config(token))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := send(t.Context(), hc, method, e.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// send sends a request and reads the whole response.
func send(ctx context.Context, hc *http.Client, method, url, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := hc.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp, err
}

// fairGoal is the longest that 99 of 100 requests of a user may take beside any load of another.
const fairGoal = 100 * time.Millisecond

// loads are what one user sends as often as it can.
var loads = []struct {
	token   string
	name    string
	clients int
	request func(n int64) (method, path, body string)
}{
	{apiservertest.AliceToken, "none", 0, nil},
	{apiservertest.AliceToken, "writers", 500, createLoadMap},
	{apiservertest.AliceToken, "writers", 900, createLoadMap},
	{apiservertest.AliceToken, "lists", 200, listMaps},
	{apiservertest.AliceToken, "waiting reads", 500, func(int64) (method, path, body string) {
		return "GET", "/api/v1/configmaps?resourceVersion=99999999999", ""
	}},
	{apiservertest.AdminToken, "writers with the rights of an administrator", 900, createLoadMap},
	{apiservertest.AdminToken, "lists of an administrator", 200, listMaps},
}

func listMaps(int64) (method, path, body string) { return "GET", "/api/v1/configmaps", "" }

func createLoadMap(n int64) (method, path, body string) { return createMap("load", n) }

// createMap returns the request for a ConfigMap of a kilobyte.
func createMap(name string, n int64) (method, path, body string) {
	return "POST", "/api/v1/namespaces/default/configmaps",
		fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s-%d"},"data":{"a":"%s"}}`, name, n, strings.Repeat("x", 1000))
}

// TestFairness measures how long the requests of one user take while another user sends as many requests as it can, from a process of
// its own.
func TestFairness(t *testing.T) {
	measured.Only(t)
	for i, load := range loads {
		t.Run(fmt.Sprint(load.clients, " ", load.name), func(t *testing.T) {
			s, err := badger.Open(badger.Config{Dir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			e := apiservertest.New(t, func(c *apiserver.Config) { c.Store = s })
			grantAll(t, e, "alice", "bob")
			var names atomic.Int64
			for range 1000 { // for the lists
				if resp := request(t, e, apiservertest.AdminToken, "POST", "/api/v1/namespaces/default/configmaps", bodyOf(createMap("m", names.Add(1)))); resp.StatusCode != http.StatusCreated {
					t.Fatal(resp.Status)
				}
			}
			stop := startLoad(t, e, i)
			time.Sleep(5 * time.Second) // a measurement under the full load: all clients have connected by then
			reads, writes := measureOther(t, e, &names)
			t.Logf("the load: %s", stop())
			t.Logf("the other user's %d reads: p50 %v p99 %v max %v", len(reads), quantile(reads, 50), quantile(reads, 99), reads[len(reads)-1])
			t.Logf("the other user's %d writes: p50 %v p99 %v max %v", len(writes), quantile(writes, 50), quantile(writes, 99), writes[len(writes)-1])
			if worst := max(quantile(reads, 99), quantile(writes, 99)); worst > fairGoal {
				t.Errorf("p99 is %v, want %v", worst, fairGoal)
			}
		})
	}
}

// The environment of a process that sends a load: the index of the load, and the API server's address and certificate.
const loadVariable, loadURLVariable, loadCAVariable = "MINIKCTL_TEST_LOAD", "MINIKCTL_TEST_LOAD_URL", "MINIKCTL_TEST_LOAD_CA"

// startLoad starts a process that sends a load. The returned function ends it and returns what it prints.
func startLoad(t *testing.T, e *apiservertest.Env, load int) (stop func() string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestSendLoad$")
	cmd.Env = append(os.Environ(), fmt.Sprint(loadVariable, "=", load), loadURLVariable+"="+e.URL, loadCAVariable+"="+string(e.PKI.CA()))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() string {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the load: %v", err)
		}
		text, _, _ := strings.Cut(out.String(), "\n")
		return text
	}
}

// TestSendLoad is the process of startLoad. It ends with its standard input.
func TestSendLoad(t *testing.T) {
	i, err := strconv.Atoi(os.Getenv(loadVariable))
	if err != nil {
		t.Skip("runs only in the process that TestFairness starts to send its load")
	}
	load, url := loads[i], os.Getenv(loadURLVariable)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var clients sync.WaitGroup
	var names, answered, refused atomic.Int64
	began := time.Now()
	for range load.clients {
		clients.Go(func() {
			hc := ownConnection([]byte(os.Getenv(loadCAVariable)), load.token)
			defer hc.CloseIdleConnections()
			for ctx.Err() == nil {
				method, path, body := load.request(names.Add(1))
				resp, err := send(ctx, hc, method, url+path, body)
				switch {
				case err != nil:
				case resp.StatusCode == http.StatusTooManyRequests:
					refused.Add(1)
					select {
					case <-time.After(time.Second): // the Retry-After of the response
					case <-ctx.Done():
					}
				default:
					answered.Add(1)
				}
			}
		})
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	fmt.Printf("%.0f/s answered, %d times 429\n", float64(answered.Load())/time.Since(began).Seconds(), refused.Load())
	stop()
	clients.Wait()
}

func bodyOf(_, _, s string) string { return s }

// ownConnection returns a client that shares no connection with another one.
func ownConnection(ca []byte, token string) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &http.Client{Transport: transport.NewBearerAuthRoundTripper(token, &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true,
	})}
}

// measureOther sends reads and writes of another user, one at a time, and returns how long they took, sorted.
func measureOther(t *testing.T, e *apiservertest.Env, names *atomic.Int64) (reads, writes []time.Duration) {
	t.Helper()
	hc := ownConnection(e.PKI.CA(), apiservertest.BobToken)
	defer hc.CloseIdleConnections()
	for range 200 {
		for _, write := range []bool{false, true} {
			method, path, body := "GET", "/api/v1/namespaces/default", ""
			if write {
				method, path, body = createMap("m", names.Add(1))
			}
			began := time.Now()
			resp, err := send(t.Context(), hc, method, e.URL+path, body)
			took := time.Since(began)
			if err != nil || resp.StatusCode >= 300 {
				t.Fatal(resp, err)
			}
			if write {
				writes = append(writes, took)
			} else {
				reads = append(reads, took)
			}
		}
	}
	slices.Sort(reads)
	slices.Sort(writes)
	return reads, writes
}

func quantile(sorted []time.Duration, percent int) time.Duration {
	return sorted[len(sorted)*percent/100].Round(100 * time.Microsecond)
}

// grantAll lets users read and write everything.
func grantAll(t *testing.T, e *apiservertest.Env, users ...string) {
	t.Helper()
	for _, u := range users {
		body := fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"all-%s"},`+
			`"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"kind":"User","name":"%s"}]}`, u, u)
		if resp, text := do(t, e, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", body, "Content-Type", "application/json"); resp.StatusCode != http.StatusCreated {
			t.Fatal(text)
		}
	}
}
