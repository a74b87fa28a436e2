package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"

	"golang.org/x/sync/errgroup"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

var (
	flowSchemas    = flowcontrolv1.SchemeGroupVersion.WithResource("flowschemas")
	priorityLevels = flowcontrolv1.SchemeGroupVersion.WithResource("prioritylevelconfigurations")
)

// flowConsumer is who tells how FlowSchemas are, by Kubernetes' name.
const flowConsumer = "api-priority-and-fairness-config-consumer-v1"

// flowStatus remembers for which FlowSchemas and priority levels the conditions of the schemas were last told.
type flowStatus struct {
	mu              sync.Mutex
	schemas, levels uint64
}

// fitFlowSchemas tells of each FlowSchema whether its priority level is there. It is called before a request of their group
// is answered and after it has written, and looks at them only if some have changed.
func (s *Server) fitFlowSchemas(ctx context.Context) error {
	f := &s.flowStatus
	f.mu.Lock()
	defer f.mu.Unlock()
	r := s.engine.Reader()
	schemas, err := r.State(ctx, flowSchemas.GroupResource())
	if err != nil {
		return err
	}
	levels, err := r.State(ctx, priorityLevels.GroupResource())
	if err != nil || f.schemas == schemas.Changes && f.levels == levels.Changes {
		return err
	}
	there := map[string]bool{}
	list, err := r.List(ctx, priorityLevels.GroupResource(), "")
	if err != nil {
		return err
	}
	for _, level := range list {
		there[level.GetName()] = true
	}
	list, err = r.List(ctx, flowSchemas.GroupResource(), "")
	if err != nil {
		return err
	}
	var all errgroup.Group // writes that wait together are committed together
	for _, obj := range list {
		if schema, ok := obj.(*flowcontrolv1.FlowSchema); ok {
			all.Go(func() error { return s.fitFlowSchema(ctx, schema, there[schema.Spec.PriorityLevelConfiguration.Name]) })
		}
	}
	if err := all.Wait(); err != nil {
		return err
	}
	f.schemas, f.levels = schemas.Changes, levels.Changes
	return nil
}

// fitFlowSchema writes the condition if it is not what it should be.
func (s *Server) fitFlowSchema(ctx context.Context, schema *flowcontrolv1.FlowSchema, levelThere bool) error {
	want := flowcontrolv1.FlowSchemaCondition{
		Type: flowcontrolv1.FlowSchemaConditionDangling, Status: flowcontrolv1.ConditionFalse, Reason: "Found",
		Message: fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q and it exists", schema.Spec.PriorityLevelConfiguration.Name),
	}
	if !levelThere {
		want.Status, want.Reason = flowcontrolv1.ConditionTrue, "NotFound"
		want.Message = fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q but there is no such object", schema.Spec.PriorityLevelConfiguration.Name)
	}
	for _, c := range schema.Status.Conditions {
		if c.Type == want.Type {
			want.LastTransitionTime = c.LastTransitionTime
			if c == want {
				return nil
			}
		}
	}
	want.LastTransitionTime = metav1.NewTime(s.clock.Now())
	data, err := json.Marshal(map[string]any{
		"apiVersion": flowcontrolv1.SchemeGroupVersion.String(), "kind": "FlowSchema",
		"metadata": map[string]any{"name": schema.Name, "uid": schema.UID}, // the one that was looked at, or none
		"status":   flowcontrolv1.FlowSchemaStatus{Conditions: []flowcontrolv1.FlowSchemaCondition{want}},
	})
	if err != nil {
		return err
	}
	force := true
	of := metav1.PatchOptions{FieldManager: flowConsumer, Force: &force}
	t := client.In(flowSchemas, objects.Key{Name: schema.Name}).Sub("status")
	_, err = s.Client(self, flowConsumer).Patch(ctx, t, client.Patch{Type: types.ApplyPatchType, Data: data}, of)
	return unlessMeanwhile(err)
}

// flowSchemasChanged is called when somebody may have written one, or a priority level.
func (s *Server) flowSchemasChanged(ctx context.Context) {
	if err := s.fitFlowSchemas(ctx); err != nil && ctx.Err() == nil {
		slog.WarnContext(ctx, "tell how the FlowSchemas are", "err", err)
	}
}
