package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

// attaches reports whether run attaches to the pod's container.
func attaches(cmd *cobra.Command) bool {
	if cmd.Flags().Changed("attach") {
		return cmdutil.GetFlagBool(cmd, "attach")
	}
	return cmdutil.GetFlagBool(cmd, "stdin")
}

// runAttached calls run, which is kubectl's and waits a minute for a container that cannot start, or runPiped. runAttached returns as soon as
// the kubelet reports such a container, with the kubelet's message. With --rm it deletes the pod.
func runAttached(cmd *cobra.Command, env *Env, args []string, run func()) error {
	name := args[0]
	namespace, _, err := env.Factory.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return err
	}
	clients, err := env.Factory.KubernetesClientSet()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	// A terminal needs kubectl's own attach, and with --expose kubectl also makes a Service, which --rm deletes.
	piped := !cmdutil.GetFlagBool(cmd, "tty") && !cmdutil.GetFlagBool(cmd, "expose")
	stopped := isBlocked
	if !piped { // runPiped has the error of a container that never ran
		stopped = func(pod *corev1.Pod) error { return cmp.Or(isBlocked(pod), neverRan(pod)) }
	}
	blocked, err := blockedPod(ctx, clients, namespace, name, stopped)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		if piped {
			done <- runPiped(cmd, env, clients, namespace, args)
		} else {
			run()
			done <- nil
		}
	}()
	select {
	case err := <-done:
		return err
	case err = <-blocked:
	}
	if len(args) > 1 && !cmdutil.GetFlagBool(cmd, "command") {
		err = fmt.Errorf("%w\n%q are the container's arguments; with --command they are its command", err, strings.Join(args[1:], " "))
	}
	if cmdutil.GetFlagBool(cmd, "rm") {
		if deleteErr := clients.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{}); deleteErr != nil && !apierrors.IsNotFound(deleteErr) {
			return fmt.Errorf("%w\ndelete pod %s: %w", err, name, deleteErr)
		}
	}
	return err
}

// blocked are the reasons of waiting containers that don't start unless the user changes something.
var blocked = []string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError", "CreateContainerError", "RunContainerError"}

// isBlocked returns the kubelet's message about a container that cannot start, nil if there is none.
func isBlocked(pod *corev1.Pod) error {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if waiting := c.State.Waiting; waiting != nil && slices.Contains(blocked, waiting.Reason) {
			return fmt.Errorf("pod/%s: container %s: %s: %s", pod.Name, c.Name, waiting.Reason, waiting.Message)
		}
	}
	return nil
}

// neverRan returns the error of a pod that has failed because a container could not be started, nil for others. kubectl attaches to such a pod,
// or reads its log, and says that it is terminated.
func neverRan(pod *corev1.Pod) error {
	couldNotStart := func(c corev1.ContainerStatus) bool {
		return c.State.Terminated != nil && c.State.Terminated.Reason == "StartError"
	}
	if pod.Status.Phase != corev1.PodFailed || !slices.ContainsFunc(pod.Status.ContainerStatuses, couldNotStart) {
		return nil
	}
	return failedContainer(pod)
}

// blockedPod watches for a new pod of this name, until ctx ends. The channel receives the first error that stopped returns.
func blockedPod(ctx context.Context, clients kubernetes.Interface, namespace, name string, stopped func(*corev1.Pod) error) (<-chan error, error) {
	pods := clients.CoreV1().Pods(namespace)
	selector := "metadata.name=" + name
	list, err := pods.List(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		return nil, err
	}
	w, err := pods.Watch(ctx, metav1.ListOptions{FieldSelector: selector, ResourceVersion: list.ResourceVersion})
	if err != nil {
		return nil, err
	}
	out := make(chan error, 1)
	go func() {
		defer w.Stop()
		created := false
		for ev := range w.ResultChan() {
			pod, ok := ev.Object.(*corev1.Pod)
			created = created || ev.Type == watch.Added
			if !ok || !created {
				continue
			}
			if err := stopped(pod); err != nil {
				out <- err
				return
			}
		}
	}()
	return out, nil
}
