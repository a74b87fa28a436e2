package history

import (
	"bytes"
	"context"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// orphans lists by namespace the revisions without a controlling owner.
var orphans = client.NewIndex(func(r *appsv1.ControllerRevision) []string {
	if metav1.GetControllerOfNoCopy(r) != nil {
		return nil
	}
	return []string{r.Namespace}
})

// Revisions reads the ControllerRevisions of a cluster from a cache and writes them. It is safe for concurrent use.
type Revisions struct {
	client client.Client
	cache  *client.Cache[*appsv1.ControllerRevision]
}

// NewRevisions returns the Revisions of a controller.
func NewRevisions(c client.Client, caches *client.Caches) Revisions {
	return Revisions{c, client.CacheOf[*appsv1.ControllerRevision](caches, client.ControllerRevisions)}
}

// Candidates returns the revisions that owner controls, and the orphans of its namespace, which it may adopt: see
// controller.Claim. They are in no order and must not be changed.
func (r Revisions) Candidates(owner objects.Object) []*appsv1.ControllerRevision {
	return append(r.cache.OwnedBy(owner.GetUID()), r.cache.ByIndex(orphans, owner.GetNamespace())...)
}

// Put adds a revision that a write returned to the cache.
func (r Revisions) Put(revision *appsv1.ControllerRevision) { r.cache.Put(revision) }

// Create creates a revision that New returned. If another revision with other data has its name, Create increments collisions
// and tries the next name. A revision with the same data is returned as it exists.
func (r Revisions) Create(ctx context.Context, owner objects.Object, revision *appsv1.ControllerRevision, collisions *int32) (*appsv1.ControllerRevision, error) {
	for {
		next := revision.DeepCopy()
		next.Name = name(owner, hashOf(revision.Data.Raw, collisions))
		t := at(next)
		out, err := r.client.Create(ctx, client.Target{Resource: t.Resource, Namespace: t.Namespace}, next, metav1.CreateOptions{})
		if err == nil {
			return r.put(out.(*appsv1.ControllerRevision)), nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
		existing, err := r.client.Get(ctx, t, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		if e := existing.(*appsv1.ControllerRevision); bytes.Equal(e.Data.Raw, revision.Data.Raw) {
			return e, nil
		}
		*collisions++
	}
}

// Renumber gives a revision another number.
func (r Revisions) Renumber(ctx context.Context, revision *appsv1.ControllerRevision, number int64) (*appsv1.ControllerRevision, error) {
	if revision.Revision == number {
		return revision, nil
	}
	next := revision.DeepCopy()
	next.Revision = number
	return r.Update(ctx, next)
}

// Update updates a changed copy of a revision.
func (r Revisions) Update(ctx context.Context, revision *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	out, err := r.client.Update(ctx, at(revision), revision, metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	return r.put(out.(*appsv1.ControllerRevision)), nil
}

// Delete deletes revisions. Those that no longer exist are no errors.
func (r Revisions) Delete(ctx context.Context, revisions ...*appsv1.ControllerRevision) error {
	var errs []error
	for _, rev := range revisions {
		opts := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(rev.UID))}
		_, err := r.client.Delete(ctx, at(rev), opts)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // Conflict: another one of that name
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (r Revisions) put(revision *appsv1.ControllerRevision) *appsv1.ControllerRevision {
	r.cache.Put(revision)
	return revision
}

func at(r *appsv1.ControllerRevision) client.Target {
	return client.In(client.ControllerRevisions, objects.Key{Namespace: r.Namespace, Name: r.Name})
}
