// Package definitions serves custom resources: it watches the CustomResourceDefinitions, accepts their names, adds and removes
// their rows, sets their conditions, and deletes the objects of deleted definitions.
//
// It is one loop for several controllers of Kubernetes (k8s.io/apiextensions-apiserver, pkg/controller: naming, establishing,
// nonstructuralschema, apiapproval, finalizer), so that a resource is served before its condition Established is true.
package definitions

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/custom"
)

// Resource is the resource of CustomResourceDefinitions.
var Resource = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// Config is the input of New.
type Config struct {
	Client  client.Client // the server's own, which also finds versions that are stored and not served
	Clock   clock.Clock
	Convert custom.Converter // calls conversion webhooks
	// Serve replaces the row that is served as gr by r; a nil r removes it. It returns false if gr is compiled in.
	Serve func(gr schema.GroupResource, r *objects.Resource) bool
}

// Registrar serves custom resources. Run is called after Load.
type Registrar struct {
	config  Config
	machine clock.Clock
	version string // resourceVersion of the definitions from which Run watches
	known   map[string]*apiextensionsv1.CustomResourceDefinition
	served  map[string]*apiextensionsv1.CustomResourceDefinition // by name, as their rows were made
	ending  map[types.UID]bool                                   // definitions whose objects are being deleted

	progress *progress

	mu          sync.Mutex
	terminating map[schema.GroupResource]bool
}

// New returns a registrar. Nothing is served before Load.
func New(cfg Config) *Registrar {
	return &Registrar{
		config: cfg, machine: clock.Machine(cfg.Clock), known: map[string]*apiextensionsv1.CustomResourceDefinition{},
		served: map[string]*apiextensionsv1.CustomResourceDefinition{}, ending: map[types.UID]bool{},
		progress: newProgress(), terminating: map[schema.GroupResource]bool{},
	}
}

// Load serves the stored definitions.
func (r *Registrar) Load(ctx context.Context) error {
	list, err := r.config.Client.List(ctx, client.Target{Resource: Resource}, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list definitions: %w", err)
	}
	r.version = list.ResourceVersion
	for _, obj := range list.Items {
		if crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition); ok {
			r.known[crd.Name] = crd
			r.serve(ctx, crd)
		}
	}
	return nil
}

// Run watches the definitions until ctx ends.
func (r *Registrar) Run(ctx context.Context) error {
	defer r.progress.end()
	ctx, work := clock.Begin(ctx, r.config.Clock, "definitions of custom resources")
	defer work.End()
	var background sync.WaitGroup
	defer background.Wait()
	for _, name := range slices.Sorted(maps.Keys(r.known)) {
		r.sync(ctx, &background, r.known[name])
	}
	for ctx.Err() == nil {
		opts := metav1.ListOptions{ResourceVersion: r.version, AllowWatchBookmarks: true}
		for ev, err := range r.config.Client.Watch(ctx, client.Target{Resource: Resource}, opts) {
			if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
				if err = r.resync(ctx, &background); err == nil {
					break
				}
			}
			if err != nil {
				return err
			}
			r.version = ev.Object.GetResourceVersion()
			if crd, ok := ev.Object.(*apiextensionsv1.CustomResourceDefinition); ok {
				turn, end := clock.TakeTurn(ctx, r.config.Clock, clock.Rank{Part: "definitions of custom resources", Key: crd.Name})
				r.observe(turn, &background, ev.Type, crd)
				end()
			}
		}
	}
	return nil
}

// resync lists all definitions after the watch has missed changes.
func (r *Registrar) resync(ctx context.Context, background *sync.WaitGroup) error {
	before := maps.Clone(r.known)
	clear(r.known)
	if err := r.Load(ctx); err != nil {
		return err
	}
	for name, crd := range before {
		if now := r.known[name]; now == nil || now.UID != crd.UID {
			r.gone(ctx, background, crd)
		}
	}
	for _, crd := range r.known {
		r.sync(ctx, background, crd)
	}
	return nil
}

// observe processes one event.
func (r *Registrar) observe(ctx context.Context, background *sync.WaitGroup, change watch.EventType, crd *apiextensionsv1.CustomResourceDefinition) {
	switch change {
	case watch.Added, watch.Modified:
		r.known[crd.Name] = crd
		r.sync(ctx, background, crd)
	case watch.Deleted:
		delete(r.known, crd.Name)
		r.gone(ctx, background, crd)
	}
}

// sync serves a definition and sets its conditions.
func (r *Registrar) sync(ctx context.Context, background *sync.WaitGroup, crd *apiextensionsv1.CustomResourceDefinition) {
	r.markTerminating(crd)
	next := crd.DeepCopy()
	r.decide(next)
	r.serve(ctx, next)
	if !equality.Semantic.DeepEqual(next.Status, crd.Status) {
		r.storeStatus(ctx, next)
		r.others(ctx, background, crd)
	}
	r.progress.processed(crd.UID, crd.Generation)
	if isTerminating(crd) && !r.ending[crd.UID] {
		r.ending[crd.UID] = true
		var work *clock.Work
		if clock.InTurns(r.config.Clock) {
			ctx, work = clock.Begin(ctx, r.config.Clock, "deletion of a definition")
		}
		background.Go(func() { r.finish(ctx, work, crd) })
	}
}

// others syncs the other definitions of a group, which may get the names that a definition has given up.
func (r *Registrar) others(ctx context.Context, background *sync.WaitGroup, crd *apiextensionsv1.CustomResourceDefinition) {
	for _, name := range slices.Sorted(maps.Keys(r.known)) {
		other := r.known[name]
		if name != crd.Name && other.Spec.Group == crd.Spec.Group && !equality.Semantic.DeepEqual(other.Spec.Names, other.Status.AcceptedNames) {
			r.sync(ctx, background, other)
		}
	}
}

// storeStatus writes a definition's status. After a conflict the next event leads to another sync.
func (r *Registrar) storeStatus(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) {
	r.known[crd.Name] = crd // later decisions depend on this one
	stored, err := r.config.Client.Update(ctx, target(crd).Sub("status"), crd.DeepCopy(), metav1.UpdateOptions{})
	switch {
	case err == nil:
		if now, ok := stored.(*apiextensionsv1.CustomResourceDefinition); ok {
			r.known[crd.Name] = now
		}
	case apierrors.IsNotFound(err), apierrors.IsConflict(err), ctx.Err() != nil:
	default:
		slog.WarnContext(ctx, "set the status of a definition", "name", crd.Name, "err", err)
	}
}

// serve serves a definition whose names are accepted, unless it is served already.
func (r *Registrar) serve(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) {
	if !conditionTrue(crd, apiextensionsv1.NamesAccepted) && !conditionTrue(crd, apiextensionsv1.Established) {
		return
	}
	if was := r.served[crd.Name]; was != nil && was.UID == crd.UID &&
		equality.Semantic.DeepEqual(was.Spec, crd.Spec) && equality.Semantic.DeepEqual(was.Status.AcceptedNames, crd.Status.AcceptedNames) {
		return
	}
	row, err := custom.Row(crd, r.config.Convert)
	if err != nil {
		slog.WarnContext(ctx, "serve a custom resource", "name", crd.Name, "err", err)
		return
	}
	if r.config.Serve(resourceOf(crd), &row) {
		r.served[crd.Name] = crd
	}
}

// gone stops serving a deleted definition.
func (r *Registrar) gone(ctx context.Context, background *sync.WaitGroup, crd *apiextensionsv1.CustomResourceDefinition) {
	if was := r.served[crd.Name]; was != nil && was.UID == crd.UID {
		delete(r.served, crd.Name)
		r.config.Serve(resourceOf(crd), nil)
	}
	delete(r.ending, crd.UID)
	r.progress.forget(crd.UID)
	r.mu.Lock()
	delete(r.terminating, resourceOf(crd))
	r.mu.Unlock()
	r.others(ctx, background, crd)
}

// resourceOf returns the resource of a definition, from the definition's name.
func resourceOf(crd *apiextensionsv1.CustomResourceDefinition) schema.GroupResource {
	return schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural}
}

func target(crd *apiextensionsv1.CustomResourceDefinition) client.Target {
	return client.Target{Resource: Resource, Name: crd.Name}
}
