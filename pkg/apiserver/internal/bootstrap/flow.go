package bootstrap

import (
	"context"
	"encoding/json"
	"fmt"

	"golang.org/x/sync/errgroup"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/flowcontrol"
)

var (
	flowSchemas    = flowcontrolv1.SchemeGroupVersion.WithResource("flowschemas")
	priorityLevels = flowcontrolv1.SchemeGroupVersion.WithResource("prioritylevelconfigurations")
)

// flowConsumer is the field manager of the conditions of FlowSchemas, as in Kubernetes.
const flowConsumer = "api-priority-and-fairness-config-consumer-v1"

func levels(context.Context) ([]virtual, error) {
	return defaultsOf(copies(flowcontrol.SystemLevels())), nil
}

func (b *Bootstrap) flowSchemas(context.Context) ([]virtual, error) {
	var out []virtual
	for _, s := range copies(flowcontrol.SystemSchemas()) {
		condition := danglingCondition(s, true)
		condition.LastTransitionTime = b.created
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&flowcontrolv1.FlowSchemaStatus{Conditions: []flowcontrolv1.FlowSchemaCondition{condition}})
		if err != nil {
			return nil, err
		}
		out = append(out, virtual{object: s, status: &status{flowConsumer, fields}})
	}
	return out, nil
}

func copies[T interface{ DeepCopy() T }](list []T) []T {
	out := make([]T, 0, len(list))
	for _, v := range list {
		out = append(out, v.DeepCopy())
	}
	return out
}

// danglingCondition returns the condition of a FlowSchema whose priority level exists, or does not, without its time.
func danglingCondition(s *flowcontrolv1.FlowSchema, levelExists bool) flowcontrolv1.FlowSchemaCondition {
	c := flowcontrolv1.FlowSchemaCondition{
		Type: flowcontrolv1.FlowSchemaConditionDangling, Status: flowcontrolv1.ConditionFalse, Reason: "Found",
		Message: fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q and it exists", s.Spec.PriorityLevelConfiguration.Name),
	}
	if !levelExists {
		c.Status, c.Reason = flowcontrolv1.ConditionTrue, "NotFound"
		c.Message = fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q but there is no such object", s.Spec.PriorityLevelConfiguration.Name)
	}
	return c
}

// reconcileFlow creates again the default FlowSchemas and priority levels that a client has deleted, and sets the
// condition of each FlowSchema.
func (b *Bootstrap) reconcileFlow(ctx context.Context) error {
	schemasStored, err := b.store.isStored(ctx, flowSchemas.GroupResource())
	if err != nil {
		return err
	}
	levelsStored, err := b.store.isStored(ctx, priorityLevels.GroupResource())
	if err != nil || !schemasStored && !levelsStored {
		return err
	}
	for _, l := range copies(flowcontrol.SystemLevels()) {
		if err := b.ensure(ctx, priorityLevels, l); err != nil {
			return err
		}
	}
	for _, s := range copies(flowcontrol.SystemSchemas()) {
		if err := b.ensure(ctx, flowSchemas, s); err != nil {
			return err
		}
	}
	return b.setDangling(ctx)
}

func (b *Bootstrap) setDangling(ctx context.Context) error {
	list, err := b.access.Reader.List(ctx, priorityLevels.GroupResource(), "")
	if err != nil {
		return err
	}
	exists := map[string]bool{}
	for _, level := range list {
		exists[level.GetName()] = true
	}
	if list, err = b.access.Reader.List(ctx, flowSchemas.GroupResource(), ""); err != nil {
		return err
	}
	var all errgroup.Group // writes that wait together are committed together
	all.SetLimit(clock.AtOnce(ctx, -1))
	for _, obj := range list {
		if s, ok := obj.(*flowcontrolv1.FlowSchema); ok {
			all.Go(func() error { return b.setCondition(ctx, s, exists[s.Spec.PriorityLevelConfiguration.Name]) })
		}
	}
	return all.Wait()
}

// setCondition writes the condition of a FlowSchema, unless it has it.
func (b *Bootstrap) setCondition(ctx context.Context, s *flowcontrolv1.FlowSchema, levelExists bool) error {
	want := danglingCondition(s, levelExists)
	for _, c := range s.Status.Conditions {
		if c.Type == want.Type {
			want.LastTransitionTime = c.LastTransitionTime
			if c == want {
				return nil
			}
		}
	}
	want.LastTransitionTime = metav1.NewTime(b.config.Clock.Now())
	data, err := json.Marshal(map[string]any{
		"apiVersion": flowcontrolv1.SchemeGroupVersion.String(), "kind": "FlowSchema",
		"metadata": map[string]any{"name": s.Name, "uid": s.UID}, // a FlowSchema created since then is another object
		"status":   flowcontrolv1.FlowSchemaStatus{Conditions: []flowcontrolv1.FlowSchemaCondition{want}},
	})
	if err != nil {
		return err
	}
	t := client.In(flowSchemas, objects.Key{Name: s.Name}).Sub("status")
	_, err = b.access.Client(flowConsumer).Patch(ctx, t, client.Patch{Type: types.ApplyPatchType, Data: data},
		metav1.PatchOptions{FieldManager: flowConsumer, Force: new(true)})
	return ignoreConflict(err)
}
