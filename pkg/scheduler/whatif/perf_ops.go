package whatif

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// createNodes creates nodes, by default with 4 cores and 32 GiB.
type createNodes struct {
	Opcode                  string   `json:"opcode"`
	Count                   *float64 `json:"count"`
	CountParam              string   `json:"countParam"`
	NodeTemplatePath        string   `json:"nodeTemplatePath"`
	NodeAllocatableStrategy *struct {
		NodeAllocatable    map[corev1.ResourceName]string `json:"nodeAllocatable"`
		CSINodeAllocatable map[string]any                 `json:"csiNodeAllocatable"`
		MigratedPlugins    []string                       `json:"migratedPlugins"`
	} `json:"nodeAllocatableStrategy"`
	LabelNodePrepareStrategy *struct {
		LabelKey    string   `json:"labelKey"`
		LabelValues []string `json:"labelValues"`
	} `json:"labelNodePrepareStrategy"`
	UniqueNodeLabelStrategy *struct {
		LabelKey string `json:"labelKey"`
	} `json:"uniqueNodeLabelStrategy"`

	count       int
	template    *perfTemplate
	allocatable corev1.ResourceList
}

func (o *createNodes) prepare(b *perfBuild) {
	o.count = b.count(o.Count, o.CountParam, 0)
	if o.template = b.template("nodeTemplatePath", o.NodeTemplatePath); o.template != nil {
		if _, err := decodeTemplate[corev1.Node](o.template, 0, 1); err != nil {
			b.wrong("nodeTemplatePath", err.Error())
		}
	}
	if s := o.NodeAllocatableStrategy; s != nil {
		o.allocatable = corev1.ResourceList{}
		for name, text := range s.NodeAllocatable {
			q, err := resource.ParseQuantity(text)
			if err != nil {
				b.wrong(fmt.Sprintf("nodeAllocatableStrategy.nodeAllocatable[%s]", name), err.Error())
			}
			o.allocatable[name] = q
		}
		if len(s.CSINodeAllocatable) > 0 {
			b.unsupported("nodeAllocatableStrategy.csiNodeAllocatable", "persistent volumes are not simulated")
		}
		if len(s.MigratedPlugins) > 0 {
			b.unsupported("nodeAllocatableStrategy.migratedPlugins", "persistent volumes are not simulated")
		}
	}
	if s := o.LabelNodePrepareStrategy; s != nil && len(s.LabelValues) == 0 {
		b.wrong("labelNodePrepareStrategy.labelValues", "required")
	}
}

func (o *createNodes) run(ctx context.Context, r *perfRun) error {
	for i := range o.count {
		node := defaultNode(fmt.Sprintf("node-%d-", r.op))
		if o.template != nil {
			var err error
			if node, err = decodeTemplate[corev1.Node](o.template, i, o.count); err != nil {
				return err
			}
		}
		r.completeNode(node)
		maps.Copy(node.Status.Allocatable, o.allocatable)
		node.Labels[corev1.LabelHostname] = node.Name
		if s := o.LabelNodePrepareStrategy; s != nil {
			node.Labels[s.LabelKey] = s.LabelValues[i%len(s.LabelValues)]
		}
		if s := o.UniqueNodeLabelStrategy; s != nil {
			node.Labels[s.LabelKey] = node.Name
		}
		r.player.SetNode(ctx, node)
	}
	return nil
}

func defaultNode(prefix string) *corev1.Node {
	amounts := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("32Gi")}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}, Status: corev1.NodeStatus{Capacity: amounts}}
}

// createNamespaces creates the namespaces PREFIX-0, PREFIX-1, and so on.
type createNamespaces struct {
	Opcode                string   `json:"opcode"`
	Prefix                string   `json:"prefix"`
	Count                 *float64 `json:"count"`
	CountParam            string   `json:"countParam"`
	NamespaceTemplatePath string   `json:"namespaceTemplatePath"`

	count    int
	template *perfTemplate
}

func (o *createNamespaces) prepare(b *perfBuild) {
	o.count = b.count(o.Count, o.CountParam, 0)
	if o.template = b.template("namespaceTemplatePath", o.NamespaceTemplatePath); o.template != nil {
		if _, err := decodeTemplate[corev1.Namespace](o.template, 0, 1); err != nil {
			b.wrong("namespaceTemplatePath", err.Error())
		}
	}
}

func (o *createNamespaces) run(_ context.Context, r *perfRun) error {
	for i := range o.count {
		ns := &corev1.Namespace{}
		if o.template != nil {
			var err error
			if ns, err = decodeTemplate[corev1.Namespace](o.template, i, o.count); err != nil {
				return err
			}
		}
		ns.Name = fmt.Sprintf("%s-%d", o.Prefix, i)
		r.addNamespace(ns)
	}
	return nil
}

// createPods creates pods, and waits until they are scheduled or goes on.
type createPods struct {
	Opcode                            string          `json:"opcode"`
	Count                             *float64        `json:"count"`
	CountParam                        string          `json:"countParam"`
	SteadyState                       bool            `json:"steadyState"`
	SteadyStateParam                  string          `json:"steadyStateParam"`
	Duration                          metav1.Duration `json:"duration"`
	DurationParam                     string          `json:"durationParam"`
	CollectMetrics                    bool            `json:"collectMetrics"`
	Namespace                         *string         `json:"namespace"`
	PodTemplatePath                   string          `json:"podTemplatePath"`
	SkipWaitToCompletion              bool            `json:"skipWaitToCompletion"`
	PersistentVolumeTemplatePath      string          `json:"persistentVolumeTemplatePath"`
	PersistentVolumeClaimTemplatePath string          `json:"persistentVolumeClaimTemplatePath"`

	count    int
	duration time.Duration
	template *perfTemplate
}

func (o *createPods) prepare(b *perfBuild) {
	o.count = b.count(o.Count, o.CountParam, 0)
	o.duration = b.duration(o.Duration, o.DurationParam)
	if o.SteadyStateParam != "" {
		o.SteadyState, _ = paramOf[bool](b, "steadyStateParam", o.SteadyStateParam)
	}
	switch {
	case o.CollectMetrics && o.SkipWaitToCompletion:
		b.wrong("collectMetrics", "must not be true together with skipWaitToCompletion")
	case o.SteadyState && o.SkipWaitToCompletion:
		b.wrong("steadyState", "must not be true together with skipWaitToCompletion")
	case o.SteadyState && (o.duration <= 0 || o.duration > maxSleep):
		b.wrong("duration", "must be positive and at most a year in a steady state")
	case o.SteadyState && o.count == 0:
		b.wrong("count", "must be positive in a steady state")
	}
	if o.PersistentVolumeTemplatePath != "" {
		b.unsupported("persistentVolumeTemplatePath", "persistent volumes are not simulated")
	}
	if o.PersistentVolumeClaimTemplatePath != "" {
		b.unsupported("persistentVolumeClaimTemplatePath", "persistent volumes are not simulated")
	}
	o.template = b.podTemplate("podTemplatePath", o.PodTemplatePath)
}

func (o *createPods) run(ctx context.Context, r *perfRun) error {
	namespace := fmt.Sprintf("namespace-%d", r.op)
	if o.Namespace != nil {
		namespace = *o.Namespace
	}
	r.ensureNamespace(namespace)
	if o.CollectMetrics {
		if err := r.collect([]string{namespace}, nil); err != nil {
			return err
		}
		defer r.player.StopCollecting()
	}
	if o.SteadyState {
		return o.runSteadily(ctx, r, namespace)
	}
	if err := o.create(ctx, r, namespace); err != nil {
		return err
	}
	if o.SkipWaitToCompletion {
		r.expected[namespace] += o.count
		return nil
	}
	return r.wait(ctx, "pods of namespace "+namespace, func() (int, int) { return r.player.count(namespace, nil, false), o.count })
}

func (o *createPods) create(ctx context.Context, r *perfRun, namespace string) error {
	for i := range o.count {
		pod, err := r.makePod(o.template, i, o.count)
		if err == nil {
			pod.Namespace = namespace
			err = r.addPod(ctx, pod)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// runSteadily creates the pods again and again: once all are scheduled, they are deleted.
func (o *createPods) runSteadily(ctx context.Context, r *perfRun, namespace string) error {
	end := r.player.Elapsed() + o.duration
	for {
		if err := o.create(ctx, r, namespace); err != nil {
			return err
		}
		done, err := r.player.Run(ctx, func() bool { return r.player.count(namespace, nil, false) >= o.count }, end)
		if err != nil {
			return err
		}
		if !done {
			return r.player.wait(ctx, end)
		}
		r.deletePods(ctx, r.podsOf(namespace, nil))
	}
}

// createPodSets runs createPods in each of the namespaces PREFIX-0, PREFIX-1, and so on.
type createPodSets struct {
	Opcode          string     `json:"opcode"`
	Count           *float64   `json:"count"`
	CountParam      string     `json:"countParam"`
	NamespacePrefix string     `json:"namespacePrefix"`
	CreatePodsOp    createPods `json:"createPodsOp"`

	count int
}

func (o *createPodSets) prepare(b *perfBuild) {
	o.count = b.count(o.Count, o.CountParam, 0)
	at := b.at
	b.at += ".createPodsOp"
	o.CreatePodsOp.prepare(b)
	b.at = at
}

func (o *createPodSets) run(ctx context.Context, r *perfRun) error {
	for i := range o.count {
		one := o.CreatePodsOp
		one.Namespace = new(fmt.Sprintf("%s-%d", o.NamespacePrefix, i))
		if i > 0 {
			r.op++ // each is an operation of its own
		}
		if err := one.run(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// anyKinds are the kinds of objects that createAny creates.
var anyKinds = []string{"Node", "Pod", "Namespace", "PriorityClass"}

// createAny creates objects of a template.
type createAny struct {
	Opcode       string   `json:"opcode"`
	Namespace    string   `json:"namespace"`
	TemplatePath string   `json:"templatePath"`
	Count        *float64 `json:"count"`
	CountParam   string   `json:"countParam"`

	count    int
	template *perfTemplate
}

func (o *createAny) prepare(b *perfBuild) {
	o.count = b.count(o.Count, o.CountParam, 1)
	o.template = b.object("templatePath", o.TemplatePath, append([]string{"PodGroup"}, anyKinds...)...)
}

func (o *createAny) run(ctx context.Context, r *perfRun) error {
	if o.Namespace != "" {
		r.ensureNamespace(o.Namespace)
	}
	for i := range o.count {
		if _, err := r.create(ctx, o.template, o.Namespace, i, o.count); err != nil {
			return err
		}
	}
	return nil
}

// updateAny replaces nodes or pods by those of a template, which have their names.
type updateAny struct {
	Opcode          string   `json:"opcode"`
	Namespace       string   `json:"namespace"`
	TemplatePath    string   `json:"templatePath"`
	Count           *float64 `json:"count"`
	CountParam      string   `json:"countParam"`
	UpdatePerSecond float64  `json:"updatePerSecond"`
	Subresources    []string `json:"subresources"` // all fields are replaced in any case

	count    int
	template *perfTemplate
}

func (o *updateAny) prepare(b *perfBuild) {
	o.count = b.count(o.Count, o.CountParam, 1)
	o.template = b.object("templatePath", o.TemplatePath, "Node", "Pod")
	if o.UpdatePerSecond < 0 {
		b.wrong("updatePerSecond", "must not be negative")
	}
}

func (o *updateAny) run(ctx context.Context, r *perfRun) error {
	for i := range o.count {
		if err := r.pause(ctx, o.UpdatePerSecond); err != nil {
			return err
		}
		if err := r.update(ctx, o.template, o.Namespace, i, o.count); err != nil {
			return err
		}
	}
	return nil
}

// deletePods deletes pods of a namespace, at once or one after another.
type deletePods struct {
	Opcode               string            `json:"opcode"`
	Namespace            string            `json:"namespace"`
	LabelSelector        map[string]string `json:"labelSelector"`
	SkipWaitToCompletion bool              `json:"skipWaitToCompletion"`
	DeletePodsPerSecond  float64           `json:"deletePodsPerSecond"`
}

func (o *deletePods) prepare(b *perfBuild) {
	if o.DeletePodsPerSecond < 0 {
		b.wrong("deletePodsPerSecond", "must not be negative")
	}
}

func (o *deletePods) run(ctx context.Context, r *perfRun) error {
	pods := r.podsOf(o.Namespace, o.LabelSelector)
	if o.DeletePodsPerSecond == 0 {
		r.deletePods(ctx, pods)
		return nil
	}
	if o.SkipWaitToCompletion {
		for i, uid := range pods {
			r.player.At(r.player.Elapsed()+every(o.DeletePodsPerSecond)*time.Duration(i+1), func(ctx context.Context) error {
				r.deletePods(ctx, []types.UID{uid})
				return nil
			})
		}
		return nil
	}
	for _, uid := range pods {
		if err := r.pause(ctx, o.DeletePodsPerSecond); err != nil {
			return err
		}
		r.deletePods(ctx, []types.UID{uid})
	}
	return nil
}

// matches reports whether labels have all values of a selector.
func matches(selector, values map[string]string) bool {
	for key, value := range selector {
		if got, ok := values[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// every returns the time between two of so many a second.
func every(perSecond float64) time.Duration { return time.Duration(float64(time.Second) / perSecond) }
