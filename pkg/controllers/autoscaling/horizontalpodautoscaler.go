// Package autoscaling holds the controller of HorizontalPodAutoscalers.
//
// Each sync reads the scale of the target, proposes a number of replicas for each metric (metrics.go, from the values of source.go
// with the arithmetic of replicas.go and shared.go), takes the greatest, bounds it by what was recommended and done before
// (limits.go), and writes the scale and the status.
package autoscaling

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// syncPeriod is the time between two syncs of an autoscaler, and from its creation to the first.
const syncPeriod = 15 * time.Second

// workers is the number of autoscalers that are synced at the same time. A sync waits for metrics of other servers.
const workers = 5

// autoscalers is the resource of HorizontalPodAutoscalers.
var autoscalers = autoscalingv2.SchemeGroupVersion.WithResource("horizontalpodautoscalers")

type autoscaler struct {
	client client.Client
	events *client.Recorder
	clock  clock.Clock
	hpas   *client.Cache[*autoscalingv2.HorizontalPodAutoscaler]
	pods   *client.Cache[*corev1.Pod]
	server func() (*server, error)

	mu     sync.Mutex
	states map[objects.Key]*state
}

// state is what the controller keeps of an autoscaler from sync to sync. Only its sync uses it, except for selector.
type state struct {
	uid      types.UID
	due      time.Time // of the next sync
	history  history
	selector labels.Selector // of the target's pods, as of the last sync; nil: unknown. Guarded by autoscaler.mu
}

// HorizontalPodAutoscaler scales the targets of autoscalers by their metrics.
func HorizontalPodAutoscaler(env controller.Env) reconcile.Loop {
	r := &autoscaler{
		client: env.Client, events: env.Events, clock: env.Clock,
		hpas: client.CacheOf[*autoscalingv2.HorizontalPodAutoscaler](env.Caches, autoscalers), pods: env.Caches.Pods(),
		server: sync.OnceValues(func() (*server, error) { return newServer(env) }),
		states: map[objects.Key]*state{},
	}
	return reconcile.Loop{
		Name: "horizontalpodautoscaler", Sources: []reconcile.Source{reconcile.Watch(r.hpas)}, Reconcile: r.reconcile, Workers: workers,
	}
}

// reconcile syncs an autoscaler that is due. The period does not depend on changes or errors.
func (r *autoscaler) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	hpa, ok := r.hpas.Get(key)
	if !ok {
		r.mu.Lock()
		delete(r.states, key)
		r.mu.Unlock()
		return 0, nil
	}
	st := r.state(key, hpa.UID)
	if wait := st.due.Sub(r.clock.Now()); wait > 0 {
		return wait, nil
	}
	if err := r.sync(ctx, hpa.DeepCopy(), st); err != nil && ctx.Err() == nil {
		slog.DebugContext(ctx, "sync of an autoscaler failed", "controller", "horizontalpodautoscaler", "key", key.String(), "err", err)
	}
	st.due = r.clock.Now().Add(syncPeriod)
	return syncPeriod, nil
}

// state returns the state of an autoscaler and creates it for a new one.
func (r *autoscaler) state(key objects.Key, uid types.UID) *state {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.states[key]
	if st == nil || st.uid != uid {
		st = &state{uid: uid, due: r.clock.Now().Add(syncPeriod)}
		r.states[key] = st
	}
	return st
}

// run is one sync of an autoscaler.
type run struct {
	*autoscaler
	*state
	hpa *autoscalingv2.HorizontalPodAutoscaler // a copy, with the status that the sync writes
	now time.Time
}

// sync brings the target of an autoscaler to the number of replicas that its metrics require, and writes the status to hpa and to the
// API.
func (r *autoscaler) sync(ctx context.Context, hpa *autoscalingv2.HorizontalPodAutoscaler, st *state) error {
	s, err := r.server()
	if err != nil {
		return fmt.Errorf("connect to the API of metrics: %w", err)
	}
	u := &run{autoscaler: r, state: st, hpa: hpa, now: r.clock.Now()}
	stored := hpa.Status.DeepCopy()
	t, err := r.findTarget(ctx, s, hpa)
	if err != nil {
		u.warn(ctx, "FailedGetScale", err.Error())
		u.condition(autoscalingv2.AbleToScale, false, "FailedGetScale", fmt.Sprintf("the HPA controller was unable to get the target's current scale: %v", err))
		return errors.Join(err, u.writeStatus(ctx, stored))
	}
	u.condition(autoscalingv2.AbleToScale, true, "SucceededGetScale", "the HPA controller was able to get the target's current scale")
	if st.history.recommendations == nil {
		st.history.recommend(t.scale.Spec.Replicas, downscaleStabilization, u.now)
	}
	d, err := u.decide(ctx, s, t.scale)
	if d.failed {
		u.setStatus(t.scale.Spec.Replicas, hpa.Status.DesiredReplicas, d.metrics)
		err = errors.Join(err, u.writeStatus(ctx, stored))
		u.warn(ctx, "FailedComputeMetricsReplicas", d.message)
		return err
	}
	return errors.Join(err, u.apply(ctx, t, d), u.writeStatus(ctx, stored))
}

// apply scales the target to the decided number of replicas and sets the status.
func (u *run) apply(ctx context.Context, t target, d decision) error {
	current := t.scale.Spec.Replicas
	if d.replicas == current {
		u.setStatus(current, current, d.metrics)
		return nil
	}
	if err := u.rescale(ctx, t, d.replicas); err != nil {
		u.warn(ctx, "FailedRescale", fmt.Sprintf("New size: %d; reason: %s; error: %v", d.replicas, d.reason, err))
		u.condition(autoscalingv2.AbleToScale, false, "FailedUpdateScale", fmt.Sprintf("the HPA controller was unable to update the target scale: %v", err))
		u.setStatus(current, u.hpa.Status.DesiredReplicas, d.metrics)
		return err
	}
	u.condition(autoscalingv2.AbleToScale, true, "SucceededRescale", fmt.Sprintf("the HPA controller was able to update the target scale to %d", d.replicas))
	u.events.Event(ctx, u.hpa, corev1.EventTypeNormal, "SuccessfulRescale", fmt.Sprintf("New size: %d; reason: %s", d.replicas, d.reason))
	if b := u.hpa.Spec.Behavior; b != nil {
		u.history.scaled(rulesOf(b), current, d.replicas, u.now)
	}
	dropScaledToZero(&u.hpa.Status)
	u.setStatus(current, d.replicas, d.metrics)
	u.hpa.Status.LastScaleTime = new(controller.WholeSeconds(u.now))
	return nil
}

func (u *run) warn(ctx context.Context, reason, message string) {
	u.events.Event(ctx, u.hpa, corev1.EventTypeWarning, reason, message)
}

func (u *run) condition(kind autoscalingv2.HorizontalPodAutoscalerConditionType, holds bool, reason, message string) {
	setCondition(&u.hpa.Status, kind, holds, reason, message, controller.WholeSeconds(u.now))
}

// setStatus replaces the status except for its conditions and the last time of a change.
func (u *run) setStatus(current, desired int32, metrics []autoscalingv2.MetricStatus) {
	u.hpa.Status = autoscalingv2.HorizontalPodAutoscalerStatus{
		CurrentReplicas: current, DesiredReplicas: desired, CurrentMetrics: metrics,
		LastScaleTime: u.hpa.Status.LastScaleTime, Conditions: u.hpa.Status.Conditions,
	}
}

// writeStatus writes the status unless it equals the stored one.
func (u *run) writeStatus(ctx context.Context, stored *autoscalingv2.HorizontalPodAutoscalerStatus) error {
	if equality.Semantic.DeepEqual(stored, &u.hpa.Status) {
		return nil
	}
	at := client.In(autoscalers, controller.KeyOf(u.hpa)).Sub("status")
	_, err := u.client.Update(ctx, at, u.hpa.DeepCopy(), metav1.UpdateOptions{})
	if err != nil {
		u.warn(ctx, "FailedUpdateStatus", err.Error())
		return fmt.Errorf("update the status: %w", err)
	}
	return nil
}
