package verbs

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/trace"
)

// write is one request that changes something, on its way through the stages.
type write struct {
	*Engine
	*table
	req    *Request
	dry    bool
	began  time.Time
	stages []trace.Stage

	sub           runtime.Object        // the object of a subresource that has a kind of its own
	deleteOptions *metav1.DeleteOptions // of a delete
}

// begin authorizes a write and says how it is made.
func (e *Engine) begin(ctx context.Context, req *Request, dryRun []string, opts stage.Options) (*write, error) {
	w := &write{Engine: e, req: req, dry: len(dryRun) > 0, began: req.Began}
	if w.began.IsZero() {
		w.began = e.config.Clock.Now()
	}
	start := e.config.Clock.Now()
	if err := e.authorize(ctx, &req.Attributes); err != nil {
		return nil, err
	}
	w.took("authz", start)
	var err error
	if w.table, err = e.table(req.Resource); err != nil {
		return nil, err
	}
	if !w.serves(req.Subresource) {
		return nil, notServed(req)
	}
	req.DryRun, req.Options = w.dry, opts
	if req.Manager = opts.FieldManager; req.Manager == "" {
		req.Manager = managerOf(req.UserAgent)
	}
	return w, nil
}

// serves reports whether the engine knows what to do with a subresource of the resource.
func (t *table) serves(name string) bool {
	switch {
	case name == "":
		return true
	case name == "status":
		return t.r.Status != nil
	case t.r.Parts[name] != nil:
		return true
	}
	_, ok := subresourceOf(t.r, name)
	return ok
}

// notServed is the answer to a request for something that does not exist in the API.
func notServed(req *Request) error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, req.Verb, schema.GroupResource{}, "", "", 0, true)
}

// managerOf is the field manager of who names none: the first word of the user agent.
func managerOf(agent string) string {
	const longest = 128
	name, _, _ := strings.Cut(agent, "/")
	var b strings.Builder
	for _, r := range name {
		if unicode.IsPrint(r) && b.Len()+utf8.RuneLen(r) <= longest {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// took notes a stage that began at start.
func (w *write) took(name string, start time.Time) {
	w.stages = append(w.stages, trace.Stage{Name: name, Start: start, Took: w.config.Clock.Since(start)})
}

// gr is the resource as messages name it.
func (w *write) gr() schema.GroupResource { return w.r.Names.GR() }

// status is the request's name in toStatus.
func (w *write) status(err error) error { return toStatus(w.gr(), w.req.Name, err) }

// invalid collects what validation found.
func (w *write) invalid(name string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	if names := w.served().Renamed; len(names) > 0 {
		for _, e := range errs {
			if to, ok := names[e.Field]; ok {
				e.Field = to
			}
		}
	}
	return newInvalid(w.r.Names.GVK().GroupKind(), name, check.ShowAll(errs))
}

// served is the version that was asked for.
func (w *write) served() *objects.Served {
	if w.req.Served != nil {
		return w.req.Served
	}
	return &w.r.Versions[0]
}

// admission describes a change to the stages.
func (w *write) admission(op stage.Operation, obj, old objects.Object) *stage.Admission {
	return &stage.Admission{Attributes: &w.req.Attributes, Operation: op, Object: obj, Old: old, Sub: w.sub, DeleteOptions: w.deleteOptions}
}

// mutate calls the mutators, then fills in what they have left open.
func (w *write) mutate(ctx context.Context, a *stage.Admission) error {
	if err := w.Engine.stages.Mutate(ctx, a); err != nil {
		return w.refused(a, err)
	}
	if len(w.Engine.stages.Mutators) > 0 && a.Sub == nil && a.Object != nil { // what a subresource takes is none of the row
		w.r.Default(a.Object)
	}
	return nil
}

// validate calls the validators.
func (w *write) validate(ctx context.Context, a *stage.Admission) error {
	return w.refused(a, w.Engine.stages.Validate(ctx, a))
}

// reserve calls the reservers.
func (w *write) reserve(ctx context.Context, a *stage.Admission, tx *stage.Transaction) error {
	return w.refused(a, w.Engine.stages.Reserve(ctx, a, tx))
}

// refused makes what a stage says an answer: Forbidden, unless it knows better.
func (w *write) refused(a *stage.Admission, err error) error {
	var status apierrors.APIStatus
	if err == nil || errors.As(err, &status) {
		return err
	}
	name := w.req.Name
	if obj := a.Object; name == "" && obj != nil {
		if name = obj.GetName(); name == "" {
			name = obj.GetGenerateName()
		}
	}
	if name == "" {
		name = "Unknown"
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: w.req.GVR.Group, Resource: w.req.GVR.Resource}, name, err)
}

// inNamespace sees to it that the object is in the namespace that the request says.
func inNamespace(obj metav1.Object, namespace string) error {
	switch obj.GetNamespace() {
	case namespace:
	case "":
		obj.SetNamespace(namespace)
	default:
		if namespace != "" {
			return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
		}
		obj.SetNamespace("")
	}
	return nil
}

// decided is the context of a write that is about to be made: whoever asked for it may go, but its outcome has to be
// known, since the hooks keep or give back by it what the object has.
func decided(ctx context.Context) (context.Context, error) {
	return context.WithoutCancel(ctx), ctx.Err()
}

// commit stores obj in place of old (nil: it is new) and returns the item that it has become. An obj that equals old is
// not written. obj's resourceVersion is the engine's from here on.
func (w *write) commit(ctx context.Context, obj objects.Object, old *cache.Item) (*cache.Item, error) {
	start := w.config.Clock.Now()
	ctx, err := decided(ctx)
	if err != nil {
		return nil, err
	}
	gvk := w.r.Names.GVK()
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	obj.SetResourceVersion("")
	obj.SetSelfLink("") // which nothing has any more
	if w.r.Custom() {   // what is stored is shown: a status that was not there yet may have defaults
		w.r.Default(obj)
	}
	if e := w.table.empty(); e != nil {
		e.empty(reflect.ValueOf(obj).Elem())
	}
	value, err := cache.Encode(gvk, obj)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	expect := store.Absent()
	if old != nil {
		same, err := old.IsStoredAs(gvk, value)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		if same {
			return old, w.stillCurrent(ctx, old)
		}
		expect = store.At(old.Revision)
	}
	key := objects.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	if w.dry {
		return w.dryRun(obj, key, old), nil
	}
	p := w.Engine.cache.Pending(obj)
	revs, err := w.config.Store.Write(ctx, store.Op{Key: w.StoreKey(key), Value: value, Expect: expect, Object: p})
	if err != nil {
		return nil, err
	}
	item, err := w.Engine.cache.Committed(ctx, key, p, revs[0])
	if err != nil {
		return nil, err
	}
	w.took("commit", start)
	w.span(item, obj, old)
	return item, nil
}

// stillCurrent checks that what a write would not change is what is stored, and not only what the cache shows: another
// server of the same store may have changed it.
func (w *write) stillCurrent(ctx context.Context, i *cache.Item) error {
	if err := w.Engine.cache.Fresh(ctx); err != nil {
		return err
	}
	now, ok, err := w.Table.Get(ctx, i.Key)
	if err == nil && (!ok || now.Revision != i.Revision) {
		err = store.ErrConflict
	}
	return err
}

// dryRun is the answer to a write that is not made: the object with the version that it would replace.
func (w *write) dryRun(obj objects.Object, key objects.Key, old *cache.Item) *cache.Item {
	if old == nil {
		return cache.NewItem(key, 0, obj)
	}
	if was, err := old.Object(); err == nil {
		obj.SetResourceVersion(was.GetResourceVersion())
	}
	return cache.NewItem(key, old.Revision, obj)
}

// span tells who made a write, why, and how long its stages took.
func (w *write) span(item *cache.Item, obj objects.Object, old *cache.Item) {
	if w.config.Spans == nil {
		return
	}
	s := trace.Span{
		Revision: uint64(item.Revision), Time: w.began, Agent: managerOf(w.req.UserAgent), Verb: w.req.Verb,
		Resource: w.gr().String(), Sub: w.req.Subresource, Namespace: obj.GetNamespace(), Name: obj.GetName(),
		UID: string(obj.GetUID()), Report: trace.Report{Causes: w.req.Report.Causes},
	}
	if w.req.User != nil {
		s.Actor = w.req.User.GetName()
	}
	if ref := metav1.GetControllerOfNoCopy(obj); ref != nil {
		s.Owner = string(ref.UID)
	}
	s.Note = w.note(obj, old)
	s.Stages = append(append(append(s.Stages, w.req.Report.Stages...), w.req.Stages...), w.stages...)
	w.config.Spans(s)
}
