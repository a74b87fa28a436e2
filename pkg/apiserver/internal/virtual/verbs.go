package virtual

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/store"
)

var _ verbs.API = (*Store)(nil)

// Get returns one object.
func (s *Store) Get(ctx context.Context, req *verbs.Request, _ *metav1.GetOptions) (*cache.Item, error) {
	if err := s.config.Authorize(ctx, &req.Attributes); err != nil {
		return nil, err
	}
	s.drain()
	e, ok := s.ring.find(req.Resource, objects.Key{Namespace: req.Namespace, Name: req.Name})
	if !ok {
		return nil, apierrors.NewNotFound(req.Resource.Names.GR(), req.Name)
	}
	return e.item(), nil
}

// List returns what the selectors take, oldest first, a page at a time if that is asked for. A page goes on after the last
// entry of the one before; what has left the ring meanwhile is gone.
func (s *Store) List(ctx context.Context, req *verbs.Request, opts *metav1.ListOptions) (verbs.Listing, error) {
	if err := s.config.Authorize(ctx, &req.Attributes); err != nil {
		return verbs.Listing{}, err
	}
	takes, err := selection(req, opts)
	if err != nil {
		return verbs.Listing{}, err
	}
	from, err := pageStart(opts.Continue)
	if err != nil {
		return verbs.Listing{}, err
	}
	s.drain()
	entries, last, _, _ := s.ring.after(from)
	out := verbs.Listing{Revision: last, Items: []*cache.Item{}}
	for _, e := range entries {
		if !takes(e) {
			continue
		}
		if opts.Limit > 0 && int64(len(out.Items)) == opts.Limit {
			out.Continue = strconv.FormatUint(uint64(from), 10)
			break
		}
		out.Items = append(out.Items, e.item())
		from = e.seq
	}
	return out, nil
}

// pageStart returns after which number the page of a continue token begins.
func pageStart(token string) (store.Revision, error) {
	if token == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(token, 10, 64)
	if err != nil {
		return 0, apierrors.NewBadRequest("continue key is not valid: " + err.Error())
	}
	return store.Revision(n), nil
}

// selection returns what a list or watch takes.
func selection(req *verbs.Request, opts *metav1.ListOptions) (func(*entry) bool, error) {
	byLabel, err := labels.Parse(opts.LabelSelector)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	byField, err := fields.ParseSelector(opts.FieldSelector)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	for _, r := range byField.Requirements() {
		if _, ok := req.Resource.Selectable[r.Field]; !ok {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", r.Field))
		}
	}
	return func(e *entry) bool {
		return e.row.Names.Plural == req.Resource.Names.Plural &&
			(req.Namespace == "" || req.Namespace == e.key.Namespace) &&
			byLabel.Matches(e.labels) &&
			byField.Matches(fields.Set{"metadata.name": e.key.Name, "metadata.namespace": e.key.Namespace})
	}, nil
}

var errTooOld = apierrors.NewResourceExpired("The resourceVersion for the provided watch is too old.")

// Watch yields what comes after opts.ResourceVersion; without one, first what is there. Objects only ever come: that an
// old one has left the ring is no event.
func (s *Store) Watch(ctx context.Context, req *verbs.Request, opts *metav1.ListOptions) (iter.Seq2[[]verbs.Event, error], error) {
	if err := s.config.Authorize(ctx, &req.Attributes); err != nil {
		return nil, err
	}
	takes, err := selection(req, opts)
	if err != nil {
		return nil, err
	}
	initial := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	from, fresh, err := position(opts, initial)
	if err != nil {
		return nil, err
	}
	s.drain()
	if _, last, lost, _ := s.ring.after(from); !fresh && lost || from > last {
		return nil, errTooOld
	}
	return func(yield func([]verbs.Event, error) bool) {
		s.follow(ctx, takes, from, fresh, initial, yield)
	}, nil
}

// position returns after which number a watch begins, and whether with what is there.
func position(opts *metav1.ListOptions, initial bool) (store.Revision, bool, error) {
	if initial || opts.ResourceVersion == "" || opts.ResourceVersion == "0" {
		return 0, true, nil
	}
	n, err := strconv.ParseUint(opts.ResourceVersion, 10, 64)
	if err != nil {
		return 0, false, apierrors.NewBadRequest(fmt.Sprintf("resourceVersion: Invalid value: %q: %v", opts.ResourceVersion, err))
	}
	return store.Revision(n), false, nil
}

func (s *Store) follow(ctx context.Context, takes func(*entry) bool, from store.Revision, fresh, initial bool, yield func([]verbs.Event, error) bool) {
	for {
		entries, last, lost, more := s.ring.after(from)
		if lost && !fresh {
			yield(nil, errTooOld)
			return
		}
		var batch []verbs.Event
		for _, e := range entries {
			if takes(e) {
				batch = append(batch, verbs.Event{Type: watch.Added, Item: e.item(), Revision: e.seq})
			}
		}
		if fresh && initial {
			batch = append(batch, verbs.Event{Type: watch.Bookmark, Revision: last, Initial: true})
		}
		from, fresh = last, false
		if len(batch) > 0 && !yield(batch, nil) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-more:
		}
	}
}

// Create takes in a decision, or a list of them.
func (s *Store) Create(ctx context.Context, req *verbs.Request, obj runtime.Object, opts *metav1.CreateOptions) (verbs.Result, error) {
	if err := s.config.Authorize(ctx, &req.Attributes); err != nil {
		return verbs.Result{}, err
	}
	if req.Resource.Names.Plural != minikctl.Decisions.Resource {
		return verbs.Result{}, notSupported(req, "create")
	}
	dryRun := len(opts.DryRun) > 0
	list, ok := obj.(*minikctl.DecisionList)
	if !ok {
		d, ok := obj.(*minikctl.Decision)
		if !ok {
			return verbs.Result{}, apierrors.NewBadRequest(fmt.Sprintf("%T is no Decision", obj))
		}
		return s.decide(req, d, dryRun)
	}
	for i := range list.Items {
		if _, err := s.decide(req, &list.Items[i], dryRun); err != nil {
			return verbs.Result{}, err
		}
	}
	return verbs.Result{Other: &metav1.Status{Status: metav1.StatusSuccess}, Created: true}, nil
}

func (s *Store) decide(req *verbs.Request, d *minikctl.Decision, dryRun bool) (verbs.Result, error) {
	gr := req.Resource.Names.GR()
	if d.Namespace == "" {
		d.Namespace = req.Namespace
	}
	if d.Name == "" && d.GenerateName != "" {
		d.Name = d.GenerateName + s.config.Source.Suffix(5)
	}
	switch {
	case d.Namespace == "" || req.Namespace != "" && d.Namespace != req.Namespace:
		return verbs.Result{}, apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	case d.Name == "":
		return verbs.Result{}, apierrors.NewBadRequest("name or generateName is required")
	}
	if d.Pod != "" && d.Labels[minikctl.PodLabel] == "" {
		if d.Labels == nil {
			d.Labels = map[string]string{}
		}
		d.Labels[minikctl.PodLabel] = d.Pod
	}
	d.UID = s.config.Source.UID()
	d.CreationTimestamp = metav1.NewTime(s.config.Clock.Now()).Rfc3339Copy()
	if dryRun {
		return verbs.Result{Item: cache.NewItem(objects.Key{Namespace: d.Namespace, Name: d.Name}, 0, d), Created: true}, nil
	}
	s.adding.Lock()
	defer s.adding.Unlock()
	e, added, err := s.ring.add(req.Resource, d)
	if err != nil {
		return verbs.Result{}, apierrors.NewInternalError(err)
	}
	if !added {
		return verbs.Result{}, apierrors.NewAlreadyExists(gr, d.Name)
	}
	s.keep(e)
	s.nudge()
	return verbs.Result{Item: e.item(), Created: true}, nil
}

// restore takes in an object that an earlier store saved. Numbers go on after the last of them.
func (s *Store) restore(line []byte) {
	var head metav1.PartialObjectMetadata
	if err := json.Unmarshal(line, &head); err != nil {
		slog.Warn("saved trace is unreadable", "err", err)
		return
	}
	seq, err := strconv.ParseUint(head.ResourceVersion, 10, 64)
	row := s.byKind(head.Kind)
	if err != nil || row == nil {
		return // of a version of the program that had other kinds
	}
	s.ring.mu.Lock()
	defer s.ring.mu.Unlock()
	if store.Revision(seq) <= s.ring.last {
		return
	}
	if s.ring.last == 0 {
		s.ring.lost = store.Revision(seq) - 1 // what came before is not read back
	}
	key := objects.Key{Namespace: head.Namespace, Name: head.Name}
	s.ring.put(&entry{seq: store.Revision(seq), row: row, key: key, labels: head.Labels, json: append([]byte(nil), line...)})
}

func (s *Store) byKind(kind string) *objects.Resource {
	for _, r := range s.rows {
		if r.Names.Kind == kind {
			return r
		}
	}
	return nil
}

func notSupported(req *verbs.Request, verb string) error {
	return apierrors.NewMethodNotSupported(req.Resource.Names.GR(), verb)
}

// Update and the others below are not for virtual resources: they only tell what was.

// Update refuses.
func (s *Store) Update(_ context.Context, req *verbs.Request, _ runtime.Object, _ *metav1.UpdateOptions) (verbs.Result, error) {
	return verbs.Result{}, notSupported(req, "update")
}

// Patch refuses.
func (s *Store) Patch(_ context.Context, req *verbs.Request, _ verbs.Patch, _ *metav1.PatchOptions) (verbs.Result, error) {
	return verbs.Result{}, notSupported(req, "patch")
}

// Delete refuses.
func (s *Store) Delete(_ context.Context, req *verbs.Request, _ *metav1.DeleteOptions) (verbs.Result, error) {
	return verbs.Result{}, notSupported(req, "delete")
}

// DeleteCollection refuses.
func (s *Store) DeleteCollection(_ context.Context, req *verbs.Request, _ *metav1.DeleteOptions, _ *metav1.ListOptions) (verbs.Listing, error) {
	return verbs.Listing{}, notSupported(req, "deletecollection")
}
