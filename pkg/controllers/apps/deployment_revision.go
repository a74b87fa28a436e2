package apps

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/dump"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// Annotations with revisions: a deployment has the revision of its current template, a set its newest revision and the
// history of earlier ones.
const (
	revisionAnnotation = "deployment.kubernetes.io/revision"
	historyAnnotation  = "deployment.kubernetes.io/revision-history"
	maxHistory         = 2000 // bytes of the history
)

// notCopied lists the annotations of a deployment that its sets don't get.
var notCopied = map[string]bool{
	corev1.LastAppliedConfigAnnotation: true, revisionAnnotation: true, historyAnnotation: true,
	desiredAnnotation: true, maxAnnotation: true, appsv1.DeprecatedRollbackTo: true,
}

// sameTemplate reports whether two templates are equal apart from the label pod-template-hash.
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	without := func(t *corev1.PodTemplateSpec) corev1.PodTemplateSpec {
		c := *t
		c.Labels = maps.Clone(t.Labels)
		delete(c.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
		return c
	}
	return equality.Semantic.DeepEqual(without(a), without(b))
}

// templateHash returns the hash that is part of the name of a template's set. collisions changes it when a set of that name
// exists already.
func templateHash(t *corev1.PodTemplateSpec, collisions *int32) string {
	h := fnv.New32a()
	fmt.Fprintf(h, "%v", dump.ForHash(*t)) // writing to a hash does not fail
	if collisions != nil {
		var b [8]byte
		binary.LittleEndian.PutUint32(b[:], uint32(*collisions))
		h.Write(b[:])
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}

// revision returns the revision of a set, 0 if it has none.
func revision(s *appsv1.ReplicaSet) int64 {
	n, err := strconv.ParseInt(s.Annotations[revisionAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (ro *rollout) nextRevision() int64 {
	var last int64
	for _, s := range ro.old {
		last = max(last, revision(s))
	}
	return last + 1
}

// annotate copies the deployment's annotations to s and gives s the revision next if it has a lower one.
func (ro *rollout) annotate(s *appsv1.ReplicaSet, next int64) (changed bool) {
	before := s.Annotations
	s.Annotations = maps.Clone(before)
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	for k, v := range ro.deployment.Annotations {
		if !notCopied[k] {
			s.Annotations[k] = v
		}
	}
	was, numbered := before[revisionAnnotation]
	if n, err := strconv.ParseInt(was, 10, 64); err != nil && was != "" {
		return !maps.Equal(before, s.Annotations) // a revision that is not a number stays
	} else if n < next {
		s.Annotations[revisionAnnotation] = strconv.FormatInt(next, 10)
		if numbered {
			s.Annotations[historyAnnotation] = addToHistory(s.Annotations[historyAnnotation], was)
		}
	}
	return !maps.Equal(before, s.Annotations)
}

// addToHistory appends a revision, and removes the oldest ones while the history is too long.
func addToHistory(history, was string) string {
	if history == "" {
		return was
	}
	all := append(strings.Split(history, ","), was)
	for len(all) > 1 && len(strings.Join(all, ",")) > maxHistory {
		all = all[1:]
	}
	return strings.Join(all, ",")
}

// syncRevision updates the annotations of the current set and the revision of the deployment. With create it creates the set
// if it does not exist. changed means that the set was updated, which leads to another sync.
func (r *deployment) syncRevision(ctx context.Context, ro *rollout, create bool) (changed bool, err error) {
	d := ro.deployment
	if ro.current == nil {
		if !create {
			return false, nil
		}
		return false, r.createSet(ctx, ro)
	}
	next := ro.current.DeepCopy()
	if ro.annotate(next, ro.nextRevision()) || next.Spec.MinReadySeconds != d.Spec.MinReadySeconds {
		next.Spec.MinReadySeconds = d.Spec.MinReadySeconds
		t := client.In(client.ReplicaSets, objects.Key{Namespace: next.Namespace, Name: next.Name})
		out, err := r.client.Update(ctx, t, next, metav1.UpdateOptions{})
		if err != nil {
			return false, err
		}
		r.sets.Put(out.(*appsv1.ReplicaSet))
		return true, nil
	}
	ro.setRevision(ro.current)
	if ro.hasDeadline() && ro.progressing() == nil {
		ro.setCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, "FoundNewReplicaSet",
			fmt.Sprintf("Found new replica set %q", ro.current.Name))
	}
	return false, nil
}

func (ro *rollout) setRevision(s *appsv1.ReplicaSet) {
	d := ro.deployment
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	d.Annotations[revisionAnnotation] = s.Annotations[revisionAnnotation]
}

// newSet returns the set to create for the current template.
func (ro *rollout) newSet() *appsv1.ReplicaSet {
	d := ro.deployment
	hash := templateHash(&d.Spec.Template, d.Status.CollisionCount)
	template := *d.Spec.Template.DeepCopy()
	if template.Labels == nil {
		template.Labels = map[string]string{}
	}
	template.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	selector := d.Spec.Selector.DeepCopy()
	if selector.MatchLabels == nil {
		selector.MatchLabels = map[string]string{}
	}
	selector.MatchLabels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	size := ro.newSize(0)
	s := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: d.Name + "-" + hash, Namespace: d.Namespace, Labels: maps.Clone(template.Labels),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, deploymentKind)},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &size, MinReadySeconds: d.Spec.MinReadySeconds, Selector: selector, Template: template,
		},
	}
	ro.annotate(s, ro.nextRevision())
	setSizeAnnotations(s, ro.replicas(), ro.replicas()+ro.maxSurge())
	return s
}

func (r *deployment) createSet(ctx context.Context, ro *rollout) error {
	d, s := ro.deployment, ro.newSet()
	size := *s.Spec.Replicas
	name := s.Name
	out, err := r.client.Create(ctx, client.Target{Resource: client.ReplicaSets, Namespace: d.Namespace}, s, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return r.handleCollision(ctx, ro, name, err)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return err
	case err != nil:
		msg := fmt.Sprintf("Failed to create new replica set %q: %v", name, err)
		if ro.hasDeadline() {
			ro.setCondition(appsv1.DeploymentProgressing, corev1.ConditionFalse, "ReplicaSetCreateError", msg)
		}
		r.events.Event(ctx, d, corev1.EventTypeWarning, "ReplicaSetCreateError", msg)
		return err
	}
	ro.current = out.(*appsv1.ReplicaSet)
	r.sets.Put(ro.current)
	if size > 0 {
		r.recordScaling(ctx, d, name, 0, size)
	}
	ro.setRevision(ro.current)
	if ro.hasDeadline() {
		ro.setCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, "NewReplicaSetCreated",
			fmt.Sprintf("Created new replica set %q", name))
	}
	return nil
}

// handleCollision handles an existing set with the name of the new one. If the deployment controls it and the template is the same,
// the cache was out of date. Otherwise the next sync uses another hash.
func (r *deployment) handleCollision(ctx context.Context, ro *rollout, name string, collision error) error {
	d := ro.deployment
	live, err := r.client.Get(ctx, client.In(client.ReplicaSets, objects.Key{Namespace: d.Namespace, Name: name}), metav1.GetOptions{})
	if err != nil {
		return err
	}
	s := live.(*appsv1.ReplicaSet)
	if metav1.IsControlledBy(s, d) && sameTemplate(&s.Spec.Template, &d.Spec.Template) {
		ro.current = s
		r.sets.Put(s)
		ro.setRevision(s)
		return nil
	}
	count := int32(1)
	if d.Status.CollisionCount != nil {
		count = *d.Status.CollisionCount + 1
	}
	d.Status.CollisionCount = &count
	return collision
}

// cleanUp deletes the oldest sets without pods beyond the revision history limit.
func (r *deployment) cleanUp(ctx context.Context, ro *rollout) error {
	var errs []error
	for _, s := range ro.setsToDelete() {
		t := client.In(client.ReplicaSets, objects.Key{Namespace: s.Namespace, Name: s.Name})
		_, err := r.client.Delete(ctx, t, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(s.UID))})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// setsToDelete returns the oldest sets beyond the revision history limit, without those that have or will have pods.
func (ro *rollout) setsToDelete() []*appsv1.ReplicaSet {
	limit := ro.deployment.Spec.RevisionHistoryLimit
	if limit == nil || *limit == maxInt32 {
		return nil
	}
	old := slices.DeleteFunc(slices.Clone(ro.old), func(s *appsv1.ReplicaSet) bool { return s.DeletionTimestamp != nil })
	excess := len(old) - int(*limit)
	if excess <= 0 {
		return nil
	}
	slices.SortStableFunc(old, func(a, b *appsv1.ReplicaSet) int {
		return cmp.Or(cmp.Compare(revision(a), revision(b)), oldestFirst(a, b))
	})
	return slices.DeleteFunc(old[:excess], func(s *appsv1.ReplicaSet) bool {
		return s.Status.Replicas != 0 || *s.Spec.Replicas != 0 || s.Generation > s.Status.ObservedGeneration
	})
}
