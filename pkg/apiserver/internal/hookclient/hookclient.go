// Package hookclient owns the calls of webhooks, whatever they are asked: where one is (a URL, or a Service inside the
// cluster), whose certificates it must have, how long it may take and what counts as an answer.
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
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

const (
	maxAnswer   = 8 << 20 // bytes
	idleTimeout = 90 * time.Second
	dialTimeout = 10 * time.Second
)

// Client reaches one webhook. It is made ready at the first call, and safe for concurrent use.
type Client struct {
	config admissionv1.WebhookClientConfig
	reader stage.Reader

	once sync.Once
	http *http.Client
	url  *url.URL
	err  error
}

// New returns the client of the webhook that config says. A Service is found in r.
func New(config admissionv1.WebhookClientConfig, r stage.Reader) *Client {
	return &Client{config: config, reader: r}
}

// errGone is for a webhook that is asked for the first time after it was taken out.
var errGone = errors.New("the webhook is no longer configured")

// Close ends the connections that nobody uses. Calls that have begun go on; a client that was never used can't be any more.
func (c *Client) Close() {
	c.once.Do(func() { c.err = errGone })
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
}

// Open makes the client ready, and says why it can't be: what is configured is wrong.
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

// Post sends a review in JSON, for at most timeout, and returns the answer's body. It opens the client where that was not
// done before.
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
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(answer) > maxAnswer:
		return nil, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	case res.StatusCode < http.StatusOK || res.StatusCode > http.StatusPartialContent:
		return nil, refusal(res, answer)
	case len(answer) == 0:
		return nil, fmt.Errorf("0-length response with status code: %d and content type: %s", res.StatusCode, res.Header.Get("Content-Type"))
	}
	return answer, nil
}

// refusal is the error of an answer with a bad status: what it says of itself, or at least its status.
func refusal(res *http.Response, answer []byte) error {
	var status metav1.Status
	if json.Unmarshal(answer, &status) == nil && status.Status == metav1.StatusFailure {
		return apierrors.FromObject(&status)
	}
	text := "unknown"
	if media := res.Header.Get("Content-Type"); media == "" || isText(media) {
		if said := strings.TrimSpace(string(answer)); said != "" {
			text = said
		}
	}
	return apierrors.NewGenericServerResponse(res.StatusCode, http.MethodPost, schema.GroupResource{}, "", text, 0, true)
}

func isText(media string) bool {
	media, _, err := mime.ParseMediaType(media)
	return err == nil && strings.HasPrefix(media, "text/")
}
