package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/codec"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// API returns api with its requests recorded in the log. A request over HTTP already has an entry, which the HTTP layer completes;
// an in-process request gets one here.
func (l *Log) API(api verbs.API) verbs.API {
	if l == nil {
		return api
	}
	return audited{api, l}
}

type audited struct {
	verbs.API
	log *Log
}

// begin returns the entry of a request and a function that completes it, which does nothing for requests over HTTP.
func (x audited) begin(req *verbs.Request) (e *Entry, end func()) {
	if e, ok := req.Audit.(*Entry); ok {
		return e, func() {}
	}
	began := req.Began
	if began.IsZero() {
		began = x.log.clock.Now()
	}
	path := pathOf(req)
	r := Request{
		Received: began, User: req.User, Verb: req.Verb, URI: path, Path: path, UserAgent: req.UserAgent,
		Sources: []string{"127.0.0.1"}, Long: req.Verb == "watch",
		Object: &auditv1.ObjectReference{
			APIGroup: req.GVR.Group, APIVersion: req.GVR.Version, Resource: req.GVR.Resource, Subresource: req.Subresource,
			Namespace: req.Namespace, Name: req.Name,
		},
	}
	if req.GVR.Resource == "namespaces" && req.GVR.Group == "" {
		r.Object.Namespace = req.Name
	}
	if r.Long {
		r.URI += "?watch=true"
	}
	e = x.log.Begin(r)
	req.Audit = e
	e.Received()
	return e, e.Complete
}

// pathOf returns the URL path that an in-process request would have over HTTP.
func pathOf(req *verbs.Request) string {
	return client.Path(client.Target{Resource: req.GVR, Namespace: req.Namespace, Name: req.Name, Subresource: req.Subresource})
}

// recorded returns body with its object recorded in e.
func recorded(e *Entry, req *verbs.Request, body verbs.Body) verbs.Body {
	return func() (runtime.Object, error) {
		obj, err := body()
		if err == nil {
			recordRequest(e, req, obj)
		}
		return obj, err
	}
}

// recordRequest records the object of a request.
func recordRequest(e *Entry, req *verbs.Request, obj runtime.Object) {
	about, _ := obj.(metav1.Object)
	e.SetRequest(about, func() ([]byte, error) {
		o, ok := obj.(objects.Object)
		if !ok {
			return codec.Marshal(obj, obj.GetObjectKind().GroupVersionKind(), codec.JSON)
		}
		return codec.KindOf(req).Encode(e.Trim(cache.NewItem(objects.Key{}, 0, o)), codec.JSON)
	})
}

// deleting records the options of a delete, if any.
func deleting(e *Entry, opts *metav1.DeleteOptions) {
	bare := *opts
	bare.TypeMeta = metav1.TypeMeta{}
	if !e.Enabled() || equality.Semantic.DeepEqual(bare, metav1.DeleteOptions{}) {
		return
	}
	gvk := opts.GroupVersionKind()
	if gvk.Empty() {
		gvk = metav1.SchemeGroupVersion.WithKind("DeleteOptions")
	}
	e.SetRequest(nil, func() ([]byte, error) { return codec.Marshal(opts, gvk, codec.JSON) })
}

// failure records the error that an in-process request returns.
func failure(e *Entry, err error) {
	st := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}
	var api apierrors.APIStatus
	if errors.As(err, &api) {
		st = api.Status()
	}
	e.Status(&st)
	e.Code(int(st.Code))
	if e.NeedsResponse() {
		e.SetResponse(codec.Marshal(&st, metav1.Unversioned.WithKind("Status"), codec.JSON))
	}
}

func recordItem(e *Entry, req *verbs.Request, it *cache.Item) {
	if e.NeedsResponse() {
		e.SetResponse(codec.KindOf(req).Encode(e.Trim(it), codec.JSON))
	}
}

// recordRead and recordWrite record the response of an in-process request. Over HTTP the response is recorded where it is written.
func recordRead(e *Entry, req *verbs.Request, it *cache.Item, err error) {
	if err != nil {
		failure(e, err)
		return
	}
	e.Code(http.StatusOK)
	recordItem(e, req, it)
}

func recordList(e *Entry, req *verbs.Request, l verbs.Listing, err error) {
	if err != nil {
		failure(e, err)
		return
	}
	e.Code(http.StatusOK)
	if !e.NeedsResponse() {
		return
	}
	meta := metav1.ListMeta{ResourceVersion: strconv.FormatUint(uint64(l.Revision), 10), Continue: l.Continue, RemainingItemCount: l.Remaining}
	pieces, err := codec.KindOf(req).List(e.TrimAll(l.Items), meta, codec.JSON)
	var body []byte
	if err == nil {
		body, err = pieces.Bytes()
	}
	e.SetResponse(bytes.TrimSpace(body), err)
}

func recordWrite(e *Entry, req *verbs.Request, out verbs.Result, err error) {
	if err != nil {
		failure(e, err)
		return
	}
	if st, ok := out.Other.(*metav1.Status); ok {
		e.Status(st)
	}
	code := http.StatusOK
	if out.Created {
		code = http.StatusCreated
	}
	e.Code(code)
	switch {
	case out.Item != nil:
		recordItem(e, req, out.Item)
	case out.Other != nil && e.NeedsResponse():
		gvk := out.Other.GetObjectKind().GroupVersionKind()
		if gvk.Empty() {
			gvk = codec.KindOf(req).GVK()
		}
		e.SetResponse(codec.Marshal(e.TrimObject(out.Other), gvk, codec.JSON))
	}
}

func (x audited) Get(ctx context.Context, req *verbs.Request, opts *metav1.GetOptions) (*cache.Item, error) {
	if req.Audit != nil {
		return x.API.Get(ctx, req, opts)
	}
	e, end := x.begin(req)
	defer end()
	it, err := x.API.Get(ctx, req, opts)
	recordRead(e, req, it, err)
	return it, err
}

func (x audited) List(ctx context.Context, req *verbs.Request, opts *metav1.ListOptions) (verbs.Listing, error) {
	if req.Audit != nil {
		return x.API.List(ctx, req, opts)
	}
	e, end := x.begin(req)
	defer end()
	l, err := x.API.List(ctx, req, opts)
	recordList(e, req, l, err)
	return l, err
}

func (x audited) Watch(ctx context.Context, req *verbs.Request, opts *metav1.ListOptions) (iter.Seq2[[]verbs.Event, error], error) {
	if req.Audit != nil {
		return x.API.Watch(ctx, req, opts)
	}
	e, end := x.begin(req)
	events, err := x.API.Watch(ctx, req, opts)
	if err != nil {
		defer end()
		failure(e, err)
		return nil, err
	}
	e.Code(http.StatusOK)
	return func(yield func([]verbs.Event, error) bool) {
		defer end()
		events(yield)
	}, nil
}

func (x audited) Create(ctx context.Context, req *verbs.Request, body verbs.Body, opts *metav1.CreateOptions) (verbs.Result, error) {
	return x.write(req, func(e *Entry) (verbs.Result, error) { return x.API.Create(ctx, req, recorded(e, req, body), opts) })
}

func (x audited) Update(ctx context.Context, req *verbs.Request, body verbs.Body, opts *metav1.UpdateOptions) (verbs.Result, error) {
	return x.write(req, func(e *Entry) (verbs.Result, error) { return x.API.Update(ctx, req, recorded(e, req, body), opts) })
}

func (x audited) Patch(ctx context.Context, req *verbs.Request, p verbs.Patch, opts *metav1.PatchOptions) (verbs.Result, error) {
	body := func() ([]byte, error) {
		if json.Valid(p.Data) {
			return p.Data, nil
		}
		if raw, err := yaml.YAMLToJSON(p.Data); err == nil {
			return raw, nil
		}
		return json.Marshal(string(p.Data))
	}
	return x.write(req, func(e *Entry) (verbs.Result, error) {
		e.SetRequest(nil, body)
		return x.API.Patch(ctx, req, p, opts)
	})
}

func (x audited) Delete(ctx context.Context, req *verbs.Request, opts *metav1.DeleteOptions) (verbs.Result, error) {
	return x.write(req, func(e *Entry) (verbs.Result, error) {
		deleting(e, opts)
		return x.API.Delete(ctx, req, opts)
	})
}

func (x audited) DeleteCollection(ctx context.Context, req *verbs.Request, opts *metav1.DeleteOptions, list *metav1.ListOptions) (verbs.Listing, error) {
	here := req.Audit == nil
	e, end := x.begin(req)
	defer end()
	deleting(e, opts)
	l, err := x.API.DeleteCollection(ctx, req, opts, list)
	if here {
		recordList(e, req, l, err)
	}
	return l, err
}

// write makes a write and records it.
func (x audited) write(req *verbs.Request, do func(*Entry) (verbs.Result, error)) (verbs.Result, error) {
	here := req.Audit == nil
	e, end := x.begin(req)
	defer end()
	out, err := do(e)
	if here {
		recordWrite(e, req, out, err)
	}
	return out, err
}
