package verbs

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/track"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// compactEvery is how often the store is compacted, and how old the revision is to which.
const compactEvery = 5 * time.Minute

// Engine is the API over a store. New makes one; nothing is answered before Run.
type Engine struct {
	config Config
	cache  *cache.Cache
	stages stage.Stages

	mu     sync.RWMutex
	tables map[schema.GroupResource]*table
	served map[schema.GroupVersionResource]*Served
}

// Served is a resource in one of its versions.
type Served struct {
	Resource *objects.Resource
	Version  *objects.Served
	Stored   bool // the version is the one that is stored
}

// table is what the engine holds of one resource.
type table struct {
	*cache.Table
	r       *objects.Resource
	tracker *track.Tracker // the resource's own: it goes with it
	hooks   []stage.Hook
	loaded  sync.Mutex // held while the hooks are loaded
	ready   bool       // they are; guarded by loaded
	empty   func() *emptier
}

var _ API = (*Engine)(nil)

// New makes the engine over cfg.Store.
func New(cfg Config) (*Engine, error) {
	c, err := cache.New(context.Background(), cfg.Store, cfg.Clock) //nolint:forbidigo // a start that nobody cancels
	if err != nil {
		return nil, err
	}
	e := &Engine{
		config: cfg, cache: c,
		tables: map[schema.GroupResource]*table{}, served: map[schema.GroupVersionResource]*Served{},
	}
	boundCopies()
	for i := range cfg.Resources {
		e.add(&cfg.Resources[i])
	}
	if cfg.Stages != nil {
		e.stages = cfg.Stages(e.Reader())
	}
	return e, nil
}

// Replace serves r in place of old. Either may be nil: r is new, or old is served no longer. What the store holds of old
// is read as r says from now on.
func (e *Engine) Replace(old, r *objects.Resource) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if old != nil {
		e.drop(old)
	}
	if r != nil {
		e.add(r)
	}
}

func (e *Engine) drop(r *objects.Resource) {
	e.cache.Remove(r.Names.GR())
	delete(e.tables, r.Names.GR())
	for i := range r.Versions {
		v := &r.Versions[i]
		delete(e.served, schema.GroupVersionResource{Group: v.Group, Version: v.Version, Resource: r.Names.Plural})
	}
}

func (e *Engine) add(r *objects.Resource) {
	gr := r.Names.GR()
	t := &table{
		Table: e.cache.Add(r), r: r, tracker: track.New(e.config.Clock), empty: sync.OnceValue(func() *emptier { return emptierOf(r) }),
	}
	for _, h := range e.config.Hooks {
		if h.Resource == gr {
			t.hooks = append(t.hooks, h)
		}
	}
	e.tables[gr] = t
	for i := range r.Versions {
		v := &r.Versions[i]
		if v.Unserved {
			continue
		}
		gvr := schema.GroupVersionResource{Group: v.Group, Version: v.Version, Resource: r.Names.Plural}
		e.served[gvr] = &Served{Resource: r, Version: v, Stored: v.To == nil}
	}
}

// Lookup returns what is served under gvr; nil when nothing is.
func (e *Engine) Lookup(gvr schema.GroupVersionResource) *Served {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.served[gvr]
}

func (e *Engine) table(r *objects.Resource) (*table, error) { return e.tableOf(r.Names.GR()) }

func (e *Engine) tableOf(gr schema.GroupResource) (*table, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	t := e.tables[gr]
	if t == nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("resource %s has no table", gr))
	}
	return t, nil
}

// Run feeds the cache, compacts the store and removes expired Events, until ctx ends or the store fails.
func (e *Engine) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var background sync.WaitGroup
	background.Go(func() { e.compact(ctx) })
	background.Go(func() { e.sweep(ctx) })
	err := e.cache.Run(ctx)
	stop()
	background.Wait()
	return err
}

// compact forgets, at each interval, what was replaced before the one before: in the store and in memory.
func (e *Engine) compact(ctx context.Context) {
	at := e.cache.Revision()
	for clock.Sleep(ctx, e.config.Clock, compactEvery) == nil {
		if err := e.config.Store.Compact(ctx, at); err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "compaction", "revision", uint64(at), "err", err)
		}
		e.cache.Trim(at)
		at = e.cache.Revision()
	}
}

// Reader returns what stages may look at.
func (e *Engine) Reader() stage.Reader { return reader{e} }

type reader struct{ engine *Engine }

func (r reader) Get(ctx context.Context, gr schema.GroupResource, key objects.Key) (objects.Object, error) {
	t, err := r.table(gr)
	if err != nil {
		return nil, err
	}
	i, err := r.engine.current(ctx, t, key)
	if err != nil {
		return nil, err
	}
	return i.Object()
}

func (r reader) List(ctx context.Context, gr schema.GroupResource, namespace string) ([]objects.Object, error) {
	t, err := r.table(gr)
	if err != nil {
		return nil, err
	}
	items, err := t.All(ctx, namespace)
	if err != nil {
		return nil, err
	}
	out := make([]objects.Object, 0, len(items))
	for _, i := range items {
		obj, err := i.Object()
		if err != nil {
			return nil, err
		}
		out = append(out, obj)
	}
	return out, nil
}

func (r reader) State(ctx context.Context, gr schema.GroupResource) (stage.State, error) {
	t, err := r.table(gr)
	if err != nil {
		return stage.State{}, nil //nolint:nilerr // what is not served does not change
	}
	changes, count, err := t.State(ctx)
	return stage.State{Changes: changes, Count: count}, err
}

func (r reader) table(gr schema.GroupResource) (*table, error) {
	r.engine.mu.RLock()
	defer r.engine.mu.RUnlock()
	if t := r.engine.tables[gr]; t != nil {
		return t, nil
	}
	return nil, apierrors.NewNotFound(gr, "")
}

// current returns the item of key as the feed shows it. When it shows none, what has been committed meanwhile is waited
// for: a NotFound is the truth.
func (e *Engine) current(ctx context.Context, t *table, key objects.Key) (*cache.Item, error) {
	for fresh := false; ; fresh = true {
		i, ok, err := t.Get(ctx, key)
		switch {
		case err != nil:
			return nil, toStatus(t.r.Names.GR(), key.Name, err)
		case ok:
			return i, nil
		case fresh:
			return nil, apierrors.NewNotFound(t.r.Names.GR(), key.Name)
		}
		if err := e.cache.Fresh(ctx); err != nil {
			return nil, toStatus(t.r.Names.GR(), key.Name, err)
		}
	}
}
