package verbs

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
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

// compactEvery is the interval of compactions. Each compacts to the revision that was the newest at the previous one.
const compactEvery = 5 * time.Minute

// Engine is the API over a store. It serves requests once Run has started.
type Engine struct {
	config  Config
	machine clock.Clock
	cache   *cache.Cache
	stages  stage.Stages

	mu     sync.RWMutex
	tables map[schema.GroupResource]*table
	byGVR  map[schema.GroupVersionResource]*VersionedResource
}

// VersionedResource is a resource in one of its served versions.
type VersionedResource struct {
	Resource *objects.Resource
	Version  *objects.VersionOf
	Stored   bool // the version is the stored one
}

// table holds the engine's data of one resource.
type table struct {
	*cache.Table
	r           *objects.Resource
	tracker     *track.Tracker // only of this resource, so that it is dropped together with the resource
	hooks       []stage.Hook
	hooksMu     sync.Mutex // held while the hooks are loaded
	hooksLoaded bool       // guarded by hooksMu
	emptyFields func() *emptyFields
}

var _ API = (*Engine)(nil)

// New returns an engine over cfg.Store.
func New(cfg Config) (*Engine, error) {
	c, err := cache.New(context.Background(), cfg.Store, clock.Machine(cfg.Clock)) //nolint:forbidigo // a start is not cancelled
	if err != nil {
		return nil, err
	}
	e := &Engine{
		config: cfg, machine: clock.Machine(cfg.Clock), cache: c,
		tables: map[schema.GroupResource]*table{}, byGVR: map[schema.GroupVersionResource]*VersionedResource{},
	}
	for i := range cfg.Resources {
		e.add(&cfg.Resources[i])
	}
	if cfg.Stages != nil {
		e.stages = cfg.Stages(e.Reader())
	}
	return e, nil
}

// Replace replaces the served resource old by r. A nil old adds r, a nil r removes old. The stored objects of old become
// objects of r.
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
		delete(e.byGVR, schema.GroupVersionResource{Group: v.Group, Version: v.Version, Resource: r.Names.Plural})
	}
}

func (e *Engine) add(r *objects.Resource) {
	gr := r.Names.GR()
	t := &table{
		Table: e.cache.Add(r), r: r, tracker: track.New(e.config.Clock), emptyFields: sync.OnceValue(func() *emptyFields { return emptyFieldsOf(r) }),
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
		e.byGVR[gvr] = &VersionedResource{Resource: r, Version: v, Stored: v.To == nil}
	}
}

// Lookup returns the resource that is served as gvr; nil if there is none.
func (e *Engine) Lookup(gvr schema.GroupVersionResource) *VersionedResource {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.byGVR[gvr]
}

func (e *Engine) table(r *objects.Resource) (*table, error) { return e.tableOf(r.Names.GR()) }

// tableOf returns a resource's table. Without one, the definition of the resource was deleted since the request was routed.
func (e *Engine) tableOf(gr schema.GroupResource) (*table, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	t := e.tables[gr]
	if t == nil {
		return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0, false)
	}
	return t, nil
}

// Run feeds the cache, compacts the store and removes expired Events, until ctx ends or the store fails.
func (e *Engine) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var background sync.WaitGroup
	background.Go(func() { e.compact(ctx) })
	background.Go(func() { e.expireEvents(ctx) })
	err := e.cache.Run(ctx)
	stop()
	background.Wait()
	return err
}

// compact compacts the store and the cache at each interval, to the revision of the interval before.
func (e *Engine) compact(ctx context.Context) {
	at := e.cache.Revision()
	for clock.Sleep(ctx, e.machine, compactEvery) == nil {
		if err := e.config.Store.Compact(ctx, at); err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "compaction", "revision", uint64(at), "err", err)
		}
		e.cache.Trim(at)
		at = e.cache.Revision()
	}
}

// Release frees memory that only a busy server needs.
func (e *Engine) Release() { e.cache.Release() }

// Reader returns the reader that stages use.
func (e *Engine) Reader() stage.Reader { return reader{e} }

// Count returns the number of a resource's objects, 0 before they have been read.
func (e *Engine) Count(gr schema.GroupResource) int {
	e.mu.RLock()
	t := e.tables[gr]
	e.mu.RUnlock()
	if t == nil {
		return 0
	}
	return t.Count()
}

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

func (r reader) Counters(ctx context.Context, gr schema.GroupResource) (stage.Counters, error) {
	t, err := r.table(gr)
	if err != nil {
		return stage.Counters{}, nil //nolint:nilerr // a resource that is not served does not change
	}
	changes, count, err := t.State(ctx)
	return stage.Counters{Changes: changes, Count: count}, err
}

func (r reader) table(gr schema.GroupResource) (*table, error) {
	r.engine.mu.RLock()
	defer r.engine.mu.RUnlock()
	if t := r.engine.tables[gr]; t != nil {
		return t, nil
	}
	return nil, apierrors.NewNotFound(gr, "")
}

// current returns the item of key from the cache. When the cache has none, or a value that cannot be decoded, current waits until
// the cache is up to date with the store and looks again, so that a NotFound is correct.
func (e *Engine) current(ctx context.Context, t *table, key objects.Key) (*cache.Item, error) {
	for fresh := false; ; fresh = true {
		i, ok, err := t.Get(ctx, key)
		var corrupt *cache.Corrupt
		switch {
		case err != nil && (fresh || !errors.As(err, &corrupt)):
			return nil, toStatus(t.r.Names.GR(), key.Name, err)
		case ok:
			return i, nil
		case fresh:
			return nil, apierrors.NewNotFound(t.r.Names.GR(), key.Name)
		}
		if err := e.cache.WaitUntilFresh(ctx); err != nil {
			return nil, toStatus(t.r.Names.GR(), key.Name, err)
		}
	}
}
