// Package apiservertest starts whole API servers for tests: the memory store, every builtin resource, real keys, real
// authentication and authorization, HTTPS on the loopback.
package apiservertest

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/pki"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects/builtin"
	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/memory"
)

// The static tokens of every Env.
const (
	AdminToken = "admin-token" // admin in system:masters
	AliceToken = "alice-token" // alice in developers, without any rights
	BobToken   = "bob-token"   // bob, without any rights

	tokens = AdminToken + `,admin,admin-uid,"system:masters"
` + AliceToken + `,alice,alice-uid,"developers"
` + BobToken + `,bob,bob-uid
`
)

// startTimeout bounds how long a server may take to be ready.
const startTimeout = 20 * time.Second

// Env is a running server.
type Env struct {
	Server *apiserver.Server
	Store  store.Store
	PKI    *pki.PKI
	URL    string // https://127.0.0.1:PORT
	Dir    string // holds keys, tokens and traces
	Socket string

	AdminConfig *rest.Config // with the administrator's token, and no limits on the client's side
}

// New starts a server that ends with the test. Options change its configuration before.
func New(t testing.TB, options ...func(*apiserver.Config)) *Env {
	t.Helper()
	dir := t.TempDir()
	keys, err := pki.Open(filepath.Join(dir, "pki"), clock.Real())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(file, []byte(tokens), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := apiserver.Config{
		Store: memory.New(), Resources: builtin.Resources(), Clock: clock.Real(), Source: clock.RandomSource(), PKI: keys,
		Listen: "127.0.0.1:0", TokenFile: file, TraceDir: filepath.Join(dir, "traces"),
	}
	for _, o := range options {
		o(&cfg)
	}
	s, err := apiserver.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	run(t, s, cfg)
	e := &Env{Server: s, Store: cfg.Store, PKI: cfg.PKI, URL: "https://" + s.Addr(), Dir: dir, Socket: cfg.Socket}
	e.AdminConfig = e.Config(AdminToken)
	return e
}

// run runs s until the test ends, and waits until it is ready.
func run(t testing.TB, s *apiserver.Server, cfg apiserver.Config) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("API server: %v", err)
		}
		if err := cfg.Store.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	select {
	case <-s.Ready():
	case err := <-ended:
		ended <- err
		t.Fatalf("the API server ended before it was ready: %v", err)
	case <-time.After(startTimeout):
		t.Fatal("the API server is not ready in time")
	}
}

// Config returns a client's configuration with a token.
func (e *Env) Config(token string) *rest.Config {
	return &rest.Config{
		Host: e.URL, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: e.PKI.CA()}, QPS: -1,
	}
}

// Client returns the in-process client of an administrator.
func (e *Env) Client(agent string) client.Client {
	return e.Server.Client(&user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}, agent)
}
