// Package listen owns the listeners of the API server: HTTPS on a port, and the Unix socket of the local command line,
// whose connections are those of the administrator.
package listen

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
	"slices"
	"strconv"
	"syscall"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/pki"
)

// Bounds on connections.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 90 * time.Second
	maxHeader     = 128 << 10
	maxStreams    = 100 // of one HTTP/2 connection: clients with more watches open more connections

	// Parts of bodies that have been received over HTTP/2 and not been read.
	unreadOfStream     = 64 << 10
	unreadOfConnection = 128 << 10
)

// Config configures the listeners.
type Config struct {
	Address string   // HOST:PORT for HTTPS; "" for no port
	Hosts   []string // more names and addresses for the serving certificate
	Socket  string   // path of the Unix socket; "" for none
	PKI     *pki.PKI
}

// Listeners are the open listeners. The zero value has none.
type Listeners struct{ tcp, unix net.Listener }

// Open opens the listeners.
func Open(cfg Config) (ls Listeners, err error) {
	if cfg.Address != "" {
		if ls.tcp, err = listenTLS(cfg); err != nil {
			return ls, err
		}
	}
	if cfg.Socket != "" {
		if ls.unix, err = listenUnix(cfg.Socket); err != nil {
			ls.Close()
			return Listeners{}, err
		}
	}
	return ls, nil
}

func listenTLS(cfg Config) (net.Listener, error) {
	host, _, err := net.SplitHostPort(cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("listen address %q: %w", cfg.Address, err)
	}
	hosts := slices.Concat(cfg.Hosts, []string{host})
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		hosts = append(hosts, machineHosts()...)
	}
	conf, err := cfg.PKI.ServerTLS(hosts...)
	if err != nil {
		return nil, err
	}
	conf.NextProtos = []string{"h2", "http/1.1"}
	l, err := net.Listen("tcp", cfg.Address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("address %s is in use by another program: choose another port, or 0 for any that is free", cfg.Address)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", cfg.Address, err)
	}
	return tls.NewListener(l, conf), nil
}

// machineHosts returns the name and the addresses of this machine, at which others reach a listener of all addresses. What can't be
// found is left out.
func machineHosts() []string {
	var hosts []string
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name)
	}
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			hosts = append(hosts, n.IP.String())
		}
	}
	return hosts
}

// listenUnix opens the local socket in a directory that only its owner may enter. It replaces a socket without a listener,
// which a killed server leaves.
func listenUnix(path string) (net.Listener, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the socket: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("protect the directory of the socket: %w", err)
	}
	if c, err := net.Dial("unix", path); err == nil {
		_ = c.Close() // it was only to find out whether a server listens
		return nil, fmt.Errorf("socket %s is in use by another server", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the old socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // ownListener removes the file
	created, err := os.Lstat(path)
	if err != nil {
		_ = l.Close() // err is what matters
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return ownListener{l, path, created}, nil
}

// Port returns the port of the HTTPS listener, 443 without one.
func (ls Listeners) Port() int32 {
	if ls.tcp == nil {
		return 443
	}
	return int32(ls.tcp.Addr().(*net.TCPAddr).Port)
}

// Address returns HOST:PORT at which this machine reaches the HTTPS listener, "" without one.
func (ls Listeners) Address() string {
	if ls.tcp == nil {
		return ""
	}
	return net.JoinHostPort(ls.Host(), strconv.Itoa(int(ls.Port())))
}

// Host returns an address at which this machine reaches the HTTPS listener: that of the listener, unless it has all.
func (ls Listeners) Host() string {
	if ls.tcp == nil {
		return "127.0.0.1"
	}
	if ip := ls.tcp.Addr().(*net.TCPAddr).IP; !ip.IsUnspecified() {
		return ip.String()
	}
	return "127.0.0.1"
}

// Close closes the listeners.
func (ls Listeners) Close() {
	for _, l := range []net.Listener{ls.tcp, ls.unix} {
		if l != nil {
			_ = l.Close() // an error would mean that it is closed already
		}
	}
}

// Serve serves h on the listeners until the returned servers are shut down. It calls fail when a listener fails.
func (ls Listeners) Serve(ctx context.Context, h http.Handler, fail context.CancelCauseFunc) []*http.Server {
	var servers []*http.Server
	for _, l := range []net.Listener{ls.tcp, ls.unix} {
		if l == nil {
			continue
		}
		srv := newHTTPServer(ctx, h)
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
			MaxReceiveBufferPerStream: unreadOfStream, MaxReceiveBufferPerConnection: unreadOfConnection,
		},
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if _, ok := c.(*net.UnixConn); ok {
				return context.WithValue(ctx, localKey{}, true)
			}
			return ctx
		},
		// Mistakes of clients (no TLS, an unknown authority) are reported to the client.
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
	}
}

// ownListener accepts only connections of the user that this process runs as. Close removes its socket, but not one that another
// server has created in its place.
type ownListener struct {
	net.Listener
	path    string
	created fs.FileInfo
}

func (l ownListener) Close() error {
	if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.created) {
		_ = os.Remove(l.path) // the next server replaces it
	}
	return l.Listener.Close()
}

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
		_ = c.Close() // nothing has used it
	}
}

type localKey struct{}

// IsLocal reports whether the request of a context came over the Unix socket.
func IsLocal(ctx context.Context) bool {
	local, _ := ctx.Value(localKey{}).(bool)
	return local
}

// Peer authenticates requests that come over the Unix socket without a bearer token as the administrator.
type Peer struct{}

// AuthenticateRequest implements authenticator.Request.
func (Peer) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if !IsLocal(r.Context()) || r.Header.Get("Authorization") != "" {
		return nil, false, nil
	}
	admin := &user.DefaultInfo{Name: pki.Admin, Groups: []string{user.SystemPrivilegedGroup}}
	return &authenticator.Response{User: admin}, true, nil
}
