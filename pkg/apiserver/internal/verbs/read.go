package verbs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	optionsvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/store"
)

const (
	maxVersionWait = 3 * time.Second // of a read for a resourceVersion that does not exist yet
	bookmarksEvery = time.Minute
)

// Get returns an object, or its view through a subresource.
func (e *Engine) Get(ctx context.Context, req *Request, opts *metav1.GetOptions) (*cache.Item, error) {
	if err := e.Authorize(ctx, req); err != nil {
		return nil, err
	}
	if b := e.backend(req); b != nil {
		return b.Get(ctx, req, opts)
	}
	t, err := e.table(req.Resource)
	if err != nil {
		return nil, err
	}
	version, err := parseVersion(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	if err := e.waitUntilFresh(ctx, opts.ResourceVersion, version); err != nil {
		return nil, toStatus(req.GVR.GroupResource(), req.Name, err)
	}
	item, err := e.current(ctx, t, req.key())
	if err != nil || req.Subresource == "" || req.Subresource == "status" || t.r.Parts[req.Subresource] != nil {
		return item, err
	}
	return t.subresourceView(req.Subresource, item)
}

func (req *Request) key() objects.Key {
	return objects.Key{Namespace: req.objectNamespace(), Name: req.Name}
}

// objectNamespace is the namespace of the request's objects. It is "" for a Namespace, whose request has its name as the
// namespace for authorizers.
func (req *Request) objectNamespace() string {
	if req.Resource != nil && req.Resource.Names.Cluster {
		return ""
	}
	return req.Namespace
}

// waitUntilFresh waits until the cache satisfies a read's resourceVersion: "" needs everything that was committed before the
// read, "0" needs nothing, another version needs that version.
func (e *Engine) waitUntilFresh(ctx context.Context, requested string, version store.Revision) error {
	switch {
	case requested == "":
		return e.cache.WaitUntilFresh(ctx)
	case version == 0 || version <= e.cache.Revision():
		return nil
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	timer := e.machine.AfterFunc(maxVersionWait, func() { stop(context.DeadlineExceeded) })
	defer timer.Stop()
	err := e.cache.Wait(ctx, version)
	if err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return versionTooLarge(version, e.cache.Revision())
	}
	return err
}

func parseVersion(s string) (store.Revision, error) {
	if s == "" {
		return 0, nil
	}
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, plainStatus(field.Invalid(field.NewPath("resourceVersion"), s, err.Error()))
	}
	return store.Revision(v), nil
}

// listOptionErrors validates the options of a list or, with opts.Watch, of a watch.
func listOptionErrors(opts *metav1.ListOptions) field.ErrorList {
	return optionsvalidation.ValidateListOptions(&internalversion.ListOptions{
		Watch: opts.Watch, ResourceVersion: opts.ResourceVersion, ResourceVersionMatch: opts.ResourceVersionMatch,
		Limit: opts.Limit, Continue: opts.Continue, SendInitialEvents: opts.SendInitialEvents,
		AllowWatchBookmarks: opts.AllowWatchBookmarks, TimeoutSeconds: opts.TimeoutSeconds,
	}, true)
}

// selector returns the cache's selector for a request and its options.
func (req *Request) selector(opts *metav1.ListOptions) (cache.Selector, error) {
	s := cache.Selector{Namespace: req.objectNamespace(), Selectable: req.Resource.Selectable}
	if v := req.Version; v != nil && v.Label == nil && v.Selectable != nil {
		s.Selectable = v.Selectable
	}
	var err error
	if opts.LabelSelector != "" {
		if s.Labels, err = labels.Parse(opts.LabelSelector); err != nil {
			return s, apierrors.NewBadRequest(err.Error())
		}
	}
	if opts.FieldSelector != "" {
		if s.Fields, err = fields.ParseSelector(opts.FieldSelector); err != nil {
			return s, apierrors.NewBadRequest(err.Error())
		}
		if s.Fields, err = s.Fields.Transform(req.label); err != nil {
			return s, apierrors.NewBadRequest(err.Error())
		}
	}
	if req.Name == "" {
		return s, nil
	}
	one := fields.OneTermEqualSelector("metadata.name", req.Name)
	if s.Fields == nil {
		s.Fields = one
	} else {
		s.Fields = fields.AndSelectors(s.Fields, one)
	}
	return s, nil
}

// label translates a requirement of a field selector from the requested version to the stored one, and refuses fields
// that are not selectable.
func (req *Request) label(name, value string) (string, string, error) {
	known := req.Resource.Selectable
	if v := req.Version; v != nil {
		if v.Label != nil {
			if stored, _ := v.Label(name, value); known[stored] == nil {
				return "", "", unselectable(req.Resource, name)
			}
			name, value = v.Label(name, value)
		} else if v.Selectable != nil {
			known = v.Selectable
		}
	}
	if known[name] != nil {
		return name, value, nil
	}
	if len(known) == 2 && req.Resource.Unselectable == "" { // metadata.name and metadata.namespace
		return "", "", fmt.Errorf("%q is not a known field selector: only %q, %q", name, "metadata.name", "metadata.namespace")
	}
	return "", "", unselectable(req.Resource, name)
}

// unselectable is the error of a field selector with a field that r does not have.
func unselectable(r *objects.Resource, name string) error {
	return fmt.Errorf(cmp.Or(r.Unselectable, "field label not supported: %s"), name)
}

// Watch returns the changes from opts.ResourceVersion on.
func (e *Engine) Watch(ctx context.Context, req *Request, opts *metav1.ListOptions) (iter.Seq2[[]Event, error], error) {
	checked := *opts
	checked.Watch = true
	if err := e.admitList(ctx, req, &checked); err != nil {
		return nil, err
	}
	if b := e.backend(req); b != nil {
		return e.backendWatch(ctx, b, req, opts)
	}
	t, err := e.table(req.Resource)
	if err != nil {
		return nil, err
	}
	o := cache.WatchOptions{Replay: req.Replay}
	if o.Selector, err = req.selector(opts); err != nil {
		return nil, err
	}
	if o.From, err = parseVersion(opts.ResourceVersion); err != nil {
		return nil, err
	}
	initial := opts.SendInitialEvents
	o.State = initial == nil && o.From == 0 || initial != nil && *initial
	o.Now = !o.State && o.From == 0
	if opts.AllowWatchBookmarks {
		o.InitialEnd, o.Bookmarks = initial != nil && *initial, bookmarksEvery
	}
	if o.State || o.Now {
		if err := e.waitUntilFresh(ctx, opts.ResourceVersion, o.From); err != nil {
			return nil, toStatus(req.GVR.GroupResource(), "", err)
		}
	}
	return e.watch(ctx, t, o, opts.TimeoutSeconds), nil
}

// watch begins a watch, which yields changes until ctx or the requested time ends. The error of a watch that has fallen behind
// has code 410.
func (e *Engine) watch(ctx context.Context, t *table, o cache.WatchOptions, seconds *int64) iter.Seq2[[]Event, error] {
	ctx, stop := context.WithCancel(ctx)
	changes := t.Watch(ctx, o)
	return func(yield func([]Event, error) bool) {
		defer stop()
		if seconds != nil && *seconds > 0 {
			timer := e.machine.AfterFunc(time.Duration(*seconds)*time.Second, stop)
			defer timer.Stop()
		}
		for events, err := range changes {
			if err != nil {
				err = e.watchError(o.From, err)
			}
			if !yield(events, err) {
				return
			}
		}
	}
}

func (e *Engine) watchError(from store.Revision, err error) error {
	if errors.Is(err, store.ErrCompacted) {
		return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", from, e.cache.Revision()))
	}
	return toStatus(schema.GroupResource{}, "", err)
}
