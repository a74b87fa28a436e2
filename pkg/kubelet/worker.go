package kubelet

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/trace"
)

// podWorker runs one pod. sync takes the pod from the API to the runtime and its status back; each part has one job and
// its own data. sync and removeOrphan are never called at the same time for a pod, so that data which only they use needs
// no lock.
type podWorker struct {
	podScope
	volumes   podVolumes
	images    podImages
	prober    prober
	lifecycle podLifecycle

	allocation allocation

	mu        sync.Mutex
	pod       *corev1.Pod       // the newest from the API
	status    *corev1.PodStatus // the newest that was generated
	startTime time.Time
	admitted  bool
	end       *podEnd       // why the kubelet ends the pod; nil: it does not
	ended     chan struct{} // closed when the final status is written; nil: nothing waits for it
	removed   bool          // the pod has no containers and files on this node any more
}

// podEnd is why a kubelet ends a pod.
type podEnd struct {
	phase           corev1.PodPhase // "": the containers' exit codes decide
	reason, message string
	disruption      bool   // the pod gets the condition DisruptionTarget
	grace           *int64 // the grace period in seconds, unless the pod's own is shorter; nil: the pod's own
}

func newPodWorker(k *Kubelet, key objects.Key, uid types.UID) *podWorker {
	w := &podWorker{}
	w.kubelet, w.uid, w.key = k, uid, key
	w.volumes.podScope, w.images.podScope, w.prober.podScope, w.lifecycle.podScope = &w.podScope, &w.podScope, &w.podScope, &w.podScope
	w.lifecycle.prober, w.lifecycle.volumes, w.lifecycle.images = &w.prober, &w.volumes, &w.images
	return w
}

// wait stops the probes and returns when no goroutine of the worker runs any more.
func (w *podWorker) wait() {
	w.prober.stop()
	w.tasks.Wait()
}

// sync takes the next steps of a pod: it admits and runs it, or ends it. A positive duration requests another sync after
// it.
func (w *podWorker) sync(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	w.mu.Lock()
	w.pod = pod
	if w.startTime.IsZero() {
		w.startTime = w.clock().Now()
		if pod.Status.StartTime != nil {
			w.startTime = pod.Status.StartTime.Time
		}
	}
	removed, end, admitted := w.removed, w.end, w.admitted
	w.mu.Unlock()
	switch {
	case removed:
		return 0, nil
	case pod.DeletionTimestamp != nil || end != nil || isFinished(pod.Status.Phase):
		return 0, w.terminate(ctx, pod)
	case !admitted:
		if rejection := w.admit(ctx, pod); rejection != nil {
			w.event(ctx, pod, "", corev1.EventTypeWarning, rejection.reason, rejection.message)
			rejection.message = "Pod was rejected: " + rejection.message
			return 0, w.terminateWith(ctx, pod, *rejection)
		}
		w.warnIgnoredFields(ctx, pod)
	}
	left, expired := w.deadline(pod)
	if expired {
		const message = "Pod was active on the node longer than the specified deadline"
		w.event(ctx, pod, "", corev1.EventTypeNormal, "DeadlineExceeded", message)
		return 0, w.terminateWith(ctx, pod, podEnd{phase: corev1.PodFailed, reason: "DeadlineExceeded", message: message})
	}
	pod = w.allocate(ctx, pod)
	after, err := w.run(ctx, pod)
	return soonest(soonest(after, left), w.retryResizeIn()), err
}

// maxWarning bounds the message of an Event.
const maxWarning = 1000

// notHonoured is the reason of Events about fields that a node ignores.
const notHonoured = "NotHonoured"

// warnIgnoredFields records an Event with the fields of a new pod that the node ignores. For a pod that the runtime
// already has, an earlier kubelet has recorded the Event.
func (w *podWorker) warnIgnoredFields(ctx context.Context, pod *corev1.Pod) {
	if _, ok := w.seen(); ok {
		return
	}
	if list := FieldWarnings(&pod.Spec, w.kubelet.Tier); len(list) > 0 {
		text := strings.Join(list, "; ")
		w.event(ctx, pod, "", corev1.EventTypeWarning, notHonoured, text[:min(len(text), maxWarning)])
	}
}

// deadline returns how long the pod may still be active; 0 means no limit.
func (w *podWorker) deadline(pod *corev1.Pod) (left time.Duration, expired bool) {
	if pod.Spec.ActiveDeadlineSeconds == nil {
		return 0, false
	}
	w.mu.Lock()
	since := w.startTime
	w.mu.Unlock()
	left = time.Duration(*pod.Spec.ActiveDeadlineSeconds)*time.Second - w.clock().Since(since)
	return left, left <= 0
}

// soonest returns the shorter of two waiting times, where 0 means not to wait.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// run takes the next steps of starting a pod: volumes, devices, sandbox, init containers, containers. It repeats them as long as
// containers start.
func (w *podWorker) run(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	seen, again, err := w.sandbox(ctx, pod)
	if err != nil || again > 0 || seen.UID == "" {
		return again, err
	}
	var p plan
	var after time.Duration
	var resizeErr error
	for {
		untilReady := w.prober.sync(ctx, pod, seen)
		p = planPod(pod, w.lifecycle.withRefused(seen), w.planInput())
		if p.finished {
			return 0, w.terminateWith(ctx, pod, podEnd{})
		}
		for _, k := range p.kill {
			w.lifecycle.restart(ctx, pod, k)
		}
		resized, err := w.resize(ctx, p.resize)
		if resizeErr == nil && err != nil {
			resizeErr, after = err, soonest(after, resizeRetry)
		}
		w.lifecycle.recordBackoffs(ctx, pod, p.backoff)
		started := false
		if len(p.start) > 0 {
			w.lifecycle.resolveVolumes(ctx, pod)
		}
		for _, c := range p.start {
			ok, again := w.lifecycle.start(ctx, pod, seen, c)
			started, after = started || ok, soonest(after, again)
		}
		after = soonest(after, untilReady)
		if started || resized {
			w.relist(ctx)
			seen, _ = w.seen()
		}
		if !started {
			break
		}
	}
	w.lifecycle.removeOld(ctx, pod, seen)
	w.trackResize(ctx, pod, seen, resizeErr)
	w.updateStatus(ctx, pod, seen)
	return soonest(soonest(after, p.after), w.volumes.refresh(ctx, pod)), nil
}

// sandbox returns the pod of the runtime, and starts it if needed. A positive duration requests another sync after it. A
// pod without a UID means that the pod must not run.
func (w *podWorker) sandbox(ctx context.Context, pod *corev1.Pod) (Pod, time.Duration, error) {
	if seen, ok := w.seen(); ok {
		return seen, 0, nil
	}
	if !w.simulated() && isFinished(w.updateStatus(ctx, pod, Pod{})) {
		return Pod{}, 0, w.terminateWith(ctx, pod, podEnd{}) // the pod has run, the runtime has lost it, and its policy forbids a restart
	}
	again, err := w.volumes.mount(ctx, pod)
	if err != nil || again > 0 {
		return Pod{}, again, err
	}
	if again := w.prepareDevices(ctx, pod); again > 0 {
		return Pod{}, again, nil
	}
	began := w.machineClock().Now()
	spec := podSpecFor(pod)
	if node := w.kubelet.currentNode(); node != nil {
		spec.PodCIDR = node.Spec.PodCIDR
	}
	if !w.simulated() {
		spec.Hostname, err = fullHostname(pod)
	}
	if err == nil {
		_, err = w.runtime().StartPod(ctx, spec)
	}
	if err != nil {
		w.event(ctx, pod, "", corev1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: "+err.Error())
		return Pod{}, 0, err
	}
	trace.Add(ctx, "sandbox", began, w.machineClock().Since(began))
	w.relist(ctx)
	seen, ok := w.seen()
	if !ok {
		return Pod{}, 0, errors.New("the runtime does not list the pod that it has started")
	}
	return seen, 0, nil
}

// planInput returns what a plan needs beside the pod and the runtime's view of it.
func (w *podWorker) planInput() planInput {
	_, resizable := w.runtime().(Resizer)
	return planInput{probes: &w.prober, lifecycle: &w.lifecycle, now: w.clock().Now(), resizable: resizable}
}

// terminateWith ends the pod for a reason that the kubelet has found, such as an eviction or a deadline.
func (w *podWorker) terminateWith(ctx context.Context, pod *corev1.Pod, end podEnd) error {
	w.mu.Lock()
	w.end = &end
	w.mu.Unlock()
	return w.terminate(ctx, pod)
}

// requestEnd makes the next sync end the pod, unless the kubelet ends it already. The channel is closed when the final status is written.
func (w *podWorker) requestEnd(end podEnd) <-chan struct{} {
	w.mu.Lock()
	if w.end == nil {
		w.end = &end
	}
	if w.ended == nil {
		w.ended = make(chan struct{})
	}
	ended := w.ended
	w.mu.Unlock()
	w.enqueue()
	return ended
}

// isEnding reports whether the kubelet ends the pod.
func (w *podWorker) isEnding() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.end != nil
}

// statusWritten reports that a status of the pod is in the API, or that the pod is not.
func (w *podWorker) statusWritten(final bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if final && w.ended != nil {
		select {
		case <-w.ended:
		default:
			close(w.ended)
		}
	}
}

// grace returns how many seconds the pod has to end.
func (w *podWorker) grace(pod *corev1.Pod) int64 {
	grace := gracePeriod(pod)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.end != nil && w.end.grace != nil {
		grace = min(grace, max(*w.end.grace, minGrace))
	}
	return grace
}

// terminate takes the next steps of ending a pod: it stops the containers, removes the volumes, and posts the final
// status. It removes a deleted pod from the runtime and from the API.
func (w *podWorker) terminate(ctx context.Context, pod *corev1.Pod) error {
	w.allocation.observe(pod)
	w.kubelet.resizes.remove(w)
	pod = w.allocation.apply(pod)
	seen, known := w.seen()
	if !w.lifecycle.stop(ctx, pod, seen, w.grace(pod)) {
		w.updateStatus(ctx, pod, seen)
		return nil
	}
	if pod.DeletionTimestamp == nil {
		w.volumes.remove()
		w.updateStatus(ctx, pod, seen)
		return nil
	}
	in := w.statusInput(pod, seen)
	status := in.generate()
	w.setRemoved(true)
	if known {
		if err := w.runtime().StopPod(ctx, w.uid); err != nil {
			w.setRemoved(false)
			return err
		}
		w.relist(ctx)
	}
	w.volumes.remove()
	w.volumes.removeDirs(pod) // before the API deletes the pod: the next kubelet finds no trace of a deleted one
	w.postLastStatus(ctx, status)
	return nil
}

func (w *podWorker) setRemoved(removed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removed = removed
}

// removeOrphan stops and removes a pod that is no longer in the API.
func (w *podWorker) removeOrphan(ctx context.Context) error {
	seen, known := w.seen()
	w.mu.Lock()
	pod := w.pod
	w.mu.Unlock()
	if pod == nil {
		pod = orphanedPod(seen)
	}
	if !w.lifecycle.stop(ctx, pod, seen, w.grace(pod)) {
		return nil
	}
	w.volumes.remove()
	w.volumes.removeDirs(pod) // before the runtime removes the pod: only its listing leads to the files
	if known {
		if err := w.runtime().StopPod(ctx, w.uid); err != nil {
			return err
		}
		w.relist(ctx)
	}
	w.kubelet.host.dropWorker(w)
	return nil
}

// orphanedPod makes a pod object of a pod that only the runtime has.
func orphanedPod(seen Pod) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID = seen.Namespace, seen.Name, seen.UID
	for _, c := range seen.Containers {
		if found, _ := container(pod, c.Name); found == nil {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c.Name, Image: c.Image.Name})
		}
	}
	return pod
}

// updateStatus generates the pod's status, hands it to the status manager if it has changed, and returns the phase.
func (w *podWorker) updateStatus(ctx context.Context, pod *corev1.Pod, seen Pod) corev1.PodPhase {
	in := w.statusInput(pod, seen)
	status := in.generate()
	report := trace.From(ctx)
	w.mu.Lock()
	same := w.status != nil && equalStatus(*w.status, status)
	if !same { // an equal one shares its memory with the pod that the API has stored
		w.status = &status
	}
	w.mu.Unlock()
	if !same {
		report.Stages = append(report.Stages, w.prober.takeStages()...)
		w.kubelet.host.postStatus(w.key, &statusUpdate{worker: w, status: status, report: report})
	}
	return status.Phase
}

// postLastStatus hands the pod's last status to the status manager, which deletes the pod after it.
func (w *podWorker) postLastStatus(ctx context.Context, status corev1.PodStatus) {
	w.mu.Lock()
	w.status = &status
	w.mu.Unlock()
	w.kubelet.host.postStatus(w.key, &statusUpdate{worker: w, status: status, last: true, report: trace.From(ctx)})
}

// lastStatus returns the newest status that was generated, or the API's before the first.
func (w *podWorker) lastStatus(pod *corev1.Pod) corev1.PodStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.status != nil {
		return *w.status
	}
	return pod.Status
}
