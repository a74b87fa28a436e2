package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
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
	blocked, err := blockedPod(ctx, clients, namespace, name)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		// A terminal needs its own attach, and with --expose kubectl also makes a Service, which --rm deletes.
		if cmdutil.GetFlagBool(cmd, "tty") || cmdutil.GetFlagBool(cmd, "expose") {
			run()
			done <- nil
		} else {
			done <- runPiped(cmd, env, clients, namespace, args)
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
		if deleteErr := clients.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{}); deleteErr != nil {
			return fmt.Errorf("%w\ndelete pod %s: %w", err, name, deleteErr)
		}
	}
	return err
}

// blocked are the reasons of waiting containers that don't start unless the user changes something.
var blocked = []string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError", "CreateContainerError", "RunContainerError"}

// blockedPod watches for a new pod of this name, until ctx ends. The channel receives an error when one of its containers
// cannot start.
func blockedPod(ctx context.Context, clients kubernetes.Interface, namespace, name string) (<-chan error, error) {
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
			for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
				if waiting := c.State.Waiting; waiting != nil && slices.Contains(blocked, waiting.Reason) {
					out <- fmt.Errorf("pod/%s: container %s: %s: %s", name, c.Name, waiting.Reason, waiting.Message)
					return
				}
			}
		}
	}()
	return out, nil
}
