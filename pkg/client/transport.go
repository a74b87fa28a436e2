package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Transport returns a RoundTripper that serves REST requests for resources through c, for libraries that need one. It is the
// inverse of HTTP. Other paths (discovery, logs) are not found.
func Transport(c Client) http.RoundTripper { return transport{c} }

type transport struct{ client Client }

// call is a parsed request.
type call struct {
	method string
	target Target
	query  url.Values
	header http.Header
	body   []byte
	codec  *codec
}

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	codec, err := newCodec()
	if err != nil {
		return nil, err
	}
	c := call{method: req.Method, query: req.URL.Query(), header: req.Header, codec: codec}
	if req.Body != nil {
		c.body, err = io.ReadAll(req.Body)
		if closeErr := req.Body.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return nil, fmt.Errorf("read request: %w", err)
		}
	}
	var ok bool
	if c.target, ok = ParsePath(req.URL.Path); !ok {
		return c.respond(req, nil, apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{}, "",
			"the server could not find the requested resource", 0, true)), nil
	}
	if watching := c.query.Get("watch"); req.Method == http.MethodGet && (watching == "true" || watching == "1") {
		return t.watch(req, c), nil
	}
	obj, err := t.serve(req.Context(), c)
	return c.respond(req, obj, err), nil
}

// ParsePath is the inverse of Path.
func ParsePath(path string) (Target, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var t Target
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		t.Resource.Version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		t.Resource.Group, t.Resource.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return Target{}, false
	}
	ofNamespace := len(parts) == 3 && (parts[2] == "status" || parts[2] == "finalize")
	if len(parts) >= 3 && parts[0] == "namespaces" && !ofNamespace {
		t.Namespace, parts = parts[1], parts[2:]
	}
	if len(parts) > 3 {
		return Target{}, false
	}
	for i, to := range []*string{&t.Resource.Resource, &t.Name, &t.Subresource} {
		if i < len(parts) {
			*to = parts[i]
		}
	}
	return t, true
}

// options decodes the query into opts.
func options[T any, P interface {
	*T
	runtime.Object
}](c call) (T, error) {
	var opts T
	err := runtime.NewParameterCodec(c.codec.scheme).DecodeParameters(c.query, schema.GroupVersion{Version: "v1"}, P(&opts))
	if err != nil {
		return opts, apierrors.NewBadRequest(err.Error())
	}
	return opts, nil
}

func (t transport) serve(ctx context.Context, c call) (runtime.Object, error) {
	switch c.method {
	case http.MethodGet:
		if c.target.Name == "" {
			return t.list(ctx, c)
		}
		opts, err := options[metav1.GetOptions](c)
		if err != nil {
			return nil, err
		}
		return t.client.Get(ctx, c.target, opts)
	case http.MethodPost:
		opts, err := options[metav1.CreateOptions](c)
		if err != nil {
			return nil, err
		}
		obj, err := c.object()
		if err != nil {
			return nil, err
		}
		return t.client.Create(ctx, c.target, obj, opts)
	case http.MethodPut:
		opts, err := options[metav1.UpdateOptions](c)
		if err != nil {
			return nil, err
		}
		obj, err := c.object()
		if err != nil {
			return nil, err
		}
		return t.client.Update(ctx, c.target, obj, opts)
	case http.MethodPatch:
		opts, err := options[metav1.PatchOptions](c)
		if err != nil {
			return nil, err
		}
		return t.client.Patch(ctx, c.target, Patch{Type: types.PatchType(c.header.Get("Content-Type")), Data: c.body}, opts)
	case http.MethodDelete:
		return t.delete(ctx, c)
	}
	return nil, apierrors.NewMethodNotSupported(c.target.Resource.GroupResource(), c.method)
}

// object returns the body's object.
func (c call) object() (runtime.Object, error) {
	obj, err := c.codec.decode(c.header.Get("Content-Type"), c.body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return obj, nil
}

func (t transport) list(ctx context.Context, c call) (runtime.Object, error) {
	opts, err := options[metav1.ListOptions](c)
	if err != nil {
		return nil, err
	}
	list, err := t.client.List(ctx, c.target, opts)
	if err != nil {
		return nil, err
	}
	items := make([]runtime.Object, len(list.Items))
	for i, item := range list.Items {
		items[i] = item
	}
	var out runtime.Object = &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}}
	if kind, ok := c.codec.kindOf(c.target.Resource); ok {
		kind.Kind += "List"
		if out, err = c.codec.scheme.New(kind); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
	}
	if err := meta.SetList(out, items); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	about, err := meta.ListAccessor(out)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	about.SetResourceVersion(list.ResourceVersion)
	about.SetContinue(list.Continue)
	about.SetRemainingItemCount(list.Remaining)
	return out, nil
}

// delete deletes one object, or those of a collection that the query's selectors match.
func (t transport) delete(ctx context.Context, c call) (runtime.Object, error) {
	opts, err := options[metav1.DeleteOptions](c)
	if err != nil {
		return nil, err
	}
	if len(c.body) > 0 {
		obj, err := c.object()
		if err != nil {
			return nil, err
		}
		sent, ok := obj.(*metav1.DeleteOptions)
		if !ok {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("the body of a delete is a %T", obj))
		}
		opts = *sent
	}
	selected := c.query.Get("labelSelector") != "" || c.query.Get("fieldSelector") != ""
	if c.target.Name != "" || !selected {
		c.target.All = c.target.Name == "" // a collection's path
		obj, err := t.client.Delete(ctx, c.target, opts)
		if obj == nil && err == nil {
			obj = &metav1.Status{Status: metav1.StatusSuccess}
		}
		return obj, err
	}
	some, err := options[metav1.ListOptions](c)
	if err != nil {
		return nil, err
	}
	list, err := t.client.List(ctx, c.target, some)
	if err != nil {
		return nil, err
	}
	for _, obj := range list.Items {
		one := c.target
		one.Namespace, one.Name = obj.GetNamespace(), obj.GetName()
		if _, err := t.client.Delete(ctx, one, opts); err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	return &metav1.Status{Status: metav1.StatusSuccess}, nil
}

// respond returns the response to req: obj or err.
func (c call) respond(req *http.Request, obj runtime.Object, err error) *http.Response {
	code := http.StatusOK
	if c.method == http.MethodPost {
		code = http.StatusCreated
	}
	if err != nil {
		status := StatusOf(err)
		obj, code = &status, int(status.Code)
	}
	contentType, body, err := c.encode(obj)
	if err != nil {
		code, contentType, body = http.StatusInternalServerError, "text/plain", []byte(err.Error())
	}
	return newResponse(req, code, contentType, io.NopCloser(bytes.NewReader(body)))
}

// StatusOf returns err as the Status that a server would send.
func StatusOf(err error) metav1.Status {
	var known apierrors.APIStatus
	if errors.As(err, &known) {
		return known.Status()
	}
	return apierrors.NewInternalError(err).Status()
}

func newResponse(req *http.Request, code int, contentType string, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: code, Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {contentType}}, Body: body, ContentLength: -1, Request: req,
	}
}

// encode returns obj in the encoding that the request prefers. It does not change obj, which may be shared.
func (c call) encode(obj runtime.Object) (contentType string, body []byte, err error) {
	if _, custom := obj.(runtime.Unstructured); !custom {
		obj = obj.DeepCopyObject() // encoding sets its kind
	}
	contentType, body, err = c.codec.encode(obj, c.target.Resource.GroupVersion())
	if err != nil || contentType == typeJSON || strings.Contains(c.header.Get("Accept"), typeProtobuf) {
		return contentType, body, err
	}
	body, err = json.Marshal(obj)
	return typeJSON, body, err
}

func (t transport) watch(req *http.Request, c call) *http.Response {
	opts, err := options[metav1.ListOptions](c)
	if err != nil {
		return c.respond(req, nil, err)
	}
	c.header = http.Header{} // events are encoded as JSON
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(req.Context())
	go func() {
		defer cancel()
		w.CloseWithError(c.stream(w, t.client.Watch(ctx, c.target, opts)))
	}()
	return newResponse(req, http.StatusOK, typeJSON, closing{r, cancel})
}

// closing ends a watch when its body is closed.
type closing struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (c closing) Close() error {
	c.cancel()
	return c.PipeReader.Close()
}

// stream writes the events of a watch until the watch ends or the body is closed.
func (c call) stream(w io.Writer, events func(func(Event, error) bool)) error {
	enc := json.NewEncoder(w)
	for ev, err := range events {
		kind, obj := string(ev.Type), runtime.Object(ev.Object)
		if err != nil {
			status := StatusOf(err)
			kind, obj = string(watch.Error), &status
		} else if ev.Type == watch.Bookmark {
			obj = c.bookmark(ev.Object)
		}
		_, raw, err := c.encode(obj)
		if err != nil {
			return err
		}
		if err := enc.Encode(metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: raw}}); err != nil {
			return err
		}
	}
	return nil
}

// bookmark returns a bookmark as an object of the resource's kind, as clients expect.
func (c call) bookmark(obj objects.Object) runtime.Object {
	kind, ok := c.codec.kindOf(c.target.Resource)
	if !ok {
		return obj
	}
	typed, err := c.codec.scheme.New(kind)
	if err != nil {
		return obj
	}
	out, ok := typed.(objects.Object)
	if !ok {
		return obj
	}
	out.SetResourceVersion(obj.GetResourceVersion())
	out.SetAnnotations(obj.GetAnnotations())
	return out
}
