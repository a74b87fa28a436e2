// Package stage plays kwok's Stages for the pods and nodes of simulated nodes: it matches each object to the Stages of its kind, waits for
// the delay of the one that it has drawn, and then writes what the Stage says. Stages are API objects (kwok.x-k8s.io/v1alpha1), and the
// semantics are those of kwok (https://kwok.sigs.k8s.io/docs/user/stages-configuration/); docs/simulation.md lists the differences.
//
// Matching, delays and templates are functions of the object (compile.go, expression.go, template.go, step.go). The Engine is the shell
// around them. The kubelets ask it which objects they leave to Stages. Without Stages it only watches their definition.
package stage

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/kwok"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// Config configures an Engine.
type Config struct {
	Client    client.Client  // may change all pods and nodes, and the status of Stages
	Caches    *client.Caches // the caller runs them
	Clock     clock.Clock
	Source    *clock.Source
	Simulated func(node string) bool // reports whether a node is one whose pods are simulated
}

// Pool has the addresses of simulated pods.
type Pool interface {
	// Reserve returns the address of a pod, the same one until Release.
	Reserve(pod types.UID) (string, error)
	// Release frees the address of a pod. Idempotent.
	Release(pod types.UID)
}

// Engine plays the Stages of a cluster. It is safe for concurrent use.
type Engine struct {
	Config
	pool     Pool
	started  time.Time
	recorder *client.Recorder
	defs     *client.Cache[*apiextensionsv1.CustomResourceDefinition]
	pods     *client.Cache[*corev1.Pod]
	nodes    *client.Cache[*corev1.Node]
	current  atomic.Pointer[set]
	synced   chan struct{}
	changed  func() // called after the Stages have changed

	// Used by the loop of the Stages only.
	stages   *client.Cache[objects.Object] // nil while their definition is not established
	checked  map[types.UID]checkedStage
	isSynced bool

	mu     sync.Mutex
	queues queues
	plays  map[playKey]*play
}

// set is the Stages of a cluster, sorted by name. It is immutable.
type set struct{ pods, nodes []*compiled }

func (s *set) of(kind string) []*compiled {
	if kind == "Node" {
		return s.nodes
	}
	return s.pods
}

// queues are those of the Engine's loops, nil before Run.
type queues struct{ stages, pods, nodes reconcile.Enqueue }

var definitions = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// New returns an engine. Nothing is played before Run.
func New(cfg Config) (*Engine, error) {
	if cfg.Client == nil || cfg.Caches == nil || cfg.Clock == nil || cfg.Source == nil || cfg.Simulated == nil {
		return nil, errors.New("stages: Client, Caches, Clock, Source and Simulated are needed")
	}
	e := &Engine{
		Config: cfg, started: cfg.Clock.Now(), recorder: client.NewRecorder(cfg.Client, cfg.Clock, cfg.Source, "kwok_controller", ""),
		defs: client.CacheWhere[*apiextensionsv1.CustomResourceDefinition](cfg.Caches, definitions, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, kwok.DefinitionName).String(),
		}),
		pods: cfg.Caches.Pods(), nodes: cfg.Caches.Nodes(), synced: make(chan struct{}), changed: func() {},
		checked: map[types.UID]checkedStage{}, plays: map[playKey]*play{},
	}
	e.current.Store(&set{})
	return e, nil
}

// Follow calls f after the Stages have changed. It is called before Run.
func (e *Engine) Follow(f func()) { e.changed = f }

// SetPool sets the addresses of pods. It is called before Run.
func (e *Engine) SetPool(p Pool) { e.pool = p }

// Synced is closed once the Stages that exist at the start are in effect.
func (e *Engine) Synced() <-chan struct{} { return e.synced }

// HasNodeStages reports whether there is a Stage for nodes.
func (e *Engine) HasNodeStages() bool { return len(e.current.Load().nodes) > 0 }

// OwnsPod reports whether the kubelet leaves a pod to the Stages: one of them matches it, or one that selects it has changed it before.
// A pod that is being deleted belongs to the Stages only while one matches it.
func (e *Engine) OwnsPod(pod *corev1.Pod) bool {
	stages := e.current.Load().pods
	return len(stages) > 0 && owns(stages, subjectOf(pod, e.Clock.Now()), pod.DeletionTimestamp != nil)
}

// OwnsNode reports whether the kubelet leaves the status of a node to the Stages.
func (e *Engine) OwnsNode(node *corev1.Node) bool {
	stages := e.current.Load().nodes
	return len(stages) > 0 && owns(stages, subjectOf(node, e.Clock.Now()), false)
}

func owns(stages []*compiled, s *subject, deleted bool) bool {
	if slices.ContainsFunc(stages, func(c *compiled) bool { return c.matches(s) }) {
		return true
	}
	return !deleted && s.staged() && slices.ContainsFunc(stages, func(c *compiled) bool { return c.selects(s) })
}

// Run plays Stages until ctx ends.
func (e *Engine) Run(ctx context.Context) error {
	ctx, work := clock.Begin(ctx, e.Clock, "start of the Stages")
	defer work.End()
	var all, subscribed sync.WaitGroup
	subscribed.Add(3)
	loop := func(name string, queue *reconcile.Enqueue, sync func(context.Context, objects.Key) (time.Duration, error)) {
		l := reconcile.Loop{Name: name, Reconcile: sync, Sources: []reconcile.Source{func(_ context.Context, enqueue reconcile.Enqueue) {
			e.mu.Lock()
			*queue = enqueue
			e.mu.Unlock()
			subscribed.Done()
		}}}
		all.Go(func() { _ = l.Run(ctx, e.Clock) }) // it only returns nil
	}
	loop("stage", &e.queues.stages, e.syncStages)
	loop("stagepods", &e.queues.pods, func(ctx context.Context, key objects.Key) (time.Duration, error) { return e.sync(ctx, "Pod", key) })
	loop("stagenodes", &e.queues.nodes, func(ctx context.Context, key objects.Key) (time.Duration, error) { return e.sync(ctx, "Node", key) })
	all.Go(func() { _ = e.recorder.Run(ctx) })
	subscribed.Wait()
	e.defs.Subscribe(func(client.Change[*apiextensionsv1.CustomResourceDefinition]) { e.queues.stages(stagesKey, 0) })
	e.pods.Subscribe(func(ch client.Change[*corev1.Pod]) { e.observe("Pod", ch.Key(), ch.Revision, ch.Deleted()) })
	e.nodes.Subscribe(func(ch client.Change[*corev1.Node]) {
		e.observe("Node", ch.Key(), ch.Revision, ch.Deleted())
		if !ch.Added() && !ch.Deleted() && isSilent(ch.Old) && !isSilent(ch.New) {
			e.replayPods(func(pod *corev1.Pod) bool { return pod.Spec.NodeName == ch.New.Name })
		}
	})
	e.queues.stages(stagesKey, 0)
	work.End()
	all.Wait()
	return nil
}

// observe enqueues an object while there are Stages for its kind, and a deleted one that has been played.
func (e *Engine) observe(kind string, key objects.Key, revision uint64, deleted bool) {
	known := len(e.current.Load().of(kind)) > 0
	if !known && deleted {
		e.mu.Lock()
		_, known = e.plays[playKey{kind, key}]
		e.mu.Unlock()
	}
	if known {
		e.enqueue(kind, key, revision)
	}
}

func (e *Engine) enqueue(kind string, key objects.Key, revision uint64) {
	if kind == "Node" {
		e.queues.nodes(key, revision)
		return
	}
	e.queues.pods(key, revision)
}

// stagesKey is the only key of the loop of the Stages.
var stagesKey = objects.Key{Name: "stages"}

// syncStages puts the present Stages into effect.
func (e *Engine) syncStages(ctx context.Context, _ objects.Key) (time.Duration, error) {
	select { // without Idle: the cluster is not settled while callers wait for Synced
	case <-e.defs.Synced():
	case <-ctx.Done():
		return 0, nil
	}
	if err := e.follow(ctx); err != nil {
		return 0, nil //nolint:nilerr // only ctx ends it
	}
	next := &set{}
	var writes []stageStatus
	for _, s := range e.list() {
		c := e.check(s)
		if c.stage != nil && c.stage.kind == "Node" {
			next.nodes = append(next.nodes, c.stage)
		} else if c.stage != nil {
			next.pods = append(next.pods, c.stage)
		}
		writes = append(writes, stageStatus{s, c.errs})
	}
	if before := e.current.Load(); !slices.Equal(before.pods, next.pods) || !slices.Equal(before.nodes, next.nodes) {
		e.current.Store(next)
		e.replay(next)
		e.changed()
	}
	if !e.isSynced {
		e.isSynced = true
		close(e.synced)
	}
	var errs []error
	for _, w := range writes {
		errs = append(errs, e.writeStatus(ctx, w))
	}
	return 0, errors.Join(errs...)
}

// follow begins and ends the cache of the Stages with their definition.
func (e *Engine) follow(ctx context.Context) error {
	def, ok := e.defs.Get(objects.Key{Name: kwok.DefinitionName})
	served := ok && apihelpers.IsCRDConditionTrue(def, apiextensionsv1.Established)
	switch {
	case served && e.stages == nil:
		e.stages = client.CacheOf[objects.Object](e.Caches, kwok.Stages)
		e.stages.Subscribe(func(ch client.Change[objects.Object]) { e.queues.stages(stagesKey, ch.Revision) })
	case !served && e.stages != nil:
		e.Caches.Forget(kwok.Stages)
		e.stages = nil
	}
	if e.stages == nil {
		return nil
	}
	select {
	case <-e.stages.Synced():
	case <-ctx.Done():
	}
	return ctx.Err()
}

// replay enqueues the objects for which there are Stages now.
func (e *Engine) replay(s *set) {
	e.replayPods(func(*corev1.Pod) bool { return true })
	if len(s.nodes) > 0 {
		for _, node := range e.nodes.List("", nil) {
			e.queues.nodes(objects.Key{Name: node.Name}, 0)
		}
	}
}

// replayPods enqueues the pods that f selects, if there are Stages for pods.
func (e *Engine) replayPods(f func(*corev1.Pod) bool) {
	if len(e.current.Load().pods) == 0 {
		return
	}
	for _, pod := range e.pods.List("", nil) {
		if f(pod) {
			e.queues.pods(objects.Key{Namespace: pod.Namespace, Name: pod.Name}, 0)
		}
	}
}

// list returns the Stages, sorted by name.
func (e *Engine) list() []objects.Object {
	if e.stages == nil {
		return nil
	}
	all := e.stages.List("", nil)
	slices.SortFunc(all, func(a, b objects.Object) int { return strings.Compare(a.GetName(), b.GetName()) })
	present := map[types.UID]bool{}
	for _, s := range all {
		present[s.GetUID()] = true
	}
	for uid := range e.checked {
		if !present[uid] {
			delete(e.checked, uid)
		}
	}
	return all
}
