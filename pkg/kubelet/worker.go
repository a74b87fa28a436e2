package kubelet

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/trace"
)

// worker is what a kubelet knows of one pod beside what the API and the runtime show.
type worker struct {
	*Kubelet
	uid types.UID
	key objects.Key

	tasks sync.WaitGroup // what goes on beside sync: hooks, stops, probes

	mu       sync.Mutex
	pod      *corev1.Pod // the newest state
	status   *corev1.PodStatus
	startAt  time.Time
	stages   []trace.Stage // of work beside sync, for the next status
	verdict  *verdict      // why the pod is to end; nil: it is not
	admitted bool
	ending   *ending
	removed  bool // nothing of it is left on this node

	back   map[string]backoff                      // by container
	pulls  map[string]pull                         // by image
	why    map[string]corev1.ContainerStateWaiting // why a container does not run, by its name
	failed []Container                             // starts that the runtime refused
	busy   map[string]corev1.ContainerStateWaiting // containers that are being started or stopped, and how they look meanwhile
	sick   map[ContainerID]*killing                // containers that a probe wants to be restarted
	health map[ContainerID]*condition
	probes map[ContainerID]context.CancelFunc
	config *volumes
}

// verdict says how a pod ends.
type verdict struct {
	phase           corev1.PodPhase // "": as its containers ended
	reason, message string
}

// ending is the way of a pod to its end.
type ending struct {
	grace   int64
	stopped bool // none of its containers runs, and none will
}

// condition is what the probes of a running container found.
type condition struct {
	started, ready bool
}

// finding is a pod that a runtime has.
type finding struct {
	uid types.UID
	on  *Kubelet
}

func (h *Host) find(key objects.Key, f finding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.found[key] = append(h.found[key], f)
}

func (h *Host) lose(key objects.Key, uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := slices.DeleteFunc(h.found[key], func(f finding) bool { return f.uid == uid })
	if len(left) == 0 {
		delete(h.found, key)
		return
	}
	h.found[key] = left
}

// syncKey brings all pods that have this name nearer to what they should be: the one in the API, and those that once had
// the name and are still in a runtime.
func (h *Host) syncKey(ctx context.Context, key objects.Key) (time.Duration, error) {
	pod, ok := h.pod(key)
	var after time.Duration
	var err error
	var uid types.UID
	if ok {
		uid = pod.UID
		if k := h.kubelet(pod.Spec.NodeName); k != nil {
			if len(trace.From(ctx).Causes) == 0 {
				ctx = trace.With(ctx, revisionOf(pod))
			}
			after, err = h.worker(k, key, uid).sync(ctx, pod)
		}
	}
	for _, w := range h.others(key, uid) {
		err = errors.Join(err, w.gone(ctx))
	}
	return after, err
}

// worker returns the worker of a pod and makes it when there is none.
func (h *Host) worker(k *Kubelet, key objects.Key, uid types.UID) *worker {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.workers[key] {
		if w.uid == uid {
			return w
		}
	}
	w := &worker{
		Kubelet: k, uid: uid, key: key, back: map[string]backoff{}, pulls: map[string]pull{},
		why: map[string]corev1.ContainerStateWaiting{}, busy: map[string]corev1.ContainerStateWaiting{},
		sick: map[ContainerID]*killing{}, health: map[ContainerID]*condition{}, probes: map[ContainerID]context.CancelFunc{},
	}
	h.workers[key] = append(h.workers[key], w)
	return w
}

// others returns the workers of the pods under key that are not uid, which are no more in the API.
func (h *Host) others(key objects.Key, uid types.UID) []*worker {
	h.mu.Lock()
	var unknown []finding
	for _, f := range h.found[key] {
		if f.uid != uid && !slices.ContainsFunc(h.workers[key], func(w *worker) bool { return w.uid == f.uid }) {
			unknown = append(unknown, f)
		}
	}
	h.mu.Unlock()
	for _, f := range unknown {
		h.worker(f.on, key, f.uid)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []*worker
	for _, w := range h.workers[key] {
		if w.uid != uid {
			out = append(out, w)
		}
	}
	return out
}

// forget drops a worker that has nothing left to do.
func (h *Host) forget(w *worker) {
	h.mu.Lock()
	left := slices.DeleteFunc(h.workers[w.key], func(o *worker) bool { return o == w })
	if len(left) == 0 {
		delete(h.workers, w.key)
	} else {
		h.workers[w.key] = left
	}
	h.mu.Unlock()
	h.refs.drop(w)
	h.posts.forget(w.uid)
}

// wait returns when nothing of the worker goes on any more.
func (w *worker) wait() {
	w.mu.Lock()
	for _, stop := range w.probes {
		stop()
	}
	w.mu.Unlock()
	w.tasks.Wait()
}

// event records an Event about the pod, or with a field path about one of its containers.
func (w *worker) event(ctx context.Context, pod *corev1.Pod, fieldPath, kind, reason, message string) {
	if w.recorder != nil && pod != nil {
		w.recorder.EventAbout(ctx, pod, fieldPath, kind, reason, message)
	}
}

// sync brings the pod nearer to what it should be.
func (w *worker) sync(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	w.mu.Lock()
	w.pod = pod
	if w.startAt.IsZero() {
		w.startAt = w.host.Clock.Now()
		if pod.Status.StartTime != nil {
			w.startAt = pod.Status.StartTime.Time
		}
	}
	removed, verdict, admitted := w.removed, w.verdict, w.admitted
	w.mu.Unlock()
	switch {
	case removed:
		return 0, nil
	case pod.DeletionTimestamp != nil || verdict != nil || isFinished(pod.Status.Phase):
		return 0, w.end(ctx, pod)
	case !admitted:
		if refusal := w.admit(ctx, pod); refusal != nil {
			w.event(ctx, pod, "", corev1.EventTypeWarning, refusal.reason, refusal.message)
			refusal.message = "Pod was rejected: " + refusal.message
			return 0, w.endWith(ctx, pod, *refusal)
		}
		w.warn(ctx, pod)
	}
	left, expired := w.deadline(pod)
	if expired {
		const message = "Pod was active on the node longer than the specified deadline"
		w.event(ctx, pod, "", corev1.EventTypeNormal, "DeadlineExceeded", message)
		return 0, w.endWith(ctx, pod, failure("DeadlineExceeded", message))
	}
	after, err := w.run(ctx, pod)
	return soonest(after, left), err
}

// maxWarning bounds the message of an Event.
const maxWarning = 1000

// warn says in an Event what the node will not do of what a new pod asks for.
func (w *worker) warn(ctx context.Context, pod *corev1.Pod) {
	if _, ok := w.view(w.uid); ok {
		return // the last kubelet has
	}
	if list := FieldWarnings(&pod.Spec, w.Tier); len(list) > 0 {
		text := strings.Join(list, "; ")
		w.event(ctx, pod, "", corev1.EventTypeWarning, notHonoured, text[:min(len(text), maxWarning)])
	}
}

// notHonoured is the reason of Events about what a node does not do.
const notHonoured = "NotHonoured"

func failure(reason, message string) verdict {
	return verdict{phase: corev1.PodFailed, reason: reason, message: message}
}

// endWith ends the pod for a reason of the kubelet's own.
func (w *worker) endWith(ctx context.Context, pod *corev1.Pod, v verdict) error {
	w.mu.Lock()
	w.verdict = &v
	w.mu.Unlock()
	return w.end(ctx, pod)
}

// deadline returns how long the pod may still be active; 0 is for ever.
func (w *worker) deadline(pod *corev1.Pod) (left time.Duration, expired bool) {
	if pod.Spec.ActiveDeadlineSeconds == nil {
		return 0, false
	}
	w.mu.Lock()
	since := w.startAt
	w.mu.Unlock()
	left = time.Duration(*pod.Spec.ActiveDeadlineSeconds)*time.Second - w.host.Clock.Since(since)
	return left, left <= 0
}

// soonest returns the shorter of two times to wait, where 0 is none.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// run brings a pod that shall run nearer to it.
func (w *worker) run(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	seen, again, err := w.sandbox(ctx, pod)
	if err != nil || again > 0 || seen.UID == "" {
		return again, err
	}
	var p plan
	var after time.Duration
	for {
		w.attend(ctx, pod, seen)
		p = planPod(pod, w.withFailed(seen), w.healthNow())
		if p.finish {
			return 0, w.endWith(ctx, pod, verdict{})
		}
		for _, k := range p.kill {
			w.restart(ctx, pod, k)
		}
		w.noteWaits(ctx, pod, p.waits)
		started := false
		for _, c := range p.start {
			ok, again := w.start(ctx, pod, seen, c)
			started, after = started || ok, soonest(after, again)
		}
		if !started {
			break
		}
		w.look(ctx, w.key)
		seen, _ = w.view(w.uid)
	}
	w.tidy(ctx, pod, seen)
	w.post(ctx, pod, seen)
	return soonest(soonest(after, p.after), w.refreshVolumes(ctx, pod)), nil
}

// sandbox makes what the pod's containers share, if it is not there. A positive time means: try again after it. A pod
// without a UID means: there is nothing to run.
func (w *worker) sandbox(ctx context.Context, pod *corev1.Pod) (Pod, time.Duration, error) {
	if seen, ok := w.view(w.uid); ok {
		return seen, 0, nil
	}
	if !w.Tier.Simulated && isFinished(w.post(ctx, pod, Pod{})) {
		return Pod{}, 0, w.endWith(ctx, pod, verdict{}) // it ran, the runtime has forgotten it, and it shall not run twice
	}
	again, err := w.mount(ctx, pod)
	if err != nil || again > 0 {
		return Pod{}, again, err
	}
	began := w.host.Clock.Now()
	if _, err := w.runtime.StartPod(ctx, podSpecFor(pod)); err != nil {
		w.event(ctx, pod, "", corev1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: "+err.Error())
		return Pod{}, 0, err
	}
	trace.Add(ctx, "sandbox", began, w.host.Clock.Since(began))
	w.look(ctx, w.key)
	seen, ok := w.view(w.uid)
	if !ok {
		return Pod{}, 0, errors.New("the runtime does not show the pod that it has started")
	}
	return seen, 0, nil
}

// withFailed adds the starts that the runtime refused to what it shows.
func (w *worker) withFailed(seen Pod) Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return seen.with(w.failed)
}

// with adds starts that were refused. One that the runtime shows all the same was not: its answer was lost.
func (p Pod) with(refused []Container) Pod {
	for _, c := range refused {
		if last, ok := p.latest(c.Name); !ok || last.Attempt < c.Attempt {
			p.Containers = append(slices.Clone(p.Containers), c)
		}
	}
	return p
}

func (w *worker) healthNow() health {
	w.mu.Lock()
	defer w.mu.Unlock()
	back := make(map[string]backoff, len(w.back))
	for name, b := range w.back {
		back[name] = b
	}
	return health{
		started: func(c Container) bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			h := w.health[c.ID]
			return h != nil && h.started
		},
		sick: func(c Container) *killing {
			w.mu.Lock()
			defer w.mu.Unlock()
			if k := w.sick[c.ID]; k != nil {
				copied := *k
				return &copied
			}
			return nil
		},
		back: back,
		busy: func(name string) bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			_, ok := w.busy[name]
			return ok
		},
		now: w.host.Clock.Now(),
	}
}

// noteWaits says of the containers that wait for their next start why they do.
func (w *worker) noteWaits(ctx context.Context, pod *corev1.Pod, list []waits) {
	for _, wait := range list {
		state := corev1.ContainerStateWaiting{
			Reason:  "CrashLoopBackOff",
			Message: "back-off " + wait.pause.String() + " restarting failed container=" + wait.spec.Name + " pod=" + title(pod),
		}
		if w.setWhy(wait.spec.Name, state) {
			_, path := container(pod, wait.spec.Name)
			w.event(ctx, pod, path, corev1.EventTypeWarning, "BackOff",
				"Back-off restarting failed container "+wait.spec.Name+" in pod "+title(pod))
		}
	}
}

// setWhy says why a container does not run and reports whether that is news.
func (w *worker) setWhy(name string, state corev1.ContainerStateWaiting) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.why[name] == state {
		return false
	}
	w.why[name] = state
	return true
}

// tidy removes all but the last two starts of each container, with their logs.
func (w *worker) tidy(ctx context.Context, pod *corev1.Pod, seen Pod) {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			attempts := seen.attempts(list[i].Name)
			for _, old := range attempts[min(2, len(attempts)):] {
				if old.Running {
					continue
				}
				if err := w.runtime.Remove(ctx, old.ID); err == nil {
					w.dropLog(pod, old)
				}
			}
		}
	}
}
