package whatif

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// churn creates, or creates and deletes, objects until the workload ends. Services have no effect on scheduling.
type churn struct {
	Opcode               string   `json:"opcode"`
	Mode                 string   `json:"mode"`
	Number               int      `json:"number"`
	IntervalMilliseconds int64    `json:"intervalMilliseconds"`
	Namespace            *string  `json:"namespace"`
	TemplatePaths        []string `json:"templatePaths"`

	templates []*perfTemplate
}

func (o *churn) prepare(b *perfBuild) {
	if o.Mode != "create" && o.Mode != "recreate" {
		b.wrong("mode", fmt.Sprintf("%q is not one of [create recreate]", o.Mode))
	}
	if o.Number < 0 || o.Number > maxCount || o.Number == 0 && o.Mode == "recreate" {
		b.wrong("number", fmt.Sprintf("%d is not in its range, which ends with %d and begins with 0 in the mode create, with 1 in the mode recreate", o.Number, maxCount))
	}
	if o.IntervalMilliseconds < 0 {
		b.wrong("intervalMilliseconds", "must not be negative")
	}
	if len(o.TemplatePaths) == 0 {
		b.wrong("templatePaths", "required")
	}
	for i, path := range o.TemplatePaths {
		o.templates = append(o.templates, b.object(fmt.Sprintf("templatePaths[%d]", i), path, append(anyKinds, "Service")...))
	}
}

func (o *churn) run(_ context.Context, r *perfRun) error {
	namespace := fmt.Sprintf("namespace-%d", r.op)
	if o.Namespace != nil {
		namespace = *o.Namespace
	}
	if !r.namespaces[namespace] {
		r.addNamespace(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	}
	interval := 500 * time.Millisecond
	if o.IntervalMilliseconds > 0 {
		interval = time.Duration(o.IntervalMilliseconds) * time.Millisecond
	}
	// remove deletes what the tick before the last Number ticks created; nil: nothing is there.
	remove := make([][]func(context.Context), len(o.templates))
	ticks := 0
	var tick func(ctx context.Context) error
	tick = func(ctx context.Context) error {
		for i, t := range o.templates {
			if o.Mode == "create" {
				if _, err := r.create(ctx, t, namespace, 0, 1); err != nil {
					return err
				}
				continue
			}
			if remove[i] == nil {
				remove[i] = make([]func(context.Context), o.Number)
			}
			slot := &remove[i][ticks%o.Number]
			if *slot != nil {
				(*slot)(ctx)
				*slot = nil
				continue
			}
			var err error
			if *slot, err = r.create(ctx, t, namespace, 0, 1); err != nil {
				return err
			}
		}
		if ticks++; o.Mode == "recreate" || o.Number == 0 || ticks < o.Number {
			r.player.At(r.player.Elapsed()+interval, tick)
		}
		return nil
	}
	r.player.At(r.player.Elapsed()+interval, tick)
	return nil
}

// barrier waits until pods are scheduled, or have been tried.
type barrier struct {
	Opcode           string            `json:"opcode"`
	Namespaces       []string          `json:"namespaces"`
	LabelSelector    map[string]string `json:"labelSelector"`
	StageRequirement string            `json:"stageRequirement"`
}

func (o *barrier) prepare(b *perfBuild) {
	if !slices.Contains([]string{"", "Scheduled", "Attempted"}, o.StageRequirement) {
		b.wrong("stageRequirement", fmt.Sprintf("%q is not one of [Scheduled Attempted]", o.StageRequirement))
	}
}

func (o *barrier) run(ctx context.Context, r *perfRun) error {
	namespaces := o.Namespaces
	if len(namespaces) == 0 {
		namespaces = slices.Sorted(maps.Keys(r.expected))
	}
	attempted := o.StageRequirement == "Attempted"
	for _, ns := range namespaces {
		want, ok := r.expected[ns]
		if !ok {
			return fmt.Errorf("unknown namespace %s", ns)
		}
		if err := r.wait(ctx, "pods of namespace "+ns, func() (int, int) { return r.player.count(ns, o.LabelSelector, attempted), want }); err != nil {
			return err
		}
	}
	if !attempted {
		for _, ns := range namespaces {
			delete(r.expected, ns)
		}
	}
	return nil
}

// maxSleep bounds what an operation waits.
const maxSleep = 365 * 24 * time.Hour

// sleep lets time pass.
type sleep struct {
	Opcode        string          `json:"opcode"`
	Duration      metav1.Duration `json:"duration"`
	DurationParam string          `json:"durationParam"`

	duration time.Duration
}

func (o *sleep) prepare(b *perfBuild) {
	if o.duration = b.duration(o.Duration, o.DurationParam); o.duration < 0 || o.duration > maxSleep {
		b.wrong("duration", "must not be negative, and at most a year")
	}
}

func (o *sleep) run(ctx context.Context, r *perfRun) error {
	return r.player.wait(ctx, r.player.Elapsed()+o.duration)
}

// startCollecting begins to collect figures of the pods of some namespaces.
type startCollecting struct {
	Opcode        string            `json:"opcode"`
	Name          string            `json:"name"`
	Namespaces    []string          `json:"namespaces"`
	LabelSelector map[string]string `json:"labelSelector"`
}

func (o *startCollecting) prepare(b *perfBuild) {
	if len(o.Namespaces) == 0 {
		b.wrong("namespaces", "required")
	}
}

func (o *startCollecting) run(_ context.Context, r *perfRun) error {
	return r.collect(o.Namespaces, o.LabelSelector)
}

// stopCollecting ends what startCollecting began.
type stopCollecting struct {
	Opcode string `json:"opcode"`
}

func (*stopCollecting) prepare(*perfBuild) {}

func (*stopCollecting) run(_ context.Context, r *perfRun) error {
	if r.player.collects == nil {
		return errors.New("no figures are collected")
	}
	r.player.StopCollecting()
	return nil
}
