package bootstrap

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/networking"
)

const (
	// rangeManager is the field manager of the default ServiceCIDR's first condition, and the source of the Events about it.
	rangeManager = "kubernetes-service-cidr-controller"
	// rangeController is the field manager of the conditions that the ServiceCIDR controller sets.
	rangeController = "service-cidr-controller"
)

func (b *Bootstrap) newServiceRange() *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: kubernetesName, Finalizers: []string{networking.RangeFinalizer}},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{b.config.ServiceAddresses.Masked().String()}},
	}
}

func (b *Bootstrap) serviceRange(context.Context) ([]virtual, error) {
	return []virtual{{object: b.newServiceRange(), status: &status{rangeController, rangeStatus(b.created, rangeReady)}}}, nil
}

var (
	// rangeCreated is the condition of the default ServiceCIDR when it is created.
	rangeCreated = metav1.Condition{Status: metav1.ConditionTrue, Message: "Kubernetes default Service CIDR is ready"}
	// rangeReady is what the ServiceCIDR controller makes of it. The virtual one has it from the start, so that no start writes it.
	rangeReady = metav1.Condition{Status: metav1.ConditionTrue, Message: "Kubernetes Service CIDR is ready"}
)

// rangeStatus returns the status of a ServiceCIDR with one condition.
func rangeStatus(at metav1.Time, c metav1.Condition) map[string]any {
	condition := map[string]any{
		"type": networkingv1.ServiceCIDRConditionReady, "status": string(c.Status), "message": c.Message,
		"lastTransitionTime": at.UTC().Format(time.RFC3339),
	}
	if c.Reason != "" {
		condition["reason"] = c.Reason
	}
	return map[string]any{"conditions": []any{condition}}
}

// fitRange creates the ServiceCIDR kubernetes again when it was deleted, and sets its condition.
func (b *Bootstrap) fitRange(ctx context.Context) error {
	want := b.newServiceRange()
	if err := b.ensure(ctx, serviceRanges, want.DeepCopy()); err != nil {
		return err
	}
	obj, err := b.access.Reader.Get(ctx, serviceRanges.GroupResource(), objects.Key{Name: kubernetesName})
	if err != nil {
		return ignoreConflict(err)
	}
	have, ok := obj.(*networkingv1.ServiceCIDR)
	if !ok {
		return nil
	}
	ready := meta.FindStatusCondition(have.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	switch {
	case have.DeletionTimestamp != nil: // its condition is the controller's
	case !slices.Equal(have.Spec.CIDRs, want.Spec.CIDRs):
		b.rangeEvents.report(ctx, have, "KubernetesDefaultServiceCIDRInconsistent",
			fmt.Sprintf("The default ServiceCIDR %v does not match the controller flag configurations %s", have.Spec.CIDRs, want.Spec.CIDRs))
	case ready == nil || ready.Status == metav1.ConditionUnknown:
		return b.setRangeCondition(ctx, rangeManager, rangeCreated)
	case ready.Status == metav1.ConditionFalse:
		b.rangeEvents.report(ctx, have, ready.Reason, "Configuration matches, but "+ready.Message)
	}
	return nil
}

// onceReporter records each reason of an Event about the default ServiceCIDR once. Only the loop of the addresses uses it.
type onceReporter struct {
	events   *client.Recorder
	reported map[string]bool
}

func (o *onceReporter) report(ctx context.Context, about objects.Object, reason, message string) {
	if !o.reported[reason] {
		o.reported[reason] = true
		o.events.Event(ctx, about, corev1.EventTypeWarning, reason, message)
	}
}

func (b *Bootstrap) setRangeCondition(ctx context.Context, manager string, c metav1.Condition) error {
	data, err := json.Marshal(map[string]any{
		"apiVersion": networkingv1.SchemeGroupVersion.String(), "kind": "ServiceCIDR", "metadata": map[string]any{"name": kubernetesName},
		"status": rangeStatus(metav1.NewTime(b.config.Clock.Now()), c),
	})
	if err != nil {
		return err
	}
	t := client.In(serviceRanges, objects.Key{Name: kubernetesName}).Sub("status")
	_, err = b.access.Client(manager).Patch(ctx, t, client.Patch{Type: types.ApplyPatchType, Data: data},
		metav1.PatchOptions{FieldManager: manager, Force: new(true)})
	return ignoreConflict(err)
}
