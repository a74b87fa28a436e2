package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubectl/pkg/polymorphichelpers"
)

// errDeleted ends a wait for an object that somebody has deleted.
var errDeleted = errors.New("it was deleted")

// Waiter shows what is coming up and waits until it is ready.
type Waiter struct {
	Clients kubernetes.Interface
	Say     func(line string) // called for each change that is worth a line, one call at a time

	saying sync.Mutex
}

func (w *Waiter) say(line string) {
	w.saying.Lock()
	defer w.saying.Unlock()
	w.Say(line)
}

// Wait returns when the object of info is ready: a workload rolled out, a pod ready (or succeeded), anything else as soon
// as it is there. It ends with an error when that cannot happen any more or ctx ends.
func (w *Waiter) Wait(ctx context.Context, info *resource.Info) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- w.showPods(ctx, info) }()
	err := w.ready(ctx, info)
	cancel()
	if shown := <-done; err == nil && shown != nil && !errors.Is(shown, context.Canceled) {
		err = shown
	}
	return err
}

func (w *Waiter) ready(ctx context.Context, info *resource.Info) error {
	said := ""
	for obj, err := range objects(ctx, info) {
		if err != nil {
			return fmt.Errorf("wait for %s: %w", name(info), err)
		}
		state, done, err := status(obj)
		if err != nil {
			return fmt.Errorf("%s: %w", name(info), err)
		}
		if state != "" && state != said {
			w.say(name(info) + "  " + state)
			said = state
		}
		if done {
			return nil
		}
	}
	return fmt.Errorf("wait for %s: %w", name(info), context.Cause(ctx))
}

// name is what kubectl calls an object: deployment.apps/web.
func name(info *resource.Info) string {
	gk := info.Mapping.GroupVersionKind.GroupKind()
	kind := strings.ToLower(gk.Kind)
	if gk.Group != "" {
		kind += "." + gk.Group
	}
	return kind + "/" + info.Name
}

// status says how far an object is.
func status(obj *unstructured.Unstructured) (state string, done bool, err error) {
	gk := obj.GroupVersionKind().GroupKind()
	if gk.Kind == "Pod" && gk.Group == "" {
		pod := &corev1.Pod{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, pod); err != nil {
			return "", false, err
		}
		if pod.Status.Phase == corev1.PodFailed {
			return "", false, fmt.Errorf("pod failed: %s %s", pod.Status.Reason, pod.Status.Message)
		}
		return "", podReady(pod) || pod.Status.Phase == corev1.PodSucceeded, nil
	}
	if gk.Kind == "CustomResourceDefinition" {
		return established(obj)
	}
	viewer, err := polymorphichelpers.StatusViewerFor(gk)
	if strategy, _, _ := unstructured.NestedString(obj.Object, "spec", "updateStrategy", "type"); err != nil || strategy == "OnDelete" {
		return replicas(obj) // no rollout is under way that could be viewed
	}
	state, done, err = viewer.Status(obj, 0)
	return strings.TrimSpace(state), done, err
}

// established says whether what a definition defines is served.
func established(obj *unstructured.Unstructured) (state string, done bool, err error) {
	conditions, _, err := unstructured.NestedSlice(obj.Object, "status", "conditions")
	if err != nil {
		return "", false, err
	}
	for _, one := range conditions {
		c, _ := one.(map[string]any)
		switch {
		case c["type"] == "Established" && c["status"] == "True":
			return "", true, nil
		case c["type"] == "NamesAccepted" && c["status"] == "False":
			return "", false, fmt.Errorf("its names are not accepted: %v", c["message"])
		}
	}
	return "", false, nil
}

// replicas is for kinds without a viewer: those of Kubernetes with replicas are ready when all of them are. Who acts on
// others, if anybody does, and how it shows, is not known.
func replicas(obj *unstructured.Unstructured) (string, bool, error) {
	switch obj.GroupVersionKind().Group {
	case "", "apps", "extensions":
	default:
		return "", true, nil
	}
	want, ok, err := unstructured.NestedInt64(obj.Object, "spec", "replicas")
	if err != nil || !ok {
		return "", true, err
	}
	ready, _, err := unstructured.NestedInt64(obj.Object, "status", "readyReplicas")
	observed, _, _ := unstructured.NestedInt64(obj.Object, "status", "observedGeneration")
	if err != nil {
		return "", false, err
	}
	return fmt.Sprintf("%d of %d replicas ready", ready, want), ready >= want && observed >= obj.GetGeneration(), nil
}

// objects yields the object of info now and at each change, and again after a watch has ended, until ctx ends.
func objects(ctx context.Context, info *resource.Info) func(yield func(*unstructured.Unstructured, error) bool) {
	return func(yield func(*unstructured.Unstructured, error) bool) {
		helper := resource.NewHelper(info.Client, info.Mapping)
		for ctx.Err() == nil {
			obj, err := helper.Get(info.Namespace, info.Name)
			if err != nil {
				yield(nil, err)
				return
			}
			u, err := asUnstructured(obj)
			if !yield(u, err) || err != nil {
				return
			}
			changes, err := helper.WatchSingle(info.Namespace, info.Name, u.GetResourceVersion())
			if err != nil {
				yield(nil, err)
				return
			}
			stop := context.AfterFunc(ctx, changes.Stop)
			for ev := range changes.ResultChan() {
				if ev.Type == watch.Deleted {
					err = errDeleted
				} else if ev.Type == watch.Error {
					break
				} else {
					u, err = asUnstructured(ev.Object)
				}
				if !yield(u, err) || err != nil {
					changes.Stop()
					stop()
					return
				}
			}
			changes.Stop()
			stop()
		}
	}
}

func asUnstructured(obj runtime.Object) (*unstructured.Unstructured, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u, nil
	}
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	return &unstructured.Unstructured{Object: m}, err
}

// showPods says what becomes of the pods that the object selects, until ctx ends.
func (w *Waiter) showPods(ctx context.Context, info *resource.Info) error {
	selector, err := podSelector(info.Object)
	if err != nil || selector == "" {
		return err // it has no pods
	}
	said := map[string]string{}
	for ctx.Err() == nil {
		changes, err := w.Clients.CoreV1().Pods(info.Namespace).Watch(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return err
		}
		for ev := range changes.ResultChan() {
			pod, ok := ev.Object.(*corev1.Pod)
			if !ok {
				break
			}
			if line := podLine(pod, ev.Type); line != said[pod.Name] {
				said[pod.Name] = line
				w.say(line)
			}
		}
		changes.Stop()
	}
	return ctx.Err()
}

// podSelector returns the selector of a workload's pods, or "" for what has none.
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
		set, _, err := unstructured.NestedStringMap(u.Object, "spec", "selector") // older than label selectors
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

func podLine(pod *corev1.Pod, change watch.EventType) string {
	state := podState(pod)
	if change == watch.Deleted {
		state = "gone"
	}
	line := fmt.Sprintf("pod/%s  %s", pod.Name, state)
	if pod.Spec.NodeName != "" {
		line += "  on " + pod.Spec.NodeName
	}
	if pod.Status.PodIP != "" {
		line += "  at " + pod.Status.PodIP
	}
	if why := obstacle(pod); why != "" {
		line += ": " + why
	}
	return line
}

// obstacle is what keeps a pod from running, in the words of who met it: the scheduler, or the kubelet.
func obstacle(pod *corev1.Pod) string {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if c.State.Waiting != nil && c.State.Waiting.Message != "" {
			return c.State.Waiting.Message
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// podState is the word that kubectl get shows, as far as one pod by itself tells it.
func podState(pod *corev1.Pod) string {
	if pod.DeletionTimestamp != nil {
		return "Terminating"
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if c.State.Waiting != nil && c.State.Waiting.Reason != "" && c.State.Waiting.Reason != "PodInitializing" {
			return c.State.Waiting.Reason
		}
	}
	if pod.Status.Phase == corev1.PodRunning && podReady(pod) {
		return "Running, ready"
	}
	return string(pod.Status.Phase)
}

func podReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// goneTimeout is how long a forced replacement waits for the old object to be gone.
const goneTimeout = 2 * time.Minute

// awaitGone waits until the object of info no longer exists.
func awaitGone(info *resource.Info) error {
	ctx, cancel := context.WithTimeout(context.Background(), goneTimeout) //nolint:forbidigo // kubectl's visitors have none
	defer cancel()
	for _, err := range objects(ctx, info) {
		if apierrors.IsNotFound(err) || errors.Is(err, errDeleted) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("timed out waiting for %s to be gone", name(info))
}
