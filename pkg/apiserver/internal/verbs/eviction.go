package verbs

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	optionsvalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

var budgets = schema.GroupResource{Group: "policy", Resource: "poddisruptionbudgets"}

const (
	// maxDisrupted bounds the evictions that the disruption controller has not observed yet.
	maxDisrupted = 2000
	// evictionAttempts bounds the retries of an eviction whose pod changes meanwhile.
	evictionAttempts = 20
	// serverManager is the field manager of the server's own writes.
	serverManager = "kube-apiserver"
)

// evict deletes a pod on behalf of an Eviction (pods/eviction), if its disruption budget allows.
func evict(ctx context.Context, w *write, obj runtime.Object) (Result, error) {
	ev, ok := obj.(*policyv1.Eviction)
	if !ok {
		return Result{}, wrongType(obj)
	}
	if ev.Name != w.req.Name {
		return Result{}, apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	if o := ev.DeleteOptions; o != nil && o.IgnoreStoreReadErrorWithClusterBreakingPotential != nil && *o.IgnoreStoreReadErrorWithClusterBreakingPotential {
		return Result{}, apierrors.NewInvalid(schema.GroupKind{Group: policyv1.GroupName, Kind: "Eviction"}, ev.Name, field.ErrorList{field.Invalid(
			field.NewPath("deleteOptions", "ignoreStoreReadErrorWithClusterBreakingPotential"), true, "can not be set for pod eviction, try after removing the option")})
	}
	w.sub = ev
	if err := w.validate(ctx, w.admission(stage.Create, ev, nil)); err != nil {
		return Result{}, err
	}
	opts := ev.DeleteOptions.DeepCopy()
	if opts == nil {
		opts = &metav1.DeleteOptions{}
	}
	if errs := optionsvalidation.ValidateDeleteOptions(opts); len(errs) > 0 {
		return Result{}, invalidOptions("DeleteOptions", errs)
	}
	w.dry = w.dry || len(opts.DryRun) > 0
	for attempt := 1; ; attempt++ {
		res, err := w.evictOnce(ctx, opts)
		if !apierrors.IsConflict(err) || hasVersionPrecondition(opts) || attempt == evictionAttempts || ctx.Err() != nil {
			return res, err
		}
		if err := w.Engine.cache.WaitUntilFresh(ctx); err != nil {
			return Result{}, w.status(err)
		}
	}
}

// hasVersionPrecondition reports whether a delete has a precondition on the resourceVersion.
func hasVersionPrecondition(opts *metav1.DeleteOptions) bool {
	return opts.Preconditions != nil && opts.Preconditions.ResourceVersion != nil
}

func (w *write) evictOnce(ctx context.Context, opts *metav1.DeleteOptions) (Result, error) {
	item, err := w.current(ctx, w.table, w.req.key())
	if err != nil {
		return Result{}, err
	}
	obj, err := item.Object()
	if err != nil {
		return Result{}, err
	}
	pod := obj.(*corev1.Pod)
	terminal := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil
	if terminal || pod.Status.Phase == corev1.PodPending {
		return w.deletePod(ctx, pod, opts, !terminal)
	}
	pdbs, err := w.budgetsOf(ctx, pod)
	switch {
	case err != nil:
		return Result{}, err
	case len(pdbs) == 0:
		return w.deletePod(ctx, pod, opts, false)
	case len(pdbs) > 1:
		return Result{Created: true, Other: &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
			Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.", Code: 500}}, nil
	}
	budget := pdbs[0]
	if unhealthy(pod, budget) {
		res, err := w.deletePod(ctx, pod, opts, true)
		if apierrors.IsConflict(err) && !hasVersionPrecondition(opts) {
			return Result{}, budgetInProcess(budget.Name) // it may have become ready
		}
		return res, err
	}
	if err := w.recordDisruption(ctx, budget.Name, pod.Name); err != nil {
		return Result{}, err
	}
	return w.deletePod(ctx, pod, opts, false)
}

// deletePod sets the pod's condition DisruptionTarget and deletes the pod; with exact only if it has not changed.
func (w *write) deletePod(ctx context.Context, pod *corev1.Pod, opts *metav1.DeleteOptions, exact bool) (Result, error) {
	opts = opts.DeepCopy()
	if exact && !hasVersionPrecondition(opts) {
		if opts.Preconditions == nil {
			opts.Preconditions = &metav1.Preconditions{}
		}
		opts.Preconditions.ResourceVersion = &pod.ResourceVersion
	}
	if !w.dry {
		if err := w.markEvicted(ctx, opts); err != nil {
			return Result{}, err
		}
	}
	if _, err := w.delete(ctx, opts); err != nil {
		return Result{}, err
	}
	return statusSuccess(), nil
}

// markEvicted sets the condition DisruptionTarget of the pod. A precondition of the deletion on the version then has the new one.
func (w *write) markEvicted(ctx context.Context, opts *metav1.DeleteOptions) error {
	req := *w.req
	req.Subresource = "status"
	p := &write{Engine: w.Engine, table: w.table, req: &req, began: w.began}
	edit := func(obj objects.Object) error {
		if err := w.checkPreconditions(opts.Preconditions, obj); err != nil {
			return err
		}
		setPodCondition(obj.(*corev1.Pod), corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
			Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting", LastTransitionTime: metav1.NewTime(w.config.Clock.Now().Truncate(time.Second))})
		return nil
	}
	marked, err := p.editStored(ctx, edit)
	if apierrors.IsConflict(err) { // the cache may be older than the version that the client knows
		if err := w.Engine.cache.WaitUntilFresh(ctx); err != nil {
			return w.status(err)
		}
		marked, err = p.editStored(ctx, edit)
	}
	if err != nil || !hasVersionPrecondition(opts) {
		return err
	}
	opts.Preconditions.ResourceVersion = new(strconv.FormatUint(uint64(marked.Revision), 10))
	return nil
}

// setPodCondition adds or replaces a condition. One with the same status keeps its transition time.
func setPodCondition(p *corev1.Pod, c corev1.PodCondition) {
	i := slices.IndexFunc(p.Status.Conditions, func(old corev1.PodCondition) bool { return old.Type == c.Type })
	if i < 0 {
		p.Status.Conditions = append(p.Status.Conditions, c)
		return
	}
	if old := p.Status.Conditions[i]; old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	p.Status.Conditions[i] = c
}

// budgetsOf returns the disruption budgets that select the pod. An empty selector selects all pods.
func (w *write) budgetsOf(ctx context.Context, pod *corev1.Pod) ([]*policyv1.PodDisruptionBudget, error) {
	counters, err := w.Reader().Counters(ctx, budgets)
	if err != nil || counters.Count == 0 {
		return nil, err
	}
	list, err := w.Reader().List(ctx, budgets, pod.Namespace)
	if err != nil {
		return nil, err
	}
	var out []*policyv1.PodDisruptionBudget
	for _, obj := range list {
		b := obj.(*policyv1.PodDisruptionBudget)
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) {
			out = append(out, b)
		}
	}
	return out, nil
}

// unhealthy reports whether a pod may be evicted without a disruption, because the budget does not count it as healthy.
func unhealthy(pod *corev1.Pod, b *policyv1.PodDisruptionBudget) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return false
		}
	}
	if p := b.Spec.UnhealthyPodEvictionPolicy; p != nil && *p == policyv1.AlwaysAllow {
		return true
	}
	return b.Status.DesiredHealthy > 0 && b.Status.CurrentHealthy >= b.Status.DesiredHealthy
}

// recordDisruption takes one allowed disruption from a budget and records the pod in disruptedPods, until the disruption
// controller observes the deletion.
func (w *write) recordDisruption(ctx context.Context, budget, pod string) error {
	t, err := w.tableOf(budgets)
	if err != nil {
		return err
	}
	req := *w.req
	req.Resource, req.Name, req.Subresource = t.r, budget, "status"
	req.Version, req.Manager = nil, serverManager // the evicting client does not write the budget
	b := &write{Engine: w.Engine, table: t, req: &req, dry: w.dry, began: w.began}
	_, err = b.editStored(ctx, func(obj objects.Object) error {
		old := obj.DeepCopyObject().(objects.Object)
		if err := w.takeDisruption(obj.(*policyv1.PodDisruptionBudget), pod); err != nil {
			return err
		}
		return b.track(old, obj)
	})
	return err
}

func (w *write) takeDisruption(b *policyv1.PodDisruptionBudget, pod string) error {
	s := &b.Status
	forbidden := schema.GroupResource{Group: "policy", Resource: "poddisruptionbudget"}
	switch {
	case s.ObservedGeneration < b.Generation:
		return budgetInProcess(b.Name)
	case s.DisruptionsAllowed < 0:
		return apierrors.NewForbidden(forbidden, b.Name, fmt.Errorf("pdb disruptions allowed is negative"))
	case len(s.DisruptedPods) > maxDisrupted:
		return apierrors.NewForbidden(forbidden, b.Name, fmt.Errorf("DisruptedPods map too big - too many evictions not confirmed by PDB controller"))
	case s.DisruptionsAllowed == 0:
		return budgetViolated(0, refusal(b))
	}
	now := metav1.NewTime(w.config.Clock.Now())
	s.DisruptionsAllowed--
	if s.DisruptionsAllowed == 0 {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse,
			Reason: policyv1.InsufficientPodsReason, ObservedGeneration: s.ObservedGeneration, LastTransitionTime: now})
	}
	if s.DisruptedPods == nil {
		s.DisruptedPods = map[string]metav1.Time{}
	}
	s.DisruptedPods[pod] = now
	return nil
}

// refusal says why a budget allows no disruption. The counts of a budget whose sync has failed are not current.
func refusal(b *policyv1.PodDisruptionBudget) string {
	s := &b.Status
	c := meta.FindStatusCondition(s.Conditions, policyv1.DisruptionAllowedCondition)
	explained := c != nil && c.Status == metav1.ConditionFalse && c.Message != ""
	switch {
	case explained && c.Reason == policyv1.SyncFailedReason:
		return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently because it failed sync: %s", b.Name, c.Message)
	case s.CurrentHealthy <= s.DesiredHealthy:
		return fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", b.Name, s.DesiredHealthy, s.CurrentHealthy)
	case explained:
		return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently (%s): %s", b.Name, c.Reason, c.Message)
	}
	return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently", b.Name)
}

func budgetInProcess(budget string) error {
	return budgetViolated(10, fmt.Sprintf("The disruption budget %s is still being processed by the server.", budget))
}

// budgetViolated returns the error of an eviction that a budget does not allow. retry is in seconds.
func budgetViolated(retry int, cause string) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", retry)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: cause})
	return err
}
