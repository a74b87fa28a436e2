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

// write is a request that changes an object.
type write struct {
	*Engine
	*table
	req    *Request
	dry    bool
	began  time.Time
	stages []trace.Stage

	stored   bool // the store holds the object of the current attempt
	tooLarge bool // to be stored, of that object

	sub           runtime.Object        // the object of a subresource with its own kind
	deleteOptions *metav1.DeleteOptions // of a delete
}

// begin returns the write of an admitted request.
func (e *Engine) begin(req *Request, dryRun []string, opts stage.Options) (*write, error) {
	w := &write{Engine: e, req: req, dry: len(dryRun) > 0, began: req.Began}
	if w.began.IsZero() {
		w.began = req.authz.Start
	}
	w.stages = append(make([]trace.Stage, 0, 4), req.authz) // and admission, validation, commit
	if e.backend(req) != nil {
		return nil, notSupported(req)
	}
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

// serves reports whether the engine supports a subresource of the resource.
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

// notServed returns the error of a request for a subresource that does not exist.
func notServed(req *Request) error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, req.Verb, schema.GroupResource{}, "", "", 0, true)
}

// managerOf returns the default field manager: the first word of the user agent.
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

// recordStage records a stage that began at start.
func (w *write) recordStage(name string, start time.Time) {
	w.stages = append(w.stages, trace.Stage{Name: name, Start: start, Took: w.machine.Since(start)})
}

// gr returns the resource as messages name it.
func (w *write) gr() schema.GroupResource { return w.r.Names.GR() }

// status converts an error about the request's object with toStatus.
func (w *write) status(err error) error { return toStatus(w.gr(), w.req.Name, err) }

// invalid returns the Invalid error with the errors of a validation; nil without errors.
func (w *write) invalid(name string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	if names := w.requestedVersion().Renamed; len(names) > 0 {
		for _, e := range errs {
			if to, ok := names[e.Field]; ok {
				e.Field = to
			}
		}
	}
	return newInvalid(w.r.Names.GVK().GroupKind(), name, check.ShowAll(errs))
}

// requestedVersion returns the version of the request.
func (w *write) requestedVersion() *objects.VersionOf {
	if w.req.Version != nil {
		return w.req.Version
	}
	return &w.r.Versions[0]
}

// admission returns the description of a change for the stages.
func (w *write) admission(op stage.Operation, obj, old objects.Object) *stage.Admission {
	return &stage.Admission{Attributes: &w.req.Attributes, Operation: op, Object: obj, Old: old, Sub: w.sub, DeleteOptions: w.deleteOptions}
}

// mutate calls the mutators, then sets defaults again.
func (w *write) mutate(ctx context.Context, a *stage.Admission) error {
	if err := w.Engine.stages.Mutate(ctx, a); err != nil {
		return w.admissionError(a, err)
	}
	if len(w.Engine.stages.Mutators) > 0 && a.Sub == nil && a.Object != nil { // a.Sub is of another kind than the row
		w.r.Default(a.Object)
	}
	return nil
}

// validate calls the validators.
func (w *write) validate(ctx context.Context, a *stage.Admission) error {
	return w.admissionError(a, w.Engine.stages.Validate(ctx, a))
}

// reserve calls the reservers.
func (w *write) reserve(ctx context.Context, a *stage.Admission, tx *stage.Transaction) error {
	return w.admissionError(a, w.Engine.stages.Reserve(ctx, a, tx))
}

// admissionError turns the error of a stage into a Status: Forbidden, unless it is a Status already.
func (w *write) admissionError(a *stage.Admission, err error) error {
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

// inNamespace sets or checks the namespace of a request's object. An object of a cluster-scoped resource gets none.
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

// transact calls f for one attempt to write an object, and ends the attempt's transaction: it is committed when the store
// holds the object, even if f fails or panics after that, and rolled back in every other case.
func (w *write) transact(ctx context.Context, f func(tx *stage.Transaction) error) error {
	tx := stage.Transaction{DryRun: w.dry}
	w.stored = false
	defer func() {
		if w.stored {
			tx.Commit(ctx)
		} else {
			tx.Rollback(ctx)
		}
	}()
	return f(&tx)
}

// detach returns a context for the store that is not cancelled with the request: the transaction needs the outcome of a write
// even when the client has disconnected.
func detach(ctx context.Context) (context.Context, error) {
	return context.WithoutCancel(ctx), ctx.Err()
}

// commit stores obj in place of old (nil: obj is new) and returns its item. An obj that equals old is not written. The engine
// owns obj's resourceVersion from here on.
func (w *write) commit(ctx context.Context, obj objects.Object, old *cache.Item) (*cache.Item, error) {
	if w.tooLarge {
		return nil, store.ErrTooLarge
	}
	start := w.machine.Now()
	ctx, err := detach(ctx)
	if err != nil {
		return nil, err
	}
	gvk := w.r.Names.GVK()
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	obj.SetResourceVersion("")
	obj.SetSelfLink("") // deprecated: no stored object has one
	if w.r.Complete != nil {
		w.r.Complete(obj)
	}
	if e := w.emptyFields(); e != nil {
		e.clear(reflect.ValueOf(obj).Elem())
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
			err := w.stillCurrent(ctx, old)
			w.stored = err == nil && !w.dry
			return old, err
		}
		expect = store.At(old.Revision)
	}
	key := objects.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	op := store.Op{Key: w.StoreKey(key), Value: value, Expect: expect}
	if w.dry {
		return w.dryRun(obj, key, old), store.CheckSize([]store.Op{op})
	}
	p := w.Table.Pending(obj)
	op.Object = p.Ref()
	revs, err := w.config.Store.Write(ctx, op)
	if err != nil {
		return nil, err
	}
	w.stored = true
	item, err := w.Engine.cache.Committed(ctx, key, p, revs[0])
	if err != nil {
		return nil, err
	}
	w.recordStage("commit", start)
	w.span(item, obj, old)
	return item, nil
}

// stillCurrent checks that an unchanged object is the stored one: another server of the same store may have changed it since
// the cache read it.
func (w *write) stillCurrent(ctx context.Context, i *cache.Item) error {
	if err := w.Engine.cache.WaitUntilFresh(ctx); err != nil {
		return err
	}
	now, ok, err := w.Table.Get(ctx, i.Key)
	if err == nil && (!ok || now.Revision != i.Revision) {
		err = store.ErrConflict
	}
	return err
}

// dryRun returns the item for the response to a dry run: obj with the version that it would replace.
func (w *write) dryRun(obj objects.Object, key objects.Key, old *cache.Item) *cache.Item {
	if old == nil {
		return cache.NewItem(key, 0, obj)
	}
	if was, err := old.Object(); err == nil {
		obj.SetResourceVersion(was.GetResourceVersion())
	}
	return cache.NewItem(key, old.Revision, obj)
}

// span records a committed write: its user, its causes and the duration of its stages.
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
