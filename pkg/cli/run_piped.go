package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/kubectl/pkg/cmd/attach"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

// runPiped runs a pod, sends it the standard input and prints its log until it ends, without a terminal. kubectl prints the log so far and then
// attaches, and prints the log again if it can't: the output of a command that ends at once is printed twice, or is lost between the two.
func runPiped(cmd *cobra.Command, env *Env, clients kubernetes.Interface, namespace string, args []string) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
	defer stop()
	createUnattached(cmd, env, args)
	p := pipedPod{env: env, clients: clients, namespace: namespace, name: args[0]}
	err := p.run(ctx, cmd)
	if cmdutil.GetFlagBool(cmd, "rm") {
		deleteErr := clients.CoreV1().Pods(namespace).Delete(context.WithoutCancel(ctx), p.name, metav1.DeleteOptions{})
		if deleteErr == nil && !cmdutil.GetFlagBool(cmd, "quiet") {
			fmt.Fprintf(env.Out, "pod %q deleted from %s namespace\n", p.name, namespace)
		}
		err = errors.Join(err, deleteErr)
	}
	return err
}

// createUnattached creates the pod by kubectl's run with the flags of cmd.
func createUnattached(cmd *cobra.Command, env *Env, args []string) {
	streams := env.Streams()
	streams.Out = io.Discard
	run := newKubectlRun(env, streams)
	set := func(name, value string) { _ = run.Flags().Set(name, value) } // a value of the same flag is valid
	cmd.Flags().Visit(func(f *pflag.Flag) {
		same := run.Flags().Lookup(f.Name)
		list, isList := f.Value.(pflag.SliceValue)
		switch {
		case same == nil: // of the connection, which the factory has
		case isList:
			_ = same.Value.(pflag.SliceValue).Replace(list.GetSlice())
			same.Changed = true
		default:
			set(f.Name, f.Value.String())
		}
	})
	set("attach", "false")
	set("rm", "false")
	run.Run(run, args)
}

// pipedPod is a pod whose streams are connected with those of a command.
type pipedPod struct {
	env             *Env
	clients         kubernetes.Interface
	namespace, name string
}

// run returns the error of a container that has failed as kubectl does, with its exit code.
func (p pipedPod) run(ctx context.Context, cmd *cobra.Command) error {
	timeout, err := cmdutil.GetPodRunningTimeoutFlag(cmd)
	if err != nil {
		return err
	}
	pod, err := p.until(ctx, timeout, func(pod *corev1.Pod) bool { return pod.Status.Phase != corev1.PodPending })
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if cmdutil.GetFlagBool(cmd, "stdin") && pod.Status.Phase == corev1.PodRunning {
		go p.sendInput(ctx) // it may wait for a terminal that has no end
	}
	log, err := p.clients.CoreV1().Pods(p.namespace).GetLogs(p.name, &corev1.PodLogOptions{Container: p.name, Follow: true}).Stream(ctx)
	if err != nil {
		if failure := failedContainer(pod); failure != nil { // one that never ran has no log
			return failure
		}
		return err
	}
	defer log.Close()
	if _, err := io.Copy(p.env.Out, log); err != nil {
		return err
	}
	onFailure := pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure
	if cmdutil.GetFlagBool(cmd, "leave-stdin-open") || !onFailure && pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
		return nil
	}
	pod, err = p.until(ctx, timeout, func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed && !onFailure
	})
	if err != nil || pod.Status.Phase == corev1.PodSucceeded {
		return err
	}
	if failure := failedContainer(pod); failure != nil {
		return failure
	}
	return fmt.Errorf("pod %s/%s failed with unknown exit code", p.namespace, p.name)
}

// failedContainer returns the error of the first container of a pod that has failed, as kubectl prints it; nil if none has.
func failedContainer(pod *corev1.Pod) error {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
			return &ExitError{Code: int(t.ExitCode), Err: fmt.Errorf("pod %s/%s terminated (%s)\n%s", pod.Namespace, pod.Name, t.Reason, t.Message)}
		}
	}
	return nil
}

// until returns the pod once it is as required.
func (p pipedPod) until(ctx context.Context, timeout time.Duration, required func(*corev1.Pod) bool) (*corev1.Pod, error) {
	ctx, cancel := watchtools.ContextWithOptionalTimeout(ctx, timeout)
	defer cancel()
	one := cache.NewListWatchFromClient(p.clients.CoreV1().RESTClient(), "pods", p.namespace, fields.OneTermEqualSelector("metadata.name", p.name))
	ev, err := watchtools.UntilWithSync(ctx, one, &corev1.Pod{}, nil, func(ev watch.Event) (bool, error) {
		pod, ok := ev.Object.(*corev1.Pod)
		if ev.Type == watch.Deleted {
			return false, fmt.Errorf("pod %s/%s was deleted", p.namespace, p.name)
		}
		return ok && required(pod), nil
	})
	if err != nil {
		return nil, err
	}
	return ev.Object.(*corev1.Pod), nil
}

// sendInput sends the standard input to the container until one of the two ends.
func (p pipedPod) sendInput(ctx context.Context) {
	cfg, err := p.env.Factory.ToRESTConfig()
	if err == nil {
		to := p.clients.CoreV1().RESTClient().Post().Namespace(p.namespace).Resource("pods").Name(p.name).SubResource("attach").
			VersionedParams(&corev1.PodAttachOptions{Container: p.name, Stdin: true}, scheme.ParameterCodec).URL()
		err = (&attach.DefaultRemoteAttach{}).Attach(to, cfg, p.env.In, nil, nil, false, nil)
	}
	ended := err != nil && (strings.Contains(err.Error(), "container not found") || strings.Contains(err.Error(), "container is not running"))
	if err != nil && !ended && ctx.Err() == nil { // a container that has ended needs no input
		fmt.Fprintf(p.env.Err, "warning: the standard input of pod/%s: %v\n", p.name, err)
	}
}
