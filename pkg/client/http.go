package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion/queryparams"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/trace"
)

// overHTTP is the Client of a server in another process.
type overHTTP struct {
	base    *url.URL
	http    *http.Client
	codec   *codec
	clock   clock.Clock
	timeout time.Duration // of all requests but watches; 0: none
	slots   chan struct{} // has an element for each request that is under way, watches excepted
	warn    rest.WarningHandlerWithContext
	older   atomic.Bool // the server reads minikctl's kinds as JSON only
}

// maxRequests bounds the requests of a client that are under way, watches excepted. HTTP/2 servers accept 100 streams of a connection. Go's
// transport opens a connection for each request that finds none free: without a bound, a scheduler with thousands of pods to bind opened
// hundreds, and their handshakes took a fifth of the server's processor time.
const maxRequests = 64

// HTTP returns a Client of the server in cfg, with cfg's identity. agent, the name of the component or program, becomes the
// user agent. The Client does not limit the rate of requests, but has at most maxRequests at a time under way. If the server cannot be reached, errors are those of the network
// and no StatusError.
func HTTP(cfg *rest.Config, agent string) (Client, error) {
	cfg = rest.CopyConfig(cfg)
	timeout := cfg.Timeout
	cfg.UserAgent, cfg.Timeout = agent, 0 // a timeout on the transport would end watches
	secure := len(cfg.CAFile) > 0 || len(cfg.CAData) > 0 || len(cfg.CertFile) > 0 || len(cfg.CertData) > 0 || cfg.Insecure
	base, _, err := rest.DefaultServerURL(cfg.Host, "/", schema.GroupVersion{}, secure)
	if err != nil {
		return nil, fmt.Errorf("server address: %w", err)
	}
	hc, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", base, err)
	}
	codec, err := newCodec()
	if err != nil {
		return nil, err
	}
	return &overHTTP{base: base, http: hc, codec: codec, clock: clock.Real(), timeout: timeout, slots: make(chan struct{}, maxRequests), warn: warningsOf(cfg)}, nil
}

// warningsOf returns the handler of Warning headers.
func warningsOf(cfg *rest.Config) rest.WarningHandlerWithContext {
	switch {
	case cfg.WarningHandlerWithContext != nil:
		return cfg.WarningHandlerWithContext
	case cfg.WarningHandler != nil:
		return withoutContext{cfg.WarningHandler}
	}
	return logWarnings{}
}

// withoutContext adapts a handler that takes no context.
type withoutContext struct{ rest.WarningHandler }

func (h withoutContext) HandleWarningHeaderWithContext(_ context.Context, code int, agent, text string) {
	h.HandleWarningHeader(code, agent, text)
}

// logWarnings logs Warning headers at Debug: a component can't act on them.
type logWarnings struct{}

func (logWarnings) HandleWarningHeaderWithContext(ctx context.Context, _ int, _, text string) {
	slog.DebugContext(ctx, "warning from the server", "warning", text)
}

func (c *overHTTP) Get(ctx context.Context, t Target, opts metav1.GetOptions) (objects.Object, error) {
	obj, err := c.do(ctx, request{method: http.MethodGet, verb: "get", target: t, options: &opts})
	if err != nil {
		return nil, err
	}
	return stored(obj)
}

func (c *overHTTP) List(ctx context.Context, t Target, opts metav1.ListOptions) (List, error) {
	t.Name = ""
	obj, err := c.do(ctx, request{method: http.MethodGet, verb: "list", target: t, options: &opts})
	if err != nil {
		return List{}, err
	}
	about, err := meta.ListAccessor(obj)
	if err != nil {
		return List{}, apierrors.NewInternalError(fmt.Errorf("the response to a list is a %T", obj))
	}
	items, err := meta.ExtractListWithAlloc(obj) // allocated one by one: an item that is kept must not keep the list in memory
	if err != nil {
		return List{}, apierrors.NewInternalError(err)
	}
	out := List{
		Items: make([]objects.Object, len(items)), ResourceVersion: about.GetResourceVersion(),
		Continue: about.GetContinue(), Remaining: about.GetRemainingItemCount(),
	}
	for i, item := range items {
		if out.Items[i], err = stored(item); err != nil {
			return List{}, err
		}
	}
	return out, nil
}

func (c *overHTTP) Create(ctx context.Context, t Target, obj runtime.Object, opts metav1.CreateOptions) (runtime.Object, error) {
	if t.Subresource == "" {
		t.Name = ""
	}
	return c.send(ctx, request{method: http.MethodPost, verb: "create", target: t, options: &opts}, obj)
}

func (c *overHTTP) Update(ctx context.Context, t Target, obj runtime.Object, opts metav1.UpdateOptions) (runtime.Object, error) {
	return c.send(ctx, request{method: http.MethodPut, verb: "update", target: t, options: &opts}, obj)
}

func (c *overHTTP) Patch(ctx context.Context, t Target, p Patch, opts metav1.PatchOptions) (runtime.Object, error) {
	return c.do(ctx, request{
		method: http.MethodPatch, verb: "patch", target: t, options: &opts, contentType: string(p.Type), body: p.Data,
	})
}

func (c *overHTTP) Delete(ctx context.Context, t Target, opts metav1.DeleteOptions) (runtime.Object, error) {
	if err := t.Deletable(); err != nil {
		return nil, err
	}
	opts.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}
	obj, err := c.send(ctx, request{method: http.MethodDelete, verb: "delete", target: t}, &opts)
	if _, ok := obj.(*metav1.Status); ok || err != nil {
		return nil, err
	}
	return obj, nil
}

// Watch connects when the caller begins to range over the sequence.
func (c *overHTTP) Watch(ctx context.Context, t Target, opts metav1.ListOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if t.Name != "" {
			opts.FieldSelector = "metadata.name=" + t.Name
			t.Name = ""
		}
		opts.Watch = true
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		resp, err := c.roundTrip(ctx, request{method: http.MethodGet, verb: "watch", target: t, options: &opts})
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer resp.Body.Close()
		contentType := resp.Header.Get("Content-Type")
		for next := frames(contentType, resp.Body); ; {
			frame, err := next()
			if err != nil {
				if ended(ctx, err) {
					return
				}
				yield(Event{}, fmt.Errorf("watch %s: %w", t.Resource.Resource, err))
				return
			}
			ev, err := c.event(contentType, frame)
			if !yield(ev, err) || err != nil {
				return
			}
		}
	}
}

// ended reports whether a watch has ended without a failure.
func ended(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, io.EOF) || utilnet.IsProbableEOF(err)
}

func (c *overHTTP) event(contentType string, frame metav1.WatchEvent) (Event, error) {
	obj, err := c.codec.decode(contentType, frame.Object.Raw)
	if err != nil {
		return Event{}, fmt.Errorf("watch event: %w", err)
	}
	if watch.EventType(frame.Type) == watch.Error {
		return Event{}, apierrors.FromObject(obj)
	}
	o, err := stored(obj)
	return Event{Type: watch.EventType(frame.Type), Object: o}, err
}

// stored returns obj as an objects.Object, an error if it has no metadata.
func stored(obj runtime.Object) (objects.Object, error) {
	o, ok := obj.(objects.Object)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("the response is a %T", obj))
	}
	return o, nil
}

// request is a request in the terms of Client, before it becomes an HTTP request.
type request struct {
	method, verb string
	target       Target
	options      any // for the query
	contentType  string
	body         []byte
}

// send sends r with obj as the body. A server of an earlier version, which does not read minikctl's kinds as protobuf, gets them as JSON from then on.
func (c *overHTTP) send(ctx context.Context, r request, obj runtime.Object) (runtime.Object, error) {
	gv := r.target.Resource.GroupVersion()
	encode := c.codec.encode
	if gv == minikctl.GroupVersion && c.older.Load() {
		encode = c.codec.encodeJSON
	}
	var err error
	if r.contentType, r.body, err = encode(obj, gv); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	out, err := c.do(ctx, r)
	if gv == minikctl.GroupVersion && r.contentType == typeProtobuf && (apierrors.IsUnsupportedMediaType(err) || apierrors.IsNotAcceptable(err)) {
		c.older.Store(true)
		return c.send(ctx, r, obj)
	}
	return out, err
}

// do sends r and returns the object of the response.
func (c *overHTTP) do(ctx context.Context, r request) (runtime.Object, error) {
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%s %s: %w", r.verb, r.target.Resource.Resource, ctx.Err())
	}
	resp, err := c.roundTrip(ctx, r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.verb, r.target.Resource.Resource, err)
	}
	obj, err := c.codec.decode(resp.Header.Get("Content-Type"), body)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("response to %s %s: %w", r.verb, r.target.Resource.Resource, err))
	}
	return obj, nil
}

// maxAttempts bounds the attempts of a request while the responses have Retry-After.
const maxAttempts = 10

// roundTrip sends r, repeatedly while the responses have Retry-After, and returns a successful response.
func (c *overHTTP) roundTrip(ctx context.Context, r request) (*http.Response, error) {
	if !nameable(r.target) {
		return nil, apierrors.NewNotFound(r.target.Resource.GroupResource(), r.target.Name)
	}
	for attempt := 1; ; attempt++ {
		req, err := c.build(ctx, r)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		resp, err := c.http.Do(req)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", r.verb, r.target.Resource.Resource, err)
		}
		c.passWarnings(ctx, resp.Header)
		if resp.StatusCode >= 200 && resp.StatusCode < 300 {
			return resp, nil
		}
		after, busy := retryAfter(resp)
		err = c.failure(r, resp)
		if !busy || attempt == maxAttempts || clock.Sleep(ctx, c.clock, after) != nil {
			return nil, err
		}
	}
}

// nameable reports whether the namespace and the name in t are valid path segments. The names of API objects always are.
// A name that is copied from an untrusted object, such as the name in an owner reference, could otherwise lead to another
// path.
func nameable(t Target) bool {
	return len(content.IsPathSegmentName(t.Namespace)) == 0 && len(content.IsPathSegmentName(t.Name)) == 0
}

func (c *overHTTP) build(ctx context.Context, r request) (*http.Request, error) {
	u := *c.base
	u.Path = path.Join("/", u.Path, Path(r.target))
	if r.options != nil {
		query, err := queryparams.Convert(r.options)
		if err != nil {
			return nil, err
		}
		u.RawQuery = query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", c.codec.accept(r.target.Resource))
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	if report := trace.From(ctx).Encode(); report != "" && r.method != http.MethodGet {
		req.Header.Set(trace.Header, report)
	}
	return req, nil
}

// Path returns where the API serves t: /apis/apps/v1/namespaces/default/deployments/web/scale.
func Path(t Target) string {
	parts := []string{"", "apis", t.Resource.Group, t.Resource.Version}
	if t.Resource.Group == "" {
		parts = []string{"", "api", t.Resource.Version}
	}
	if t.Namespace != "" {
		parts = append(parts, "namespaces", t.Namespace)
	}
	parts = append(parts, t.Resource.Resource)
	if t.Name != "" {
		parts = append(parts, t.Name)
	}
	if t.Subresource != "" {
		parts = append(parts, t.Subresource)
	}
	return strings.Join(parts, "/")
}

// retryAfter reports whether a response has a Retry-After header, and the duration in it.
func retryAfter(resp *http.Response) (time.Duration, bool) {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode < 500 {
		return 0, false
	}
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	return time.Duration(seconds) * time.Second, err == nil
}

// failure returns the error of an unsuccessful response. It reads the body to its end.
func (c *overHTTP) failure(r request, resp *http.Response) error {
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxFrame))
	if err == nil {
		obj, err := c.codec.decode(resp.Header.Get("Content-Type"), body)
		if status, ok := obj.(*metav1.Status); ok && err == nil && status.Status != metav1.StatusSuccess {
			return &apierrors.StatusError{ErrStatus: *status}
		}
	}
	after, _ := retryAfter(resp)
	return apierrors.NewGenericServerResponse(resp.StatusCode, r.verb, r.target.Resource.GroupResource(), r.target.Name,
		strings.TrimSpace(string(body)), int(after/time.Second), true)
}

func (c *overHTTP) passWarnings(ctx context.Context, h http.Header) {
	if len(h.Values("Warning")) == 0 {
		return
	}
	warnings, _ := utilnet.ParseWarningHeaders(h.Values("Warning")) // the well-formed ones
	for _, w := range warnings {
		c.warn.HandleWarningHeaderWithContext(ctx, w.Code, w.Agent, w.Text)
	}
}
