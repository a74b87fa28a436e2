// Package probe owns the checks of a container over HTTP, TCP and gRPC. The kubelet decides when to check and what follows
// from a result.
package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/network/addr"
)

// Result is the result of a check.
type Result int

// A Warning is a Success with an Event.
const (
	Success Result = iota
	Failure
	Warning
)

// maxBody bounds the bytes that are read of a response.
const maxBody = 10 << 10

// transport opens a new connection for each check. It verifies no certificates and uses no proxy.
func transport() *http.Transport {
	return &http.Transport{
		DialContext:        addr.Dial(new(net.Dialer)),
		TLSClientConfig:    &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives:  true,
		DisableCompression: true,
		Proxy:              nil,
		ForceAttemptHTTP2:  false,
	}
}

var (
	// checks is the client for probes. It follows redirects to the same host only.
	checks = &http.Client{Transport: transport(), CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if req.URL.Hostname() != via[0].URL.Hostname() {
			return http.ErrUseLastResponse
		}
		if len(via) >= 10 {
			return errors.New("stopped after 10 redirects")
		}
		return nil
	}}
	// Hook is the client for lifecycle hooks.
	Hook = &http.Client{Transport: transport(), CheckRedirect: checks.CheckRedirect}
)

// NewRequest returns a GET with a probe's headers, which replace the default ones. "Host" sets the request's host.
func NewRequest(ctx context.Context, u *url.URL, headers []corev1.HTTPHeader, agent string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	for _, h := range headers {
		req.Header[http.CanonicalHeaderKey(h.Name)] = append(req.Header[http.CanonicalHeaderKey(h.Name)], h.Value)
	}
	if _, ok := req.Header["User-Agent"]; !ok {
		req.Header.Set("User-Agent", agent)
	}
	switch accept, ok := req.Header["Accept"]; {
	case !ok:
		req.Header.Set("Accept", "*/*")
	case accept[0] == "":
		req.Header.Del("Accept")
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	return req, nil
}

// HTTP sends a request. Status codes from 200 to 399 are a success; a redirect to another host is a warning.
func HTTP(req *http.Request) (Result, string) {
	resp, err := checks.Do(req)
	if err != nil {
		return Failure, err.Error()
	}
	defer func() { _ = resp.Body.Close() }() // only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return Failure, err.Error()
	}
	switch code := resp.StatusCode; {
	case code < http.StatusOK || code >= http.StatusBadRequest:
		return Failure, fmt.Sprintf("HTTP probe failed with statuscode: %d", code)
	case code >= http.StatusMultipleChoices:
		return Warning, fmt.Sprintf("Probe terminated redirects, Response body: %v", string(body))
	}
	return Success, string(body)
}

// TCP opens a connection.
func TCP(ctx context.Context, address string) (Result, string) {
	conn, err := addr.Dial(new(net.Dialer))(ctx, "tcp", address)
	if err != nil {
		return Failure, err.Error()
	}
	_ = conn.Close() // nothing was sent
	return Success, ""
}
