package apps

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/apps/internal/history"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	rows "github.com/minikctl/minikctl/pkg/objects/apps"
)

// setHistory holds the revisions of a StatefulSet.
type setHistory struct {
	sorted          []*appsv1.ControllerRevision // the oldest first, as before this sync
	current, update *appsv1.ControllerRevision
	collisions      int32
}

// claimRevisions returns the revisions that the set controls and that its selector matches, after adoption of orphans.
func (r *statefulSet) claimRevisions(ctx context.Context, set *appsv1.StatefulSet, selector labels.Selector) ([]*appsv1.ControllerRevision, error) {
	c := &controller.Claimer{
		Client: r.client, Resource: client.ControllerRevisions, Owner: set, Kind: statefulSetKind, Owners: client.StatefulSets,
	}
	candidates := slices.DeleteFunc(r.revisions.Candidates(set), func(rev *appsv1.ControllerRevision) bool {
		return !selector.Matches(labels.Set(rev.Labels)) // stays with the set, unused
	})
	return controller.Claim(ctx, c, selector, candidates, r.revisions.Put)
}

// syncRevisions makes the revision of the set's template the newest one.
func (r *statefulSet) syncRevisions(ctx context.Context, set *appsv1.StatefulSet, revisions []*appsv1.ControllerRevision) (*setHistory, error) {
	history.Sort(revisions)
	h := &setHistory{sorted: revisions}
	if n := set.Status.CollisionCount; n != nil {
		h.collisions = *n
	}
	proposed, err := history.New(set, statefulSetKind, &set.Spec.Template, history.Next(revisions), &h.collisions)
	if err != nil {
		return nil, err
	}
	existing, newest := sameRevision(set, proposed, revisions)
	switch {
	case newest:
		h.update = existing
	case existing != nil: // a rollback
		h.update, err = r.revisions.Renumber(ctx, existing, proposed.Revision)
	default:
		h.update, err = r.revisions.Create(ctx, set, proposed, &h.collisions)
	}
	if err != nil {
		return nil, err
	}
	h.current = h.update
	for _, rev := range revisions {
		if rev.Name == set.Status.CurrentRevision {
			h.current = rev
		}
	}
	return h, nil
}

// sameRevision returns the newest of the sorted revisions with the data of the proposed one, nil if there is none, and whether it is
// the newest of all. The newest one is also the same if the set has the proposed data once its template is restored and gets
// defaults: an earlier version of the API may have stored fewer fields.
func sameRevision(set *appsv1.StatefulSet, proposed *appsv1.ControllerRevision, sorted []*appsv1.ControllerRevision) (same *appsv1.ControllerRevision, newest bool) {
	last := len(sorted) - 1
	for i := last; i >= 0; i-- {
		if history.Equal(sorted[i], proposed) {
			return sorted[i], i == last
		}
	}
	if last < 0 {
		return nil, false
	}
	restored, err := history.Restore(set, sorted[last])
	if err != nil {
		return nil, false // not a patch of a StatefulSet
	}
	rows.StatefulSets.Default(restored)
	again, err := history.New(restored, statefulSetKind, &restored.Spec.Template, 0, nil)
	if err != nil || !history.Equal(again, proposed) {
		return nil, false
	}
	return sorted[last], true
}

// cleanUp deletes the oldest revisions beyond the limit, without the current, the update and the pods' revisions.
func (r *statefulSet) cleanUp(ctx context.Context, set *appsv1.StatefulSet, h *setHistory, pods []*corev1.Pod) error {
	if set.Spec.RevisionHistoryLimit == nil {
		return nil
	}
	live := map[string]bool{h.current.Name: true, h.update.Name: true}
	for _, p := range pods {
		live[p.Labels[appsv1.StatefulSetRevisionLabel]] = true
	}
	isLive := func(rev *appsv1.ControllerRevision) bool { return live[rev.Name] }
	return r.revisions.Delete(ctx, history.Excess(h.sorted, isLive, *set.Spec.RevisionHistoryLimit)...)
}
