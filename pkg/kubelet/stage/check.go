package stage

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/kwok"
)

// checkedStage is the result of compiling a generation of a Stage.
type checkedStage struct {
	generation int64
	stage      *compiled // nil: it is invalid or selects nothing
	errs       field.ErrorList
}

// check compiles a Stage, unless this generation is compiled already.
func (e *Engine) check(obj objects.Object) checkedStage {
	c, ok := e.checked[obj.GetUID()]
	if ok && c.generation == obj.GetGeneration() {
		return c
	}
	c = checkedStage{generation: obj.GetGeneration()}
	s, err := decode(obj)
	if err != nil {
		c.errs = field.ErrorList{field.Invalid(field.NewPath("spec"), obj.GetName(), err.Error())}
	} else {
		c.stage, c.errs = compile(s)
	}
	e.checked[obj.GetUID()] = c
	return c
}

// decode converts an object of the API to a Stage.
func decode(obj objects.Object) (*kwok.Stage, error) {
	b, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	s := &kwok.Stage{}
	return s, json.Unmarshal(b, s)
}

// stageStatus is a Stage with its errors.
type stageStatus struct {
	object objects.Object
	errs   field.ErrorList
}

// The condition of a Stage that reports whether it is in effect.
const (
	conditionAccepted = "Accepted"
	reasonAccepted    = "Accepted"
	reasonInvalid     = "Invalid"
)

// writeStatus sets the condition Accepted of a Stage, and records an Event when it gets invalid.
func (e *Engine) writeStatus(ctx context.Context, s stageStatus) error {
	stage, err := decode(s.object)
	if err != nil {
		return nil //nolint:nilerr // check has reported it
	}
	wanted := metav1.Condition{
		Type: conditionAccepted, Status: metav1.ConditionTrue, Reason: reasonAccepted, Message: "the Stage is in effect",
		ObservedGeneration: s.object.GetGeneration(), LastTransitionTime: metav1.NewTime(e.Clock.Now()),
	}
	if err := s.errs.ToAggregate(); err != nil {
		const longest = 4000
		wanted.Status, wanted.Reason, wanted.Message = metav1.ConditionFalse, reasonInvalid, err.Error()
		wanted.Message = wanted.Message[:min(len(wanted.Message), longest)]
	}
	before := meta.FindStatusCondition(stage.Status.Conditions, conditionAccepted)
	// The definition may have no observedGeneration: kwok's has none.
	if before != nil && before.Status == wanted.Status && before.Message == wanted.Message {
		return nil
	}
	conditions := slices.Clone(stage.Status.Conditions)
	meta.SetStatusCondition(&conditions, wanted)
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": s.object.GetUID()}, "status": kwok.StageStatus{Conditions: conditions}})
	if err != nil {
		return err
	}
	target := client.Target{Resource: kwok.Stages, Name: s.object.GetName()}.Sub("status")
	_, err = e.Client.Patch(ctx, target, client.Patch{Type: types.MergePatchType, Data: data}, metav1.PatchOptions{FieldManager: kwok.Manager})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // deleted, or without a status
	}
	if err != nil {
		return fmt.Errorf("set the condition of stage %s: %w", s.object.GetName(), err)
	}
	if wanted.Status == metav1.ConditionFalse {
		e.recorder.Event(ctx, s.object, corev1.EventTypeWarning, "InvalidStage", wanted.Message[:min(len(wanted.Message), maxEvent)])
	}
	return nil
}

// maxEvent bounds the message of an Event.
const maxEvent = 1000
