// Package hookclient calls admission and conversion webhooks: it resolves a URL or a Service of the cluster, verifies the
// certificate, applies the timeout and bounds the response.
package hookclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/backend"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/fair"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

const (
	maxResponse = 8 << 20 // bytes
	idleTimeout = 90 * time.Second
	dialTimeout = 10 * time.Second
)

// Client calls one webhook. The first call prepares it. It is safe for concurrent use.
type Client struct {
	config admissionv1.WebhookClientConfig
	reader stage.Reader

	once sync.Once
	http *http.Client
	url  *url.URL
	err  error
}

// New returns a client for config. It looks up Services with r.
func New(config admissionv1.WebhookClientConfig, r stage.Reader) *Client {
	return &Client{config: config, reader: r}
}

// errGone is the error of the first call to a webhook after its client was closed.
var errGone = errors.New("the webhook is no longer configured")

// Close closes idle connections. Calls in progress continue; a client without a call so far rejects later ones.
func (c *Client) Close() {
	c.once.Do(func() { c.err = errGone })
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
}

// Open prepares the client. It returns an error if the configuration is invalid.
func (c *Client) Open() error {
	c.once.Do(func() { c.err = c.open() })
	return c.err
}

func (c *Client) open() error {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca := bytes.TrimSpace(c.config.CABundle); len(ca) > 0 {
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(ca) {
			return errors.New("unable to load root certificates: unable to parse bytes as PEM block")
		}
	}
	dialer := &net.Dialer{Timeout: dialTimeout}
	transport := &http.Transport{TLSClientConfig: conf, DialContext: dialer.DialContext, TLSHandshakeTimeout: dialTimeout,
		IdleConnTimeout: idleTimeout, MaxIdleConnsPerHost: 16, Proxy: http.ProxyFromEnvironment}
	var at string
	switch s := c.config.Service; {
	case s != nil:
		transport.Proxy = nil
		at = "https://" + net.JoinHostPort(s.Name+"."+s.Namespace+".svc", strconv.Itoa(int(portOf(s)))) + pathOf(s)
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return backend.Dial(ctx, c.reader, objects.Key{Namespace: s.Namespace, Name: s.Name}, portOf(s))
		}
	case c.config.URL != nil:
		at = *c.config.URL
	default:
		return errors.New("webhook configuration must have either service or URL")
	}
	var err error
	if c.url, err = url.Parse(at); err != nil {
		return fmt.Errorf("Unparsable URL: %w", err) //nolint:staticcheck // Kubernetes' words
	}
	c.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return nil
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

// Post sends a review as JSON and returns the body of the response, within timeout. It opens the client if needed.
func (c *Client) Post(ctx context.Context, timeout time.Duration, review []byte) ([]byte, error) {
	if err := c.Open(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	to := *c.url
	to.RawQuery = url.Values{"timeout": {timeout.String()}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(review))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, */*")
	req.Header.Set("User-Agent", "kube-apiserver-admission")
	defer fair.Pause(ctx)() // the webhook may itself send requests
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	response, err := io.ReadAll(io.LimitReader(res.Body, maxResponse+1))
	switch {
	case err != nil:
		return nil, err
	case len(response) > maxResponse:
		return nil, fmt.Errorf("the response has more than %d bytes", maxResponse)
	case res.StatusCode < http.StatusOK || res.StatusCode > http.StatusPartialContent:
		return nil, responseError(res, response)
	case len(response) == 0:
		return nil, fmt.Errorf("0-length response with status code: %d and content type: %s", res.StatusCode, res.Header.Get("Content-Type"))
	}
	return response, nil
}

// responseError is the error of a response with an error status: its Status if the body is one, otherwise its status code.
func responseError(res *http.Response, response []byte) error {
	var status metav1.Status
	if json.Unmarshal(response, &status) == nil && status.Status == metav1.StatusFailure {
		return apierrors.FromObject(&status)
	}
	text := "unknown"
	if media := res.Header.Get("Content-Type"); media == "" || isText(media) {
		if body := strings.TrimSpace(string(response)); body != "" {
			text = body
		}
	}
	return apierrors.NewGenericServerResponse(res.StatusCode, http.MethodPost, schema.GroupResource{}, "", text, 0, true)
}

func isText(media string) bool {
	media, _, err := mime.ParseMediaType(media)
	return err == nil && strings.HasPrefix(media, "text/")
}
