package webhook

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/backend"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

const (
	maxAnswer   = 8 << 20 // bytes of a webhook's answer
	idleTimeout = 90 * time.Second
	dialTimeout = 10 * time.Second
)

// Clients reach webhooks. Those with the same address and certificates share connections, which outlast a change of the
// configurations.
type Clients struct {
	reader stage.Reader

	mu    sync.Mutex
	known clients
}

// NewClients returns clients that find Services in r.
func NewClients(r stage.Reader) *Clients {
	return &Clients{reader: r}
}

// client reaches one webhook. It is made at the first call.
type client struct {
	config admissionv1.WebhookClientConfig
	reader stage.Reader

	once sync.Once
	http *http.Client
	url  string
	err  error
}

// clients maps what is configured to who reaches it.
type clients map[[sha256.Size]byte]*client

// client returns who reaches what is configured, and notes it in used.
func (c *Clients) client(cfg admissionv1.WebhookClientConfig, used clients) *client {
	text, err := json.Marshal(cfg)
	if err != nil {
		return &client{err: err}
	}
	key := sha256.Sum256(text)
	for _, m := range []clients{used, c.known} {
		if known, ok := m[key]; ok {
			used[key] = known
			return known
		}
	}
	used[key] = &client{config: cfg, reader: c.reader}
	return used[key]
}

// errGone is for a webhook that is asked for the first time after it was taken out.
var errGone = errors.New("could not get REST client: the webhook is no longer configured")

// keep forgets the clients that are not in used.
func (c *Clients) keep(used clients) {
	for key, old := range c.known {
		if _, ok := used[key]; !ok {
			old.once.Do(func() { old.err = errGone })
			if old.http != nil {
				old.http.CloseIdleConnections()
			}
		}
	}
	c.known = used
}

// open makes the HTTP client.
func (c *client) open() {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(c.config.CABundle) > 0 {
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(c.config.CABundle) {
			c.err = fmt.Errorf("could not get REST client: unable to load root certificates: unable to parse bytes as PEM block")
			return
		}
	}
	dialer := &net.Dialer{Timeout: dialTimeout}
	transport := &http.Transport{TLSClientConfig: conf, DialContext: dialer.DialContext, TLSHandshakeTimeout: dialTimeout,
		IdleConnTimeout: idleTimeout, MaxIdleConnsPerHost: 16, Proxy: http.ProxyFromEnvironment}
	switch s := c.config.Service; {
	case s != nil:
		transport.Proxy = nil
		c.url = "https://" + net.JoinHostPort(s.Name+"."+s.Namespace+".svc", strconv.Itoa(int(portOf(s)))) + pathOf(s)
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return backend.Dial(ctx, c.reader, objects.Key{Namespace: s.Namespace, Name: s.Name}, portOf(s))
		}
	case c.config.URL != nil:
		c.url = *c.config.URL
	default:
		c.err = fmt.Errorf("could not get REST client: webhook configuration must have either service or URL")
	}
	c.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func portOf(s *admissionv1.ServiceReference) int32 {
	if s.Port == nil {
		return 443
	}
	return *s.Port
}

func pathOf(s *admissionv1.ServiceReference) string {
	if s.Path == nil {
		return "/"
	}
	return "/" + strings.TrimPrefix(*s.Path, "/")
}

// post sends a review, for at most timeout, and returns the answer.
func (c *client) post(ctx context.Context, timeout time.Duration, review any) ([]byte, error) {
	c.once.Do(c.open)
	if c.err != nil {
		return nil, c.err
	}
	body, err := json.Marshal(review)
	if err != nil {
		return nil, fmt.Errorf("could not create admission objects: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	u, err := url.Parse(c.url)
	if err != nil {
		return nil, fmt.Errorf("could not get REST client: %w", err)
	}
	u.RawQuery = url.Values{"timeout": {timeout.String()}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("could not get REST client: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, */*")
	req.Header.Set("User-Agent", "kube-apiserver-admission")
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("failed to call webhook: %w", err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("failed to call webhook: %w", err)
	case len(answer) > maxAnswer:
		return nil, fmt.Errorf("failed to call webhook: the answer has more than %d bytes", maxAnswer)
	case res.StatusCode < 200 || res.StatusCode > 206:
		text := strings.TrimSpace(string(answer))
		if text == "" {
			text = "unknown"
		}
		return nil, fmt.Errorf("failed to call webhook: %w", apierrors.NewGenericServerResponse(res.StatusCode, "POST", schema.GroupResource{}, "", text, 0, true))
	}
	return answer, nil
}
