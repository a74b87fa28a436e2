package apiserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/pki"
)

// Bounds on connections: who sends nothing is not waited for.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 90 * time.Second
	maxHeader     = 1 << 20
	maxStreams    = 1000 // of one HTTP/2 connection: watches share it
)

// listen opens the listeners.
func (s *Server) listen(cfg Config) error {
	if cfg.Listen != "" {
		if err := s.listenTLS(cfg); err != nil {
			return err
		}
	}
	if cfg.Socket != "" {
		l, err := listenUnix(cfg.Socket)
		if err != nil {
			return err
		}
		s.unix = l
	}
	return nil
}

func (s *Server) listenTLS(cfg Config) error {
	host, _, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen address %q: %w", cfg.Listen, err)
	}
	hosts := cfg.Hosts
	if host != "" {
		hosts = append(hosts[:len(hosts):len(hosts)], host)
	}
	conf, err := cfg.PKI.ServerTLS(hosts...)
	if err != nil {
		return err
	}
	conf.NextProtos = []string{"h2", "http/1.1"}
	l, err := net.Listen("tcp", cfg.Listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("address %s is in use by another program: choose another port, or 0 for any that is free", cfg.Listen)
	}
	if err != nil {
		return fmt.Errorf("listen on %s: %w", cfg.Listen, err)
	}
	s.tcp = tls.NewListener(l, conf)
	return nil
}

// listenUnix opens the local socket in a folder that only its owner may enter. A socket that nobody answers is what a
// killed server left.
func listenUnix(path string) (net.Listener, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the socket: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("protect the folder of the socket: %w", err)
	}
	if c, err := net.Dial("unix", path); err == nil {
		_ = c.Close() // only asked whether somebody is there
		return nil, fmt.Errorf("socket %s is in use by another server", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the old socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return ownListener{l}, nil
}

// port is that of the HTTPS listener.
func (s *Server) port() int32 {
	if s.tcp == nil {
		return 443
	}
	return int32(s.tcp.Addr().(*net.TCPAddr).Port)
}

func (s *Server) closeListeners() {
	for _, l := range []net.Listener{s.tcp, s.unix} {
		if l != nil {
			_ = l.Close() // closed is all it shall be
		}
	}
}

// serve answers on the listeners until the servers are shut down. A listener that fails ends Run.
func (s *Server) serve(ctx context.Context, fail context.CancelCauseFunc) []*http.Server {
	var servers []*http.Server
	for _, l := range []net.Listener{s.tcp, s.unix} {
		if l == nil {
			continue
		}
		srv := newHTTPServer(ctx, s.handler)
		servers = append(servers, srv)
		go func() { // ends with srv
			if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				fail(fmt.Errorf("serve on %s: %w", l.Addr(), err))
			}
		}()
	}
	return servers
}

func newHTTPServer(ctx context.Context, h http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true) // on the socket
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader, Protocols: protocols,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, SendPingTimeout: 30 * time.Second, WriteByteTimeout: 30 * time.Second,
		},
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if _, ok := c.(*net.UnixConn); ok {
				return context.WithValue(ctx, localKey{}, true)
			}
			return ctx
		},
		// What clients do wrong on the wire (no TLS, an unknown authority) is theirs to see.
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
	}
}

// ownListener accepts connections of this process's own user only.
type ownListener struct{ net.Listener }

func (l ownListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, err := peerUID(c.(*net.UnixConn))
		if err == nil && uid == os.Geteuid() {
			return c, nil
		}
		slog.Warn("connection to the local socket refused", "uid", uid, "err", err)
		_ = c.Close() // it was never anybody's
	}
}

type localKey struct{}

// localPeer knows who comes over the local socket without other credentials: the administrator.
type localPeer struct{}

func (localPeer) Authenticate(r *http.Request) (user.Info, bool, error) {
	if local, _ := r.Context().Value(localKey{}).(bool); !local || r.Header.Get("Authorization") != "" {
		return nil, false, nil
	}
	return &user.DefaultInfo{Name: pki.Admin, Groups: []string{user.SystemPrivilegedGroup}}, true, nil
}
