package ingress

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"time"

	"github.com/minikctl/minikctl/pkg/network/addr"
)

// dialTime bounds the connection to an endpoint. Most are on this machine: they accept or refuse at once.
const dialTime = 5 * time.Second

// handler returns the handler of all requests.
func (i *Ingress) handler() http.Handler {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	transport.DialContext = addr.Dial(&net.Dialer{Timeout: dialTime})
	transport.DisableCompression = true // bodies pass as they are
	i.closeIdle = transport.CloseIdleConnections
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", r.In.Host // the balancer sets the endpoint
			r.SetXForwarded()
			if client, _, err := net.SplitHostPort(r.In.RemoteAddr); err == nil {
				r.Out.Header.Set("X-Real-IP", client)
			}
		},
		Transport:     &balancer{ingress: i, next: transport},
		ErrorHandler:  failed,
		FlushInterval: -1, // streams are passed on at once
	}
}

// errNoRoute means that no rule matches a request.
var errNoRoute = errors.New("no rule matches")

// failed responds to a request that no endpoint has answered, with the texts of other ingress controllers.
func failed(w http.ResponseWriter, r *http.Request, err error) {
	code := http.StatusBadGateway
	switch {
	case errors.Is(err, errNoRoute):
		code = http.StatusNotFound
	case errors.Is(err, errNoService), errors.Is(err, errNoPort), errors.Is(err, errNoEndpoints):
		code = http.StatusServiceUnavailable
	case errors.Is(err, context.Canceled):
		return // the client has gone
	}
	slog.DebugContext(r.Context(), "ingress", "host", r.Host, "path", r.URL.Path, "code", code, "err", err)
	http.Error(w, http.StatusText(code), code)
}

// balancer sends each request to the next endpoint of its backend, and to another one if that can't be reached.
type balancer struct {
	ingress *Ingress
	next    http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b *balancer) RoundTrip(r *http.Request) (*http.Response, error) {
	to := b.ingress.table.Load().route(r.Host, r.URL.Path)
	if to == nil {
		return nil, errNoRoute
	}
	list, err := b.ingress.endpoints(to)
	if err != nil {
		return nil, err
	}
	first := b.ingress.turn.Add(1)
	for n := range list {
		again := r.Clone(r.Context())
		again.URL.Host = list[(first+uint64(n))%uint64(len(list))]
		if r.Body != nil {
			again.Body = unclosed{r.Body} // an attempt that does not reach its endpoint has not read it. The proxy closes it
		}
		var resp *http.Response
		if resp, err = b.next.RoundTrip(again); err == nil {
			return resp, nil
		}
		var op *net.OpError
		if !errors.As(err, &op) || op.Op != "dial" {
			return nil, err
		}
	}
	return nil, err
}

// unclosed is a body that an attempt does not close.
type unclosed struct{ io.Reader }

func (unclosed) Close() error { return nil }
