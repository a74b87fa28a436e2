package stage

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/kwok"
)

type playKey struct {
	kind string
	key  objects.Key
}

// play is what an object waits for. It is used by the loop of the object's kind.
type play struct {
	uid     types.UID
	set     *set           // of which the Stage was drawn
	drawn   []*compiled    // the Stages that matched then
	stage   *compiled      // nil: none, or it is played
	due     time.Time      // of stage
	step    int            // the next one of stage, after a failure
	latest  objects.Object // the response of the last write, which may be newer than the cache
	seen    uint64         // the revision of the object that was matched last
	resume  bool           // the last Stage asks for a match with latest
	draws   int            // how many Stages were drawn
	instant int            // how many Stages without a delay were played in a row
}

const (
	// maxInstant is the number of Stages without a delay that an object may pass in a row. Further ones get a growing delay, since they
	// never end.
	maxInstant   = 16
	firstPenalty = time.Second
	lastPenalty  = 5 * time.Minute
)

// sync plays the Stage that is due for an object, and returns how long the next one has to wait.
func (e *Engine) sync(ctx context.Context, kind string, key objects.Key) (time.Duration, error) {
	obj := e.object(kind, key)
	stages := e.current.Load()
	if obj == nil || len(stages.of(kind)) == 0 || !e.Simulated(nodeOf(obj)) {
		e.forget(kind, key)
		return 0, nil
	}
	if e.silent(nodeOf(obj)) {
		return 0, nil // observe enqueues it when the node is back
	}
	p := e.playOf(kind, key, obj.GetUID())
	for {
		switch {
		case p.latest == nil:
		case objects.RevisionOf(p.latest) <= objects.RevisionOf(obj):
			p.latest = nil
		case p.stage == nil && !p.resume:
			return 0, nil // the watch will deliver what was written
		default:
			obj = p.latest
		}
		if !e.draw(ctx, p, stages, obj) {
			return 0, nil
		}
		if left := p.due.Sub(e.Clock.Now()); left > 0 {
			return left, nil
		}
		again, err := e.act(ctx, p, obj)
		if err != nil || !again {
			return 0, err
		}
	}
}

// silent reports whether a node is simulated as one that has no contact to the cluster.
func (e *Engine) silent(name string) bool {
	node, ok := e.nodes.Get(objects.Key{Name: name})
	return ok && isSilent(node)
}

func isSilent(node *corev1.Node) bool { return node.Annotations[kubelet.SimNode] == kubelet.SimDown }

// object returns a pod or node of the caches, nil without one.
func (e *Engine) object(kind string, key objects.Key) objects.Object {
	if kind == "Node" {
		if node, ok := e.nodes.Get(key); ok {
			return node
		}
		return nil
	}
	if pod, ok := e.pods.Get(key); ok {
		return pod
	}
	return nil
}

// nodeOf returns the node of a pod, or the node itself.
func nodeOf(obj objects.Object) string {
	if pod, ok := obj.(*corev1.Pod); ok {
		return pod.Spec.NodeName
	}
	return obj.GetName()
}

func (e *Engine) playOf(kind string, key objects.Key, uid types.UID) *play {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.plays[playKey{kind, key}]
	if p != nil && p.uid == uid {
		return p
	}
	if p != nil && e.pool != nil {
		e.pool.Release(p.uid)
	}
	p = &play{uid: uid}
	e.plays[playKey{kind, key}] = p
	return p
}

// forget removes the play of an object that is gone or no longer selected.
func (e *Engine) forget(kind string, key objects.Key) {
	e.mu.Lock()
	p := e.plays[playKey{kind, key}]
	delete(e.plays, playKey{kind, key})
	e.mu.Unlock()
	if p != nil && e.pool != nil && e.object(kind, key) == nil {
		e.pool.Release(p.uid)
	}
}

// draw draws the next Stage for an object whose state or Stages have changed. A Stage that is still among the same ones keeps its delay. It
// returns false if no Stage is due.
func (e *Engine) draw(ctx context.Context, p *play, stages *set, obj objects.Object) bool {
	if p.set == stages && p.seen == objects.RevisionOf(obj) && !p.resume {
		return p.stage != nil
	}
	now := e.Clock.Now()
	s := subjectOf(obj, now)
	matching := slices.DeleteFunc(slices.Clone(stages.of(s.kind)), func(c *compiled) bool { return !c.matches(s) })
	same := p.stage != nil && slices.Equal(p.drawn, matching)
	p.set, p.seen, p.drawn, p.resume = stages, objects.RevisionOf(obj), matching, false
	if same {
		return true
	}
	p.draws++
	src := e.Source.Of(fmt.Sprintf("stage %s %s/%s %d", s.kind, obj.GetNamespace(), obj.GetName(), p.draws))
	next := choose(matching, s, src)
	if next == nil {
		p.stage, p.instant = nil, 0
		return false
	}
	if next == p.stage {
		return true
	}
	delay := next.delay(s, src)
	if p.instant++; delay > 0 {
		p.instant = 0
	}
	if over := p.instant - maxInstant; over > 0 {
		delay = min(firstPenalty<<min(over-1, 20), lastPenalty)
		if over == 1 {
			e.recorder.Event(ctx, obj, corev1.EventTypeWarning, "StageLoop",
				fmt.Sprintf("%d Stages without a delay have followed each other, the last one is %s: it waits from now on", maxInstant, next.name))
		}
	}
	p.stage, p.step, p.due = next, 0, now.Add(delay)
	return true
}

// act makes the steps of the Stage that is due. It returns true if the Stages must be matched again at once. A step that fails for good is
// reported once, and the object rests until it changes.
func (e *Engine) act(ctx context.Context, p *play, obj objects.Object) (again bool, err error) {
	s, stage := subjectOf(obj, e.Clock.Now()), p.stage
	for ; p.step < len(stage.steps); p.step++ {
		written, err := e.make(ctx, &stage.steps[p.step], s)
		switch {
		case err == nil:
		case retriable(err):
			return false, err
		default:
			p.stage = nil
			if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && ctx.Err() == nil {
				text := fmt.Sprintf("Stage %s, step %d: %v", stage.name, p.step, err)
				e.recorder.Event(ctx, obj, corev1.EventTypeWarning, "StageFailed", text[:min(len(text), maxEvent)])
			}
			return false, nil
		}
		if written != nil && objects.RevisionOf(written) > objects.RevisionOf(obj) {
			p.latest = written
		}
	}
	p.stage = nil
	if stage.immediate && p.latest != nil {
		p.resume = true
		return true, nil
	}
	return false, nil
}

// retriable reports whether a request may succeed if it is made again.
func retriable(err error) bool {
	return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) || utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err)
}

// make makes one step, and returns the object that was written, if any.
func (e *Engine) make(ctx context.Context, st *step, s *subject) (objects.Object, error) {
	target := client.In(client.Pods, objects.Key{Namespace: s.object.GetNamespace(), Name: s.object.GetName()})
	if s.kind == "Node" {
		target.Resource = client.Nodes
	}
	switch {
	case st.event != nil:
		kind := st.event.Type
		if kind == "" {
			kind = corev1.EventTypeNormal
		}
		e.recorder.Event(ctx, s.object, kind, st.event.Reason, st.event.Message)
		return nil, nil
	case st.delete:
		uid := s.object.GetUID()
		_, err := e.Client.Delete(ctx, target, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &uid}})
		return nil, err
	case st.finalizers != nil:
		next, changed := changeFinalizers(s.object.GetFinalizers(), st.finalizers)
		if !changed {
			return nil, nil
		}
		p, err := finalizerPatch(s, next)
		if err != nil {
			return nil, err
		}
		return e.patch(ctx, target, p)
	}
	p, err := st.patch.make(s, Env{Now: e.Clock.Now(), Started: e.started, Node: nodeOf(s.object), Addresses: addresses{e, s.object}})
	if err != nil {
		return nil, err
	}
	return e.patch(ctx, target.Sub(st.patch.subresource), p)
}

func (e *Engine) patch(ctx context.Context, target client.Target, p client.Patch) (objects.Object, error) {
	got, err := e.Client.Patch(ctx, target, p, metav1.PatchOptions{FieldManager: kwok.Manager})
	if err != nil {
		return nil, err
	}
	written, ok := got.(objects.Object)
	if !ok {
		return nil, nil // a subresource with another kind
	}
	return written, nil
}

// addresses are those that templates read.
type addresses struct {
	engine *Engine
	object objects.Object
}

// NodeIP implements Addresses.
func (a addresses) NodeIP(name string) string {
	node, ok := a.engine.nodes.Get(objects.Key{Name: name})
	if !ok {
		return ""
	}
	for _, addr := range node.Status.Addresses {
		if addr.Type == corev1.NodeInternalIP {
			return addr.Address
		}
	}
	return ""
}

// NodePort implements Addresses.
func (a addresses) NodePort(name string) int32 {
	node, ok := a.engine.nodes.Get(objects.Key{Name: name})
	if !ok {
		return 0
	}
	return node.Status.DaemonEndpoints.KubeletEndpoint.Port
}

// PodIP implements Addresses.
func (a addresses) PodIP() (string, error) {
	pod, ok := a.object.(*corev1.Pod)
	switch {
	case !ok || a.engine.pool == nil:
		return "", nil
	case pod.Status.PodIP != "":
		return pod.Status.PodIP, nil
	}
	return a.engine.pool.Reserve(pod.UID)
}
