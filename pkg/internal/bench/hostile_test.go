package bench

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/minikctl/minikctl/pkg/internal/measured"
	"github.com/minikctl/minikctl/pkg/internal/unread"
)

const (
	hostileClients = 1000
	hostileTime    = 90 * time.Second
	mostUnderLoad  = 1024 // MiB
)

// TestHostileClients lets 1,000 connections of one user misbehave for a minute and a half, each in one of nine ways, and measures
// the daemon's memory and the reads of another user. It runs once for an ordinary user with all rights and once for an
// administrator, which needs no seat.
func TestHostileClients(t *testing.T) {
	measured.Only(t)
	for _, user := range []string{"ordinary", "administrator"} {
		t.Run(user, func(t *testing.T) { testHostileClients(t, user == "administrator") })
	}
}

func testHostileClients(t *testing.T, administrator bool) {
	c := newCluster(t)
	c.up()
	defer c.purge()
	clients := c.clients()
	c.fill(clients, 1000, 20<<10)
	h := &hostile{cluster: c, config: c.config(), token: c.token(clients, "hostile", administrator)}
	defer h.closeAll()
	past, err := clients.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	h.past = past.ResourceVersion

	ctx, stop := context.WithTimeout(t.Context(), hostileTime)
	defer stop()
	for i := range hostileClients {
		go h.ways()[i%len(h.ways())](ctx)
	}
	peak := make(chan float64)
	go func() {
		most := 0.0
		for ctx.Err() == nil {
			total, _ := c.memory()
			most = max(most, total)
			sleep(ctx, 200*time.Millisecond)
		}
		peak <- most
	}()
	reads, err := c.readAs(ctx, c.token(clients, "other", false))
	if err != nil {
		t.Fatal(err)
	}
	most := <-peak
	c.heapProfile(clients, "hostile")
	t.Logf("peak: %.0f MiB; %d connections; the other user: %s", most, h.opened.Load(), reads)
	if most > mostUnderLoad {
		t.Errorf("%.0f MiB, more than %d", most, mostUnderLoad)
	}
}

// readVariable has the path of a kubeconfig, in the environment of a process that reads.
const readVariable = "MINIKCTL_TEST_READ"

// readAs lets another process read ConfigMaps with a token until ctx ends, and returns what it says about the times: in this process the
// reads would wait for the hostile clients.
func (c *cluster) readAs(ctx context.Context, token string) (string, error) {
	kubeconfig := c.home + "/reader.kubeconfig"
	cfg := c.config()
	err := clientcmd.WriteToFile(api.Config{
		Clusters:       map[string]*api.Cluster{"": {Server: cfg.Host, CertificateAuthorityData: cfg.CAData}},
		AuthInfos:      map[string]*api.AuthInfo{"": {Token: token}},
		Contexts:       map[string]*api.Context{"reader": {}},
		CurrentContext: "reader",
	}, kubeconfig)
	if err != nil {
		return "", err
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestReadBeside$", "-test.v")
	cmd.Env = append(os.Environ(), readVariable+"="+kubeconfig)
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() { _ = in.Close() })
	defer stop()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("reads of another user: %w\n%s", err, out)
	}
	return string(out), nil
}

// TestReadBeside is the process of readAs. It ends with its standard input.
func TestReadBeside(t *testing.T) {
	kubeconfig := os.Getenv(readVariable)
	if kubeconfig == "" {
		t.Skip("runs only in the process that TestHostileClients starts to read beside its clients")
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS, cfg.Timeout = -1, 30*time.Second
	clients, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	var took []time.Duration
	for ctx.Err() == nil {
		began := time.Now()
		_, err := clients.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{Limit: 10})
		if took = append(took, time.Since(began)); err != nil {
			t.Error(err)
		}
		sleep(ctx, 50*time.Millisecond)
	}
	slices.Sort(took)
	t.Logf("%d reads, median %v, 99%% %v, slowest %v", len(took), took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
}

// fill creates n ConfigMaps with a value of some size.
func (c *cluster) fill(clients kubernetes.Interface, n, size int) {
	c.b.Helper()
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := worker; i < n; i += 8 {
				m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("m-", i)}, Data: map[string]string{"k": strings.Repeat("x", size)}}
				if _, err := clients.CoreV1().ConfigMaps("default").Create(c.b.Context(), m, metav1.CreateOptions{}); err != nil {
					c.b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func (c *cluster) config() *rest.Config {
	c.b.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", c.home+"/.minikctl/minikctl/kubeconfig")
	if err != nil {
		c.b.Fatal(err)
	}
	return cfg
}

// token returns a token of a new ServiceAccount with all rights, as an administrator or through RBAC.
func (c *cluster) token(clients kubernetes.Interface, name string, administrator bool) string {
	c.b.Helper()
	ctx := c.b.Context()
	_, err := clients.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err == nil {
		_, err = clients.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: "default"}},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		c.b.Fatal(err)
	}
	if administrator {
		return "" // the client certificate of the kubeconfig
	}
	review, err := clients.CoreV1().ServiceAccounts("default").CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		c.b.Fatal(err)
	}
	return review.Status.Token
}

// hostile opens connections that misbehave until their context ends.
type hostile struct {
	cluster *cluster
	config  *rest.Config
	token   string // "": the administrator's certificate
	past    string // the resourceVersion before the first patch
	opened  atomic.Int64

	mu    sync.Mutex
	conns []net.Conn
}

// ways are the ways to misbehave. They ignore errors: the server may refuse and close what it likes.
func (h *hostile) ways() []func(context.Context) {
	const maps = "/api/v1/configmaps"
	return []func(context.Context){
		func(ctx context.Context) { h.unreadList(ctx, maps, "application/json", "") },
		func(ctx context.Context) { h.unreadList(ctx, maps, "application/json", "gzip") },
		func(ctx context.Context) {
			h.unreadList(ctx, maps+"?includeObject=Object", "application/json;as=Table;v=v1;g=meta.k8s.io", "")
		},
		func(ctx context.Context) { h.unreadList(ctx, maps, "application/yaml", "") },
		func(ctx context.Context) {
			h.unreadList(ctx, maps+"?limit=500&resourceVersionMatch=Exact&resourceVersion="+h.past, "application/json", "")
		},
		h.slowBody,
		h.patches,
		h.idleHandshake,
		h.streams,
	}
}

func (h *hostile) closeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.conns {
		_ = c.Close()
	}
}

func (h *hostile) dial() (net.Conn, error) {
	u, err := url.Parse(h.config.Host)
	if err != nil {
		return nil, err
	}
	conn, err := net.DialTimeout("tcp", u.Host, 30*time.Second)
	if err != nil {
		return nil, err
	}
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10) // so that the kernel takes little of what is not read
	h.opened.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns = append(h.conns, conn)
	return conn, nil
}

// dialTLS returns a connection with an application protocol.
func (h *hostile) dialTLS(protocol string) (net.Conn, error) {
	conf, err := rest.TLSConfigFor(h.config)
	if err != nil {
		return nil, err
	}
	conf.NextProtos = []string{protocol}
	if h.token != "" {
		conf.GetClientCertificate, conf.Certificates = nil, nil
	}
	raw, err := h.dial()
	if err != nil {
		return nil, err
	}
	if conf.ServerName == "" {
		conf.ServerName = "127.0.0.1" // as in the kubeconfig
	}
	conn := tls.Client(raw, conf)
	return conn, conn.Handshake()
}

// request writes a request of HTTP/1.1 without its body.
func (h *hostile) request(conn net.Conn, method, path string, headers ...string) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: h\r\n", method, path)
	if h.token != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", h.token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		fmt.Fprintf(&b, "%s: %s\r\n", headers[i], headers[i+1])
	}
	b.WriteString("\r\n")
	_, err := conn.Write(b.Bytes())
	return err
}

// unreadList lists and does not read the response, again and again.
func (h *hostile) unreadList(ctx context.Context, path, accept, encoding string) {
	for ctx.Err() == nil {
		conn, err := h.dialTLS("http/1.1")
		if err != nil {
			sleep(ctx, time.Second)
			continue
		}
		_ = h.request(conn, "GET", path, "Accept", accept, "Accept-Encoding", encoding)
		sleep(ctx, 30*time.Second)
		_ = conn.Close()
	}
}

// slowBody sends nearly all of a body of 3 MB at once, and the rest by the byte.
func (h *hostile) slowBody(ctx context.Context) {
	const size = 3 << 20
	for ctx.Err() == nil {
		conn, err := h.dialTLS("http/1.1")
		if err != nil {
			sleep(ctx, time.Second)
			continue
		}
		err = h.request(conn, "POST", "/api/v1/namespaces/default/configmaps", "Content-Type", "application/json", "Content-Length", fmt.Sprint(size))
		if err == nil {
			_, err = conn.Write(bytes.Repeat([]byte(" "), size-1000))
		}
		for err == nil && ctx.Err() == nil {
			_, err = conn.Write([]byte(" "))
			sleep(ctx, time.Second)
		}
		_ = conn.Close()
		sleep(ctx, time.Second)
	}
}

// patches sends patches of 60 KB, and reads the responses.
func (h *hostile) patches(ctx context.Context) {
	patch := []byte(`{"data":{"p":"` + strings.Repeat("y", 60<<10) + `"}}`)
	for ctx.Err() == nil {
		conn, err := h.dialTLS("http/1.1")
		for i := 0; err == nil && ctx.Err() == nil; i++ {
			err = h.request(conn, "PATCH", fmt.Sprint("/api/v1/namespaces/default/configmaps/m-", i%100),
				"Content-Type", "application/merge-patch+json", "Content-Length", fmt.Sprint(len(patch)))
			if err == nil {
				_, err = conn.Write(patch)
			}
			if err == nil {
				_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
				_, err = io.ReadAtLeast(conn, make([]byte, 512<<10), 1)
			}
		}
		sleep(ctx, time.Second)
	}
}

// idleHandshake sends the beginning of a TLS handshake.
func (h *hostile) idleHandshake(ctx context.Context) {
	for ctx.Err() == nil {
		if conn, err := h.dial(); err == nil {
			_, _ = conn.Write([]byte{22, 3, 1, 2, 0, 1})
		}
		sleep(ctx, 15*time.Second)
	}
}

// streams opens as many streams as the server permits: lists and watches that are not read.
func (h *hostile) streams(ctx context.Context) {
	for ctx.Err() == nil {
		conn, err := h.dialTLS("h2")
		if err != nil {
			sleep(ctx, time.Second)
			continue
		}
		c, err := unread.New(conn, h.token)
		for i := 0; err == nil && i < 1000; i++ {
			err = c.Get("/api/v1/configmaps" + []string{"", "?watch=1", "?watch=1&resourceVersion=" + h.past}[i%3])
		}
		sleep(ctx, 45*time.Second)
		_ = conn.Close()
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
