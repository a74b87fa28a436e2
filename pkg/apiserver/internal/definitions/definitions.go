// Package definitions owns how custom resources come to be served and cease to be: it follows the
// CustomResourceDefinitions, decides which of them get the names that they ask for, has their rows served, says so in
// their conditions, and removes the objects of those that are deleted.
//
// It does what Kubernetes has several controllers for (k8s.io/apiextensions-apiserver, pkg/controller: naming,
// establishing, nonstructuralschema, apiapproval, finalizer), in one place: a definition is served before its condition
// Established says so.
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

// Resource is the resource that describes others.
var Resource = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// Config is what a Registrar needs.
type Config struct {
	Client  client.Client // as the server itself; it also knows versions that are stored and not served
	Clock   clock.Clock
	Convert custom.Converter // for those that convert by a webhook
	// Serve serves a row under a name, nil for none any longer. It returns false when the name is compiled in.
	Serve func(gr schema.GroupResource, r *objects.Resource) bool
}

// Registrar has custom resources served. Load and Run are called one after the other.
type Registrar struct {
	config  Config
	version string // of the definitions, up to which Run need not look
	known   map[string]*apiextensionsv1.CustomResourceDefinition
	served  map[string]*apiextensionsv1.CustomResourceDefinition // by name, as their rows were made
	ending  map[types.UID]bool                                   // whose objects are being removed

	progress *progress

	mu          sync.Mutex
	terminating map[schema.GroupResource]bool
}

// New returns a registrar that has served nothing yet.
func New(cfg Config) *Registrar {
	return &Registrar{
		config: cfg, known: map[string]*apiextensionsv1.CustomResourceDefinition{},
		served: map[string]*apiextensionsv1.CustomResourceDefinition{}, ending: map[types.UID]bool{},
		progress: newProgress(), terminating: map[schema.GroupResource]bool{},
	}
}

// Load serves what was served when the server stopped.
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

// Run follows the definitions until ctx ends.
func (r *Registrar) Run(ctx context.Context) error {
	defer r.progress.end()
	var background sync.WaitGroup
	defer background.Wait()
	for _, name := range slices.Sorted(maps.Keys(r.known)) {
		r.settle(ctx, &background, r.known[name])
	}
	for ctx.Err() == nil {
		opts := metav1.ListOptions{ResourceVersion: r.version, AllowWatchBookmarks: true}
		for ev, err := range r.config.Client.Watch(ctx, client.Target{Resource: Resource}, opts) {
			if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
				if err = r.again(ctx, &background); err == nil {
					break
				}
			}
			if err != nil {
				return err
			}
			r.version = ev.Object.GetResourceVersion()
			if crd, ok := ev.Object.(*apiextensionsv1.CustomResourceDefinition); ok {
				r.see(ctx, &background, ev.Type, crd)
			}
		}
	}
	return nil
}

// again looks at all definitions, after changes have been missed.
func (r *Registrar) again(ctx context.Context, background *sync.WaitGroup) error {
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
		r.settle(ctx, background, crd)
	}
	return nil
}

// see takes note of one change.
func (r *Registrar) see(ctx context.Context, background *sync.WaitGroup, change watch.EventType, crd *apiextensionsv1.CustomResourceDefinition) {
	switch change {
	case watch.Added, watch.Modified:
		r.known[crd.Name] = crd
		r.settle(ctx, background, crd)
	case watch.Deleted:
		delete(r.known, crd.Name)
		r.gone(ctx, background, crd)
	}
}

// settle brings what is served, and the conditions, into line with a definition.
func (r *Registrar) settle(ctx context.Context, background *sync.WaitGroup, crd *apiextensionsv1.CustomResourceDefinition) {
	r.markTerminating(crd)
	next := crd.DeepCopy()
	r.decide(next)
	r.serve(ctx, next)
	if !equality.Semantic.DeepEqual(next.Status, crd.Status) {
		r.note(ctx, next)
		r.others(ctx, background, crd)
	}
	r.progress.acted(crd.UID, crd.Generation)
	if leaving(crd) && !r.ending[crd.UID] {
		r.ending[crd.UID] = true
		background.Go(func() { r.finish(ctx, crd) })
	}
}

// others looks again at the rest of a group, which may want the names that a definition has given up.
func (r *Registrar) others(ctx context.Context, background *sync.WaitGroup, crd *apiextensionsv1.CustomResourceDefinition) {
	for _, name := range slices.Sorted(maps.Keys(r.known)) {
		other := r.known[name]
		if name != crd.Name && other.Spec.Group == crd.Spec.Group && !equality.Semantic.DeepEqual(other.Spec.Names, other.Status.AcceptedNames) {
			r.settle(ctx, background, other)
		}
	}
}

// note stores a definition's status. Whoever was faster is heard of by the next event.
func (r *Registrar) note(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) {
	r.known[crd.Name] = crd // what is decided holds from here on
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

// serve has a definition's row served when its names are accepted, unless it is served already.
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

// gone ends the serving of a definition that is no more.
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

// resourceOf is what a definition describes: its plural never changes, and is in its name.
func resourceOf(crd *apiextensionsv1.CustomResourceDefinition) schema.GroupResource {
	return schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural}
}

func target(crd *apiextensionsv1.CustomResourceDefinition) client.Target {
	return client.Target{Resource: Resource, Name: crd.Name}
}
