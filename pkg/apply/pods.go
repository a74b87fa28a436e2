package apply

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/minikctl/minikctl/pkg/clock"
)

// signals are sent by a podWatcher to the wait for its object.
type signals struct {
	failed    chan error    // receives one error, once a pod can't start
	restarted chan struct{} // receives a value when a container has restarted
}

// podWatcher reports the changes of an object's pods and finds the ones that can't start.
type podWatcher struct {
	*Waiter
	signals
	info *resource.Info

	owners map[types.UID]types.UID // of ReplicaSets: the UID of their controller

	mu      sync.Mutex
	pods    map[string]*corev1.Pod // the object's pods by name
	blocked *corev1.Pod            // the pod of the error in failed
}

func newPodWatcher(w *Waiter, info *resource.Info) *podWatcher {
	s := signals{failed: make(chan error, 1), restarted: make(chan struct{}, 1)}
	return &podWatcher{Waiter: w, signals: s, info: info, pods: map[string]*corev1.Pod{}}
}

// run watches the object's pods until ctx ends. It returns at once for an object without pods.
func (p *podWatcher) run(ctx context.Context) error {
	opts, ok, err := podsOf(p.info)
	if err != nil || !ok {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var warner sync.WaitGroup
	defer func() { cancel(); warner.Wait() }()
	warnings := make(chan *corev1.Event)
	warner.Go(func() { p.watchWarnings(ctx, warnings) })
	r := podReporter{podWatcher: p, object: Name(p.info), warnings: map[types.UID]string{}, reported: map[string]Progress{}}
	for ctx.Err() == nil {
		changes, err := p.Clients.CoreV1().Pods(p.info.Namespace).Watch(ctx, opts)
		if err != nil {
			return err
		}
		err = r.follow(ctx, changes.ResultChan(), warnings)
		changes.Stop()
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// podReporter reports each pod when its progress changes.
type podReporter struct {
	*podWatcher
	object   string
	warnings map[types.UID]string // the last of watchWarnings by pod
	reported map[string]Progress  // the last progress by pod
}

// follow reports the changes of a watch of pods until it ends, and the warnings meanwhile.
func (r *podReporter) follow(ctx context.Context, changes <-chan watch.Event, warnings <-chan *corev1.Event) error {
	for {
		select {
		case warning := <-warnings:
			r.warnings[warning.InvolvedObject.UID] = joined(warning.Reason, warning.Message)
			r.mu.Lock()
			pod := r.pods[warning.InvolvedObject.Name]
			r.mu.Unlock()
			if pod != nil {
				r.reportPod(pod, watch.Modified)
			}
		case ev := <-changes:
			pod, ok := ev.Object.(*corev1.Pod)
			if !ok {
				return nil // the watch has ended
			}
			own, err := r.owns(ctx, pod)
			if err != nil {
				return err
			}
			if own {
				r.reportPod(pod, ev.Type)
				r.note(ctx, pod, ev.Type)
			}
		}
	}
}

// reportPod reports a pod whose progress has changed.
func (r *podReporter) reportPod(pod *corev1.Pod, change watch.EventType) {
	if now := podProgress(r.object, pod, change, r.warnings[pod.UID]); now != r.reported[pod.Name] {
		r.reported[pod.Name] = now
		r.report(now)
	}
}

// note records the pod for explain, and signals a restart of it or that it can't start.
func (p *podWatcher) note(ctx context.Context, pod *corev1.Pod, change watch.EventType) {
	p.mu.Lock()
	if before := p.pods[pod.Name]; before != nil && restarts(pod) > restarts(before) {
		select {
		case p.restarted <- struct{}{}:
		default: // the last signal is not received yet
		}
	}
	if change == watch.Deleted {
		delete(p.pods, pod.Name)
	} else {
		p.pods[pod.Name] = pod
	}
	p.mu.Unlock()
	if change == watch.Deleted || pod.DeletionTimestamp != nil {
		return
	}
	err := blockedBy(pod, p.info.Mapping.GroupVersionKind.Kind != "Job")
	if err == nil || p.outdated(ctx, pod) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.blocked == nil {
		p.blocked = pod
		p.failed <- err
	}
}

// restarts returns the number of restarts of the pod's containers.
func restarts(pod *corev1.Pod) int32 {
	var n int32
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		n += c.RestartCount
	}
	return n
}

// owns reports whether the pod belongs to the object: by owner references, since selectors of several objects may overlap.
func (p *podWatcher) owns(ctx context.Context, pod *corev1.Pod) (bool, error) {
	m, err := meta.Accessor(p.info.Object)
	if err != nil {
		return false, err
	}
	owner := metav1.GetControllerOf(pod)
	switch {
	case pod.UID == m.GetUID():
		return true, nil
	case owner == nil:
		return false, nil
	case owner.UID == m.GetUID():
		return true, nil
	case owner.Kind != "ReplicaSet" || p.info.Mapping.GroupVersionKind.Kind != "Deployment":
		return false, nil
	}
	if _, ok := p.owners[owner.UID]; !ok {
		sets, err := p.Clients.AppsV1().ReplicaSets(p.info.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		p.owners = map[types.UID]types.UID{owner.UID: ""}
		for i := range sets.Items {
			if of := metav1.GetControllerOf(&sets.Items[i]); of != nil {
				p.owners[sets.Items[i].UID] = of.UID
			}
		}
	}
	return p.owners[owner.UID] == m.GetUID(), nil
}

// revisionAnnotation numbers the ReplicaSets of a Deployment; the newest has the highest number.
const revisionAnnotation = "deployment.kubernetes.io/revision"

// outdated reports whether the pod is of an older ReplicaSet of the Deployment: the rollout replaces it.
func (p *podWatcher) outdated(ctx context.Context, pod *corev1.Pod) bool {
	owner, m := metav1.GetControllerOf(pod), metav1.Object(nil)
	if acc, err := meta.Accessor(p.info.Object); err == nil {
		m = acc
	}
	if owner == nil || m == nil || owner.UID == m.GetUID() {
		return false
	}
	sets, err := p.Clients.AppsV1().ReplicaSets(p.info.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return true // unknown: the pod's next change is checked again
	}
	newest, own := 0, 0
	for i := range sets.Items {
		of := metav1.GetControllerOf(&sets.Items[i])
		revision, err := strconv.Atoi(sets.Items[i].Annotations[revisionAnnotation])
		if of == nil || of.UID != m.GetUID() || err != nil {
			continue
		}
		newest = max(newest, revision)
		if sets.Items[i].UID == owner.UID {
			own = revision
		}
	}
	return own < newest
}

// imageReasons are the reasons of waiting containers whose image is not available. minikctl pulls no images, so that
// another attempt fails, too.
var imageReasons = []string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}

// blockedBy returns why the pod can't start, nil while it may. A container that has crashed and is backing off counts if
// crashes is set.
func blockedBy(pod *corev1.Pod, crashes bool) error {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		w := c.State.Waiting
		if w != nil && (slices.Contains(imageReasons, w.Reason) || crashes && w.Reason == "CrashLoopBackOff") {
			return fmt.Errorf("pod %s: container %s: %s", pod.Name, c.Name, joined(w.Reason, w.Message))
		}
	}
	return nil
}

const (
	explainTimeout = 5 * time.Second
	logLines       = 5
)

// explain adds the last Event and the last log lines of a pod that is not ready to err.
func (p *podWatcher) explain(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	pod := p.blockingPod()
	if pod == nil {
		return err
	}
	text := []string{err.Error()}
	if why := obstacle(pod); why != "" && !strings.Contains(text[0], why) {
		text = append(text, fmt.Sprintf("pod %s: %s: %s", pod.Name, podState(pod), why))
	}
	if event := p.lastEvent(ctx, pod); event != "" {
		text = append(text, "last event of pod "+pod.Name+": "+event)
	}
	text = append(text, p.lastLogs(ctx, pod)...)
	if len(text) == 1 {
		return err
	}
	return explained{err, strings.Join(text, "\n")}
}

// explained is an error with a longer text.
type explained struct {
	error
	text string
}

func (e explained) Error() string { return e.text }
func (e explained) Unwrap() error { return e.error }

// blockingPod returns the pod that keeps the object from being current: one that can't start, or else the newest one that is
// not ready.
func (p *podWatcher) blockingPod() *corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.blocked != nil {
		return p.blocked
	}
	var newest *corev1.Pod
	for _, pod := range p.pods {
		if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || podReady(pod) {
			continue
		}
		if newest == nil || newest.CreationTimestamp.Before(&pod.CreationTimestamp) {
			newest = pod
		}
	}
	return newest
}

// lastEvent returns the last Event of the pod, of those in the same second a Warning. The kubelet posts the Event of a
// failure after the status, so lastEvent lists again until a Warning is there, at most eventTries times.
func (p *podWatcher) lastEvent(ctx context.Context, pod *corev1.Pod) string {
	var last corev1.Event
	for range eventTries {
		list, err := p.Clients.CoreV1().Events(pod.Namespace).List(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", string(pod.UID)).String(),
		})
		if err != nil {
			return ""
		}
		if len(list.Items) > 0 {
			last = slices.MaxFunc(list.Items, compareEvents)
		}
		if last.Type == corev1.EventTypeWarning || clock.Sleep(ctx, p.Clock, eventPause) != nil {
			break
		}
	}
	return joined(last.Reason, last.Message)
}

const (
	eventTries = 5
	eventPause = 100 * time.Millisecond
)

func compareEvents(a, b corev1.Event) int {
	warning := func(e corev1.Event) int {
		if e.Type == corev1.EventTypeWarning {
			return 1
		}
		return 0
	}
	return cmp.Or(eventTime(a).Truncate(time.Second).Compare(eventTime(b).Truncate(time.Second)), cmp.Compare(warning(a), warning(b)))
}

func eventTime(e corev1.Event) time.Time {
	for _, t := range []time.Time{e.LastTimestamp.Time, e.EventTime.Time, e.CreationTimestamp.Time} {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

// lastLogs returns the last log lines of the pod's container that ended last or is not ready.
func (p *podWatcher) lastLogs(ctx context.Context, pod *corev1.Pod) []string {
	all := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	i := slices.IndexFunc(all, func(c corev1.ContainerStatus) bool {
		return !c.Ready && (c.State.Running != nil || c.State.Terminated != nil && c.State.Terminated.ExitCode != 0 || c.LastTerminationState.Terminated != nil)
	})
	if i < 0 {
		return nil
	}
	c, tail := all[i], int64(logLines)
	stream, err := p.Clients.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
		Container: c.Name, TailLines: &tail, Previous: c.State.Waiting != nil,
	}).Stream(ctx)
	if err != nil {
		return nil
	}
	defer stream.Close()
	b, err := io.ReadAll(stream)
	if err != nil || len(b) == 0 {
		return nil
	}
	out := []string{fmt.Sprintf("log of pod %s, container %s:", pod.Name, c.Name)}
	for line := range strings.SplitSeq(strings.TrimRight(string(b), "\n"), "\n") {
		out = append(out, "  "+line)
	}
	return out
}

// podsOf returns the options that list the object's pods; ok is false for an object without pods.
func podsOf(info *resource.Info) (opts metav1.ListOptions, ok bool, err error) {
	if info.Mapping.GroupVersionKind.GroupKind() == (schema.GroupKind{Kind: "Pod"}) {
		return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", info.Name).String()}, true, nil
	}
	selector, err := podSelector(info.Object)
	return metav1.ListOptions{LabelSelector: selector}, selector != "", err
}

// podSelector returns the selector of a workload's pods, or "" for an object without pods.
func podSelector(obj runtime.Object) (string, error) {
	u, err := asUnstructured(obj)
	if err != nil {
		return "", err
	}
	raw, ok, err := unstructured.NestedMap(u.Object, "spec", "selector")
	if _, isWorkload, _ := unstructured.NestedMap(u.Object, "spec", "template"); !ok || !isWorkload || err != nil {
		return "", err
	}
	if u.GroupVersionKind().GroupKind() == (schema.GroupKind{Kind: "ReplicationController"}) {
		set, _, err := unstructured.NestedStringMap(u.Object, "spec", "selector") // a plain map, no LabelSelector
		return labels.Set(set).String(), err
	}
	parsed := &metav1.LabelSelector{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, parsed); err != nil {
		return "", err
	}
	selector, err := metav1.LabelSelectorAsSelector(parsed)
	if err != nil {
		return "", err
	}
	return selector.String(), nil
}
