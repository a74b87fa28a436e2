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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/store"
)

var (
	_ verbs.Backend = (*Store)(nil)
	_ verbs.Watcher = (*Store)(nil)
	_ verbs.Creator = (*Store)(nil)
)

// Get returns one object.
func (s *Store) Get(ctx context.Context, req *verbs.Request, _ *metav1.GetOptions) (*cache.Item, error) {
	s.drain()
	e, ok := s.recent.find(req.Resource, objects.Key{Namespace: req.Namespace, Name: req.Name})
	if !ok {
		return nil, apierrors.NewNotFound(req.Resource.Names.GR(), req.Name)
	}
	return e.item(), nil
}

// List returns the entries that match the selectors, oldest first, in pages of opts.Limit. A page begins after the last
// entry of the previous page, without the entries that were dropped meanwhile.
func (s *Store) List(ctx context.Context, req *verbs.Request, opts *metav1.ListOptions) (verbs.Listing, error) {
	takes, err := selection(req, opts)
	if err != nil {
		return verbs.Listing{}, err
	}
	from, err := pageStart(opts.Continue)
	if err != nil {
		return verbs.Listing{}, err
	}
	s.drain()
	entries, end := s.recent.after(from)
	out := verbs.Listing{Revision: end.Revision, Items: []*cache.Item{}}
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

// pageStart returns the number behind which the page of a continue token begins.
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

// selection returns a function that reports whether an entry matches a list or watch.
func selection(req *verbs.Request, opts *metav1.ListOptions) (func(*entry) bool, error) {
	selectors, err := verbs.ParseSelectors(opts)
	if err != nil {
		return nil, err
	}
	for _, r := range selectors.Fields.Requirements() {
		if _, ok := req.Resource.Selectable[r.Field]; !ok {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", r.Field))
		}
	}
	return func(e *entry) bool {
		return e.row.Names.Plural == req.Resource.Names.Plural &&
			(req.Namespace == "" || req.Namespace == e.key.Namespace) &&
			selectors.Labels.Matches(e.labels) &&
			selectors.Fields.Matches(fields.Set{"metadata.name": e.key.Name, "metadata.namespace": e.key.Namespace})
	}, nil
}

var errTooOld = apierrors.NewResourceExpired("The resourceVersion for the provided watch is too old.")

// Watch yields the entries after opts.ResourceVersion; without one, it begins with the current entries. All events are
// additions: there is no event when an old entry is dropped.
func (s *Store) Watch(ctx context.Context, req *verbs.Request, opts *metav1.ListOptions) (iter.Seq2[[]verbs.Event, error], error) {
	takes, err := selection(req, opts)
	if err != nil {
		return nil, err
	}
	initial := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	from, current, err := position(opts, initial)
	if err != nil {
		return nil, err
	}
	s.drain()
	var p *place
	if !current {
		var ok bool
		if p, ok = s.recent.since(from); !ok {
			return nil, errTooOld
		}
	}
	return func(yield func([]verbs.Event, error) bool) {
		f := &follower{from: from, matches: takes, yield: yield}
		if current {
			f.run(ctx, f.begin(s.recent, initial))
		} else {
			f.run(ctx, p)
		}
	}, nil
}

// position returns the sequence number after which a watch begins, and whether it begins with the current entries.
func position(opts *metav1.ListOptions, initial bool) (from store.Revision, current bool, err error) {
	if initial || opts.ResourceVersion == "" || opts.ResourceVersion == "0" {
		return 0, true, nil
	}
	n, err := strconv.ParseUint(opts.ResourceVersion, 10, 64)
	if err != nil {
		return 0, false, apierrors.NewBadRequest(fmt.Sprintf("resourceVersion: Invalid value: %q: %v", opts.ResourceVersion, err))
	}
	return store.Revision(n), false, nil
}

// follower is a running watch.
type follower struct {
	from    store.Revision // the number after which the watch begins
	matches func(*entry) bool
	yield   func([]verbs.Event, error) bool
	left    bool // the reader has left the loop
}

// begin yields the current entries and, for initial, the bookmark behind them. It returns the place behind them.
func (f *follower) begin(r *recent, initial bool) *place {
	entries, p := r.after(0)
	events := f.events(entries)
	if initial {
		events = append(events, verbs.Event{Type: watch.Bookmark, Revision: p.Revision, Initial: true})
	}
	f.emit(events)
	return p
}

// run yields the entries behind p.
func (f *follower) run(ctx context.Context, p *place) {
	for {
		entries, end, err := gather(p)
		f.emit(f.events(entries))
		switch {
		case f.left:
			return
		case err != nil:
			f.yield(nil, errTooOld)
			return
		}
		p = end
		select {
		case <-ctx.Done():
			return
		case <-p.Ready():
		}
	}
}

func (f *follower) events(entries []*entry) []verbs.Event {
	var out []verbs.Event
	for _, e := range newer(entries, f.from) {
		if f.matches(e) {
			out = append(out, verbs.Event{Type: watch.Added, Item: e.item(), Revision: e.seq})
		}
	}
	return out
}

func (f *follower) emit(events []verbs.Event) {
	if len(events) > 0 && !f.left {
		f.left = !f.yield(events, nil)
	}
}

// Create adds a decision, or a list of them. If the name of one exists already, which is the error, the others are added.
func (s *Store) Create(_ context.Context, req *verbs.Request, obj runtime.Object, opts *metav1.CreateOptions) (verbs.Result, error) {
	if req.Resource.Names.Plural != minikctl.Decisions.Resource {
		return verbs.Result{}, apierrors.NewMethodNotSupported(req.Resource.Names.GR(), "create")
	}
	dryRun := len(opts.DryRun) > 0
	switch obj := obj.(type) {
	case *minikctl.Decision:
		if err := s.prepare(req, obj); err != nil {
			return verbs.Result{}, err
		}
		if dryRun {
			return verbs.Result{Item: cache.NewItem(objects.Key{Namespace: obj.Namespace, Name: obj.Name}, 0, obj), Created: true}, nil
		}
		added, err := s.decide(req.Resource, obj)
		if err != nil {
			return verbs.Result{}, err
		}
		return verbs.Result{Item: added[0].item(), Created: true}, nil
	case *minikctl.DecisionList:
		decisions := make([]objects.Object, len(obj.Items))
		for i := range obj.Items {
			if err := s.prepare(req, &obj.Items[i]); err != nil {
				return verbs.Result{}, err
			}
			decisions[i] = &obj.Items[i]
		}
		if !dryRun {
			if _, err := s.decide(req.Resource, decisions...); err != nil {
				return verbs.Result{}, err
			}
		}
		return verbs.Result{Other: &metav1.Status{Status: metav1.StatusSuccess}, Created: true}, nil
	}
	return verbs.Result{}, apierrors.NewBadRequest(fmt.Sprintf("%T is no Decision", obj))
}

// prepare sets what the server sets of a new decision.
func (s *Store) prepare(req *verbs.Request, d *minikctl.Decision) error {
	if d.Namespace == "" {
		d.Namespace = req.Namespace
	}
	if d.Name == "" && d.GenerateName != "" {
		d.Name = d.GenerateName + s.config.Source.Suffix(5)
	}
	switch {
	case d.Namespace == "" || req.Namespace != "" && d.Namespace != req.Namespace:
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	case d.Name == "":
		return apierrors.NewBadRequest("name or generateName is required")
	}
	if d.Pod != "" && d.Labels[minikctl.PodLabel] == "" {
		if d.Labels == nil {
			d.Labels = map[string]string{}
		}
		d.Labels[minikctl.PodLabel] = d.Pod
	}
	d.UID = s.config.Source.UID()
	d.CreationTimestamp = metav1.NewTime(s.config.Clock.Now()).Rfc3339Copy()
	return nil
}

// decide adds decisions to the log together, so that the entries share its overhead.
func (s *Store) decide(row *objects.Resource, decisions ...objects.Object) ([]*entry, error) {
	s.adding.Lock()
	defer s.adding.Unlock()
	added, err := s.recent.add(row, decisions...)
	if err != nil {
		err = apierrors.NewInternalError(err)
	}
	for i, e := range added {
		switch {
		case e != nil:
			s.markUnsaved(e)
		case err == nil:
			err = apierrors.NewAlreadyExists(row.Names.GR(), decisions[i].GetName())
		}
	}
	s.notify()
	return added, err
}

// restore adds an object that an earlier process has saved.
func (s *Store) restore(line []byte) {
	var head metav1.PartialObjectMetadata
	if err := json.Unmarshal(line, &head); err != nil {
		slog.Warn("saved trace is unreadable", "err", err)
		return
	}
	seq, err := strconv.ParseUint(head.ResourceVersion, 10, 64)
	row := s.byKind(head.Kind)
	if err != nil || row == nil {
		return // written by another version of the program, with other kinds
	}
	key := objects.Key{Namespace: head.Namespace, Name: head.Name}
	s.recent.restore(store.Revision(seq), row, key, head.Labels, line)
}

func (s *Store) byKind(kind string) *objects.Resource {
	for _, r := range s.rows {
		if r.Names.Kind == kind {
			return r
		}
	}
	return nil
}
